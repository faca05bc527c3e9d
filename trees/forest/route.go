package forest

import (
	"fmt"
	"math"
)

// Coordinates returns the coordinates of the vector x that the nodes compare: x
// itself, or for rp its projections, in z if it is large enough. Per-node directions
// (pca) also read x itself.
func (f *Forest) Coordinates(x, z []float32) []float32 {
	if f.Coord != CoordProjected {
		return x
	}
	n := len(f.Proj.Ptr) - 1
	if cap(z) < n {
		z = make([]float32, n)
	}
	z = z[:n]
	for i := range z {
		lo, hi := f.Proj.Ptr[i], f.Proj.Ptr[i+1]
		z[i] = sparseDot(f.Proj.Idx[lo:hi], f.Proj.Val[lo:hi], x)
	}
	return z
}

// value returns the coordinate that the node in a slot compares.
func (f *Forest) value(slot int, z []float32) float32 {
	if f.Coord == CoordDirections {
		w := f.DirWidth
		return sparseDot(f.DirIdx[slot*w:(slot+1)*w], f.DirVal[slot*w:(slot+1)*w], z)
	}
	return z[f.Nodes[slot].Dim]
}

// Route finds the leaf (0 to 2^Depth-1) of z = Coordinates(x) in each of the
// first len(leaves) trees: the structure function q of equation 4. It descends all
// trees together, level by level, so that their cache misses overlap.
func (f *Forest) Route(z []float32, leaves []uint32) {
	leaves = leaves[:min(len(leaves), f.Trees)]
	for t := range leaves {
		leaves[t] = 1
	}
	depth := f.Depth
	if f.Coord == CoordDirections {
		for level := 0; level < depth; level++ {
			for t, node := range leaves {
				slot := t<<depth + int(node)
				leaves[t] = child(node, f.value(slot, z), f.Nodes[slot].Threshold)
			}
		}
	} else {
		nodes := f.Nodes
		for level := 0; level < depth; level++ {
			for t, node := range leaves {
				n := nodes[t<<depth+int(node)]
				leaves[t] = child(node, z[n.Dim], n.Threshold)
			}
		}
	}
	for t := range leaves {
		leaves[t] -= 1 << depth
	}
}

// RouteRotated is Route for a forest over the coordinates z of x under a rotation. Coordinates that are NaN
// are computed when a node compares them, a quarter of 64 in two trees of depth 12; their rounding may differ
// from that of Rotation.Apply. O(trees·Depth·Dim).
func (f *Forest) RouteRotated(r *Rotation, x, z []float32, leaves []uint32) {
	leaves = leaves[:min(len(leaves), f.Trees)]
	for t := range leaves {
		leaves[t] = 1
	}
	for range f.Depth {
		for t, node := range leaves {
			n := f.Nodes[t<<f.Depth+int(node)]
			y := z[n.Dim]
			if y != y {
				y = r.coordinate(int(n.Dim), x)
				z[n.Dim] = y
			}
			leaves[t] = child(node, y, n.Threshold)
		}
	}
	for t := range leaves {
		leaves[t] -= 1 << f.Depth
	}
}

func child(node uint32, value, threshold float32) uint32 {
	next := 2 * node
	if value > threshold {
		next++
	}
	return next
}

// routeOne returns the leaf of x in tree t.
func (f *Forest) routeOne(t int, x []float32) int {
	node := uint32(1)
	for range f.Depth {
		slot := t<<f.Depth + int(node)
		n := f.Nodes[slot]
		var v float32
		if f.Coord == CoordProjected {
			lo, hi := f.Proj.Ptr[n.Dim], f.Proj.Ptr[n.Dim+1]
			v = sparseDot(f.Proj.Idx[lo:hi], f.Proj.Val[lo:hi], x)
		} else {
			v = f.value(slot, x)
		}
		node = child(node, v, n.Threshold)
	}
	return int(node) - 1<<f.Depth
}

// TreeLeaf is a leaf of a tree.
type TreeLeaf struct {
	Tree, Leaf uint32
}

// MultiScratch is the memory of RouteMulti, reused from call to call.
type MultiScratch struct {
	// Halt, if not nil, is called once in haltLeaves leaves. If it returns true,
	// RouteMulti returns the leaves found so far.
	Halt func() bool

	heap []branch
	out  []TreeLeaf
}

const haltLeaves = 1024

// branch is a subtree that the path did not enter, with the vector's distance to it.
type branch struct {
	margin float32
	tree   uint32
	node   uint32
}

func (a branch) less(b branch) bool {
	switch {
	case a.margin != b.margin:
		return a.margin < b.margin
	case a.tree != b.tree:
		return a.tree < b.tree
	}
	return a.node < b.node
}

// RouteMulti runs priority search (Arya and Mount 1993; Hyvönen 2022, footnote 3). It
// returns the leaf of z in each of the first trees trees, then extra more leaves,
// nearest first over all trees. The distance of a subtree is the largest margin of the
// splits at which the path to it leaves the path of z.
// Cost: O((trees + extra)·depth·log). The result is valid until the next call.
func (f *Forest) RouteMulti(z []float32, trees, extra int, s *MultiScratch) []TreeLeaf {
	trees = min(trees, f.Trees)
	s.heap, s.out = s.heap[:0], s.out[:0]
	for t := range trees {
		s.descend(f, z, branch{tree: uint32(t), node: 1})
	}
	for ; extra > 0 && len(s.heap) > 0; extra-- {
		if extra%haltLeaves == 0 && s.Halt != nil && s.Halt() {
			break
		}
		s.descend(f, z, s.pop())
	}
	return s.out
}

// descend follows z from a node to its leaf and records the subtrees it does not enter.
func (s *MultiScratch) descend(f *Forest, z []float32, b branch) {
	node := b.node
	for node < 1<<f.Depth {
		slot := int(b.tree)<<f.Depth + int(node)
		threshold := f.Nodes[slot].Threshold
		v := f.value(slot, z)
		next := child(node, v, threshold)
		if !math.IsInf(float64(threshold), 1) {
			margin := max(b.margin, float32(math.Abs(float64(v-threshold))))
			s.push(branch{margin, b.tree, next ^ 1})
		}
		node = next
	}
	s.out = append(s.out, TreeLeaf{b.tree, node - 1<<f.Depth})
}

func (s *MultiScratch) push(b branch) {
	s.heap = append(s.heap, b)
	for i := len(s.heap) - 1; i > 0; {
		p := (i - 1) / 2
		if !s.heap[i].less(s.heap[p]) {
			break
		}
		s.heap[i], s.heap[p] = s.heap[p], s.heap[i]
		i = p
	}
}

func (s *MultiScratch) pop() branch {
	h := s.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].less(h[c]) {
			c++
		}
		if !h[c].less(h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	s.heap = h
	return top
}

// Validate checks that every array has the length that the parameters require, every
// node reads an existing coordinate and has a threshold, leaf blocks follow each other
// inside their chunks, the labels of each ascend and are rows below CorpusN, no label
// has more votes than its leaf has points, and the points of the leaves of every tree
// add up to Points. In a valid forest no method can read out of bounds, no segment of
// a leaf is empty or exceeds the row numbers, and proportions are at most 1.
// O(size of the forest).
func (f *Forest) Validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, a...))
	}
	if f.Trees < 1 || f.Trees > maxTrees || f.Depth < 1 || f.Depth > maxDepth || f.Dim < 1 || f.CorpusN < 0 {
		return bad("%d trees of depth %d over %d coordinates", f.Trees, f.Depth, f.Dim)
	}
	slots := f.Trees << f.Depth
	if len(f.Nodes) != slots {
		return bad("%d nodes, want %d", len(f.Nodes), slots)
	}
	coords := f.Dim
	switch f.Coord {
	case CoordAxis:
	case CoordProjected:
		coords = f.Trees * f.Depth
		if err := f.Proj.validate(coords, f.Dim); err != nil {
			return err
		}
	case CoordDirections:
		w := f.DirWidth
		// Divide, since a product of untrusted numbers may overflow.
		if w < 1 || w > f.Dim || len(f.DirIdx)%slots != 0 || len(f.DirIdx)/slots != w ||
			len(f.DirVal) != len(f.DirIdx) {
			return bad("directions of width %d: %d and %d entries for %d nodes",
				w, len(f.DirIdx), len(f.DirVal), slots)
		}
		for i, j := range f.DirIdx {
			if int(j) >= f.Dim {
				return bad("direction entry %d reads coordinate %d of %d", i, j, f.Dim)
			}
		}
	default:
		return bad("unknown coordinates %q", f.Coord)
	}
	for i, n := range f.Nodes {
		if int(n.Dim) >= coords {
			return bad("node %d reads coordinate %d of %d", i, n.Dim, coords)
		}
		if n.Threshold != n.Threshold {
			return bad("node %d has the threshold NaN", i)
		}
	}
	if f.Points < 1 {
		return bad("%d training points", f.Points)
	}
	if !f.Natural && !f.Params.Members {
		return bad("no leaf tables")
	}
	set := leafSet{trees: f.Trees, depth: f.Depth, corpusN: f.CorpusN}
	if f.Natural {
		tables := set
		tables.chunks, tables.dir, tables.weights, tables.points = f.Leaves, f.LeafDir, true, f.Points
		if err := tables.validate(); err != nil {
			return err
		}
	}
	if f.Params.Members {
		set.chunks, set.dir = f.Members, f.MemberDir
		return set.validate()
	}
	return nil
}

func (s *Sparse) validate(rows, cols int) error {
	if len(s.Ptr) != rows+1 || len(s.Idx) != len(s.Val) || s.Ptr[0] != 0 || int(s.Ptr[rows]) != len(s.Idx) {
		return fmt.Errorf("%w: sparse matrix: %d pointers, %d indices, %d values",
			ErrInvalid, len(s.Ptr), len(s.Idx), len(s.Val))
	}
	for i := range rows {
		if s.Ptr[i] > s.Ptr[i+1] {
			return fmt.Errorf("%w: sparse matrix: row %d ends before it begins", ErrInvalid, i)
		}
	}
	for i, j := range s.Idx {
		if int(j) >= cols {
			return fmt.Errorf("%w: sparse matrix: entry %d is in column %d of %d", ErrInvalid, i, j, cols)
		}
	}
	return nil
}
