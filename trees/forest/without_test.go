package forest

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
)

// TestWithout compares the remaining tables with tables counted without the votes of the points.
func TestWithout(t *testing.T) {
	const n, d, k = 400, 6, 9
	rows := gaussian(newRand(5), n, d)
	lab := labelled(rows, k)
	var points table
	var held []uint32
	gone := &labels.Neighbors{K: k}
	for i := range n {
		if i%9 == 4 || i < 12 {
			held, points = append(held, uint32(i)), append(points, rows[i])
			gone.IDs = append(gone.IDs, lab.Row(i)...)
			gone.N++
		}
	}
	for _, kind := range []Kind{RP, KD, KDChrono, PCATree} {
		t.Run(string(kind), func(t *testing.T) {
			f := learn(t, rows, lab, Params{
				Kind: kind, Trees: 3, Depth: 5, LabelsK: 7, Natural: true, Members: true, Seed: 2,
			})
			before := f.Leaves[0][:1<<10]
			before = slices.Clone(before)
			g, ok, err := f.Without(points, gone, held)
			if err != nil || !ok {
				t.Fatalf("%v, %v", ok, err)
			}
			must(t, g.Validate())
			for tree := range f.Trees {
				for leaf, points := range nodePoints(g, tree, rows)[1<<f.Depth:] {
					votes := map[uint32]uint32{}
					for _, p := range points {
						for _, l := range lab.Row(int(p))[:f.LabelsK] {
							if l == p || !slices.Contains(held, p) {
								votes[l]++
							}
						}
					}
					b, got := g.Leaf(tree, leaf), map[uint32]uint32{}
					for _, e := range entries(t, b, true) {
						got[e.label] = e.votes
					}
					if int(b.Points()) != len(points) || !maps.Equal(got, votes) {
						t.Fatalf("tree %d leaf %d: %d points with votes %v, want %d with %v", tree, leaf,
							b.Points(), got, len(points), votes)
					}
				}
			}
			check(t, f, rows, lab)
			if !slices.Equal(before, f.Leaves[0][:1<<10]) {
				t.Error("the forest itself changed")
			}
		})
	}
}

func TestWithoutWhereItCannot(t *testing.T) {
	rows := gaussian(newRand(6), 300, 4)
	lab := labelled(rows, 5)
	own := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	some := &labels.Neighbors{N: 10, K: 5, IDs: lab.IDs[:50]}
	for name, p := range map[string]Params{
		"rf":             {Kind: RF, Trees: 2, Depth: 4},
		"votes left out": {Kind: KD, Trees: 2, Depth: 4, MinVotes: 2},
		"no tables":      {Kind: KD, Trees: 2, Depth: 4, Members: true},
	} {
		f := learn(t, rows, lab, p)
		if g, ok, err := f.Without(rows[:10], some, own); g != nil || ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	f := learn(t, rows, lab, Params{Kind: KD, Trees: 2, Depth: 4})
	for name, c := range map[string]struct {
		points table
		lab    *labels.Neighbors
	}{
		"another dimension":      {gaussian(newRand(1), 10, 3), some},
		"fewer labels":           {rows[:10], &labels.Neighbors{N: 10, K: 2, IDs: lab.IDs[:20]}},
		"another number":         {rows[:9], some},
		"labels of other points": {rows[:10], &labels.Neighbors{N: 10, K: 5, IDs: lab.IDs[1000:1050]}},
	} {
		if _, _, err := f.Without(c.points, c.lab, own); !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
