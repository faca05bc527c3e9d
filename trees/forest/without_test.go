package forest

import (
	"errors"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
)

// TestWithout compares the remaining tables with tables counted without the points.
func TestWithout(t *testing.T) {
	const n, d, k = 400, 6, 9
	rows := gaussian(newRand(5), n, d)
	lab := labelled(rows, k)
	var held, rest []int
	for i := range n {
		if i%9 == 4 || i < 12 {
			held = append(held, i)
		} else {
			rest = append(rest, i)
		}
	}
	pick := func(at []int) (table, *labels.Neighbors) {
		var points table
		l := &labels.Neighbors{N: len(at), K: k}
		for _, i := range at {
			points = append(points, rows[i])
			l.IDs = append(l.IDs, lab.Row(i)...)
		}
		return points, l
	}
	points, gone := pick(held)
	others, left := pick(rest)
	for _, kind := range []Kind{RP, KD, KDChrono, PCATree} {
		t.Run(string(kind), func(t *testing.T) {
			f := learn(t, rows, lab, Params{
				Kind: kind, Trees: 3, Depth: 5, LabelsK: 7, Natural: true, Members: true, Seed: 2,
			})
			before := f.Leaves[0][:1<<10]
			before = slices.Clone(before)
			g, ok, err := f.Without(points, gone)
			if err != nil || !ok {
				t.Fatalf("%v, %v", ok, err)
			}
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			if g.Points != len(rest) {
				t.Errorf("%d points, want %d", g.Points, len(rest))
			}
			for tree := range f.Trees {
				for leaf, points := range nodePoints(g, tree, others)[1<<f.Depth:] {
					checkLeaf(t, g, tree, leaf, points, left)
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
	some := &labels.Neighbors{N: 10, K: 5, IDs: lab.IDs[:50]}
	for name, p := range map[string]Params{
		"rf":             {Kind: RF, Trees: 2, Depth: 4},
		"votes left out": {Kind: KD, Trees: 2, Depth: 4, MinVotes: 2},
		"no tables":      {Kind: KD, Trees: 2, Depth: 4, Members: true},
	} {
		f := learn(t, rows, lab, p)
		if g, ok, err := f.Without(rows[:10], some); g != nil || ok || err != nil {
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
		if _, _, err := f.Without(c.points, c.lab); !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
