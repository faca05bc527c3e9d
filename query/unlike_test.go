package query

import (
	"math"
	"testing"
)

// A beam for a query that is farther from its nearest rows than nearly all held-out ones has twice the width and
// finds more, until queries of users are measured; other beams have the width of the curve.
func TestUnlike(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(20)
	held, users := QuerySet{Queries: queries, Truth: truth}, f.foreignTo(20)
	beam := func(width int) []Point {
		return []Point{{Params: Params{Trees: 1, Sketch: true, Beam: width, R: width}, Recall: 0.91, Users: 0.91, Micros: 1}}
	}
	for name, gap := range map[string]float32{"whole": 0, "gap": 0.1} {
		const n = 1000
		c := &Curve{K: 10, Queries: n, Points: beam(12), Depths: []Curve{
			{K: 1, Queries: n, Points: beam(4)}, {K: 100, Queries: n, Points: beam(150)},
		}}
		c.Points[0].Params.Gap = gap
		must(t, c.Observe(t.Context(), f.v, held))
		if !(c.Usual > c.Depths[0].Usual && c.Depths[0].Usual > 0) || c.Depths[1].Usual != 0 {
			t.Fatalf("%s: usual distances %g, %g, %g", name, c.Usual, c.Depths[0].Usual, c.Depths[1].Usual)
		}
		// run returns how many queries widen and how many rows they find.
		run := func(set QuerySet, c *Curve, k int) (wide, found int) {
			s := NewSearcher()
			s.trial = true
			for i, q := range set.Queries {
				p, ok := c.Setting(0.9, k)
				if !ok {
					t.Fatal("no setting")
				}
				p.K = k
				near, stats, err := s.Search(t.Context(), f.v, q, &p, nil)
				must(t, err)
				want := p.Beam
				if stats.Widened > 0 {
					want *= 2
					wide++
				}
				if stats.Width != want {
					t.Errorf("%s, k %d: width %d, want %d", name, k, stats.Width, want)
				}
				found += common(near, set.Truth[i][:k])
			}
			return wide, found
		}
		measured := c.clone()
		measured.Sampled = 100
		for _, k := range []int{1, 3, 10, 20} {
			n := len(held.Queries)
			if wide, _ := run(held, c, k); wide > n/8 {
				t.Errorf("%s, k %d: %d of %d held-out queries widen", name, k, wide, n)
			}
			wide, found := run(users, c, k)
			never, before := run(users, &measured, k)
			if wide < n/2 || found <= before || never > 0 {
				t.Errorf("%s, k %d: %d of %d foreign queries widen and find %d rows, %d before; %d when measured",
					name, k, wide, n, found, before, never)
			}
		}
	}
}

// Queries of users that are like the rows do not make a search slower: a setting that finds all of their rows is
// taken for a recall that so few of them could not show with a margin.
func TestUsersLikeRows(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(20)
	beam := Params{Sketch: true, Beam: math.MaxInt32, R: math.MaxInt32}
	c := &Curve{K: 10, Queries: 1000, Points: []Point{
		{Params: beam, Recall: 1, Micros: 1}, {Params: Params{Method: Flat}, Recall: 1, Micros: 1e6},
	}}
	got, err := c.Bound(t.Context(), f.v, QuerySet{Queries: queries, Truth: truth}, 1)
	must(t, err)
	if p, ok := got.Setting(0.995, 10); !ok || p.Method == Flat {
		t.Errorf("%d queries of users find all rows, and the setting for 0.995 is %v, %t", len(queries), p.Method, ok)
	}
}
