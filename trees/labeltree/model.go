package labeltree

import (
	"fmt"
	"math"
	"slices"
)

// Model is a tree of classifiers in flat arrays, which may be views of a file. Nodes are numbered level by
// level, the root is 0; the first Inner ones have nodes as children, the others labels.
type Model struct {
	Cols, Labels, Inner int
	// ClassPtr has the first child of each node, and the number of all. Target is the node or label of a child,
	// Offset the offset of its classifier.
	ClassPtr []uint32
	Target   []uint32
	Offset   []float32
	// FeaturePtr has the first element of each node in Feature, which lists the features with weights, ascending
	// in a node, and WeightPtr the first of a feature in Weight. A weight has the number of the child within its
	// node in the upper half, and in the lower one the upper half of a float32.
	FeaturePtr []uint32
	Feature    []uint32
	WeightPtr  []uint32
	Weight     []uint32
}

// maxChildren is the largest number of children of a node.
const maxChildren = 1 << 16

// pack returns a weight of a child as stored, rounded to the nearest.
func pack(child int, w float32) uint32 {
	bits := math.Float32bits(w)
	bits += 0x7fff + bits>>16&1
	return uint32(child)<<16 | bits>>16
}

// weightOf returns the weight of a packed one.
func weightOf(packed uint32) float32 { return math.Float32frombits(packed << 16) }

// Nodes returns the number of nodes.
func (m *Model) Nodes() int { return max(len(m.ClassPtr)-1, 0) }

// children returns the range of the children of a node.
func (m *Model) children(node int) (first, end int) {
	return int(m.ClassPtr[node]), int(m.ClassPtr[node+1])
}

// Validate checks the arrays, so that predictions do not read outside of them and end. O(size). Errors:
// ErrModel.
func (m *Model) Validate() error {
	n := m.Nodes()
	switch {
	case n < 1 || m.Inner < 0 || m.Inner >= n || m.Cols < 0 || m.Labels < 1:
		return fmt.Errorf("%w: %d nodes, %d of them with nodes as children", ErrModel, n, m.Inner)
	case len(m.FeaturePtr) != n+1 || len(m.WeightPtr) != len(m.Feature)+1 || len(m.Offset) != len(m.Target):
		return fmt.Errorf("%w: lengths of arrays", ErrModel)
	}
	for _, p := range []struct {
		what string
		ptr  []uint32
		end  int
	}{
		{"children", m.ClassPtr, len(m.Target)}, {"features", m.FeaturePtr, len(m.Feature)},
		{"weights", m.WeightPtr, len(m.Weight)},
	} {
		if p.ptr[0] != 0 || int(p.ptr[len(p.ptr)-1]) != p.end || !slices.IsSorted(p.ptr) {
			return fmt.Errorf("%w: %s are not in sequence", ErrModel, p.what)
		}
	}
	if err := m.validateTargets(); err != nil {
		return err
	}
	for node := range n {
		if err := m.validateNode(node); err != nil {
			return err
		}
	}
	return nil
}

// validateTargets checks that every node but the root is the child of one node before it, and every label of
// one at most, and that all labels are at the same level.
func (m *Model) validateTargets() error {
	next := 1 // the node that is the next child
	level := make([]uint8, m.Nodes())
	known := make([]bool, m.Labels)
	for node := range m.Nodes() {
		first, end := m.children(node)
		if first == end || end-first > maxChildren {
			return fmt.Errorf("%w: node %d has %d children", ErrModel, node, end-first)
		}
		for c := first; c < end; c++ {
			t := int(m.Target[c])
			switch {
			case node < m.Inner:
				if t != next || t >= m.Nodes() || level[node] > 8 {
					return fmt.Errorf("%w: child %d of node %d is node %d", ErrModel, c-first, node, t)
				}
				level[t], next = level[node]+1, next+1
			case t >= m.Labels || known[t] || level[node] != level[m.Nodes()-1]:
				return fmt.Errorf("%w: child %d of node %d is label %d", ErrModel, c-first, node, t)
			default:
				known[t] = true
			}
			if x := m.Offset[c]; x-x != 0 {
				return fmt.Errorf("%w: offset %g", ErrModel, x)
			}
		}
	}
	if next != m.Nodes() {
		return fmt.Errorf("%w: %d nodes, %d of them in the tree", ErrModel, m.Nodes(), next)
	}
	return nil
}

// validateNode checks the weights of a node.
func (m *Model) validateNode(node int) error {
	first, end := m.children(node)
	from, to := m.FeaturePtr[node], m.FeaturePtr[node+1]
	for e := from; e < to; e++ {
		if int(m.Feature[e]) >= m.Cols || e > from && m.Feature[e] <= m.Feature[e-1] {
			return fmt.Errorf("%w: feature %d of node %d", ErrModel, m.Feature[e], node)
		}
		for _, w := range m.Weight[m.WeightPtr[e]:m.WeightPtr[e+1]] {
			if x := weightOf(w); int(w>>16) >= end-first || x-x != 0 {
				return fmt.Errorf("%w: weight %g of child %d of node %d", ErrModel, x, w>>16, node)
			}
		}
	}
	return nil
}
