package forest

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
)

// Without returns a copy of the forest in which some of its training points have no votes for
// other points: a point still counts in its leaves, and votes for its own label own[i], so that
// searches for it find it there. A query that equals such a point is then as new to the forest
// as one that it was not trained with, except for the splits, which still depend on the points.
// If splits do not use labels and the points are few, this dependence is negligible, so these
// points can evaluate the forest. points are in the trees' coordinates, and lab holds their labels
// as passed to Learn. Member lists do not change. The leaves are copied, everything else is shared.
//
// ok is false for a forest whose splits use labels (rf), whose leaves left out labels
// (MinVotes above 1), or that has no label tables.
// O(trees · points · leaf), and a copy of the leaves.
//
// Errors: ErrParams for points of another dimension, or with other labels than in
// training.
func (f *Forest) Without(
	points labels.Rows, lab *labels.Neighbors, own []uint32,
) (g *Forest, ok bool, err error) {
	if !f.Natural || f.Kind == RF || f.MinVotes > 1 {
		return nil, false, nil
	}
	if points.Dim() != f.Dim || lab.N != points.Len() || len(own) != lab.N || lab.K < f.LabelsK {
		return nil, false, fmt.Errorf("%w: labels or dimension do not belong to the points", ErrParams)
	}
	at := f.routeAll(points)
	c := *f
	c.Leaves = make([][]byte, len(f.Leaves))
	for i, chunk := range f.Leaves {
		c.Leaves[i] = slices.Clone(chunk)
	}
	order := make([]int, points.Len())
	var w leafWriter
	var ids, had, kept, left []uint32
	votes := map[uint32]uint32{}
	for t := range f.Trees {
		leafOf := func(i int) uint32 { return at[i*f.Trees+t] }
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(leafOf(a)) - int(leafOf(b)) })
		for lo := 0; lo < len(order); {
			leaf := leafOf(order[lo])
			clear(votes)
			from := lo
			for ; lo < len(order) && leafOf(order[lo]) == leaf; lo++ {
				for _, l := range lab.Row(order[lo])[:f.LabelsK] {
					if l != own[order[lo]] {
						votes[l]++
					}
				}
			}
			kept, left = kept[:0], left[:0]
			b := f.Leaf(t, int(leaf))
			ids, had = b.appendTable(ids[:0], had[:0])
			for i, id := range ids {
				removed := votes[id]
				if removed > had[i] {
					return nil, false, fmt.Errorf("%w: tree %d, leaf %d: label %d has fewer votes than are removed",
						ErrParams, t, leaf, id)
				}
				delete(votes, id)
				if had[i] > removed {
					kept, left = append(kept, id), append(left, had[i]-removed)
				}
			}
			if len(votes) > 0 || int(b.Points()) < lo-from {
				return nil, false, fmt.Errorf("%w: tree %d, leaf %d lacks labels that are removed",
					ErrParams, t, leaf)
			}
			// The new block is not longer than the old one, so it fits in its place.
			w.addTable(b.Points(), kept, left)
			to := f.LeafDir[t<<f.Depth+int(leaf)]
			copy(c.Leaves[to>>16][int(to&0xffff)*leafAlign:], w.chunks[len(w.chunks)-1])
			w.chunks, w.dir = append(w.chunks[:0], w.chunks[0][:0]), w.dir[:0]
		}
	}
	return &c, true, nil
}

// routeAll returns the leaves of the points, f.Trees of each.
func (f *Forest) routeAll(points labels.Rows) []uint32 {
	leaves := make([]uint32, points.Len()*f.Trees)
	var z []float32
	x := make([]float32, f.Dim)
	for i := range points.Len() {
		z = f.Coordinates(points.Row(i, x), z)
		f.Route(z, leaves[i*f.Trees:(i+1)*f.Trees])
		if f.Coord != CoordProjected {
			z = nil // z aliases the row
		}
	}
	return leaves
}
