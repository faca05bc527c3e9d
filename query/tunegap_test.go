package query

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// Gaps are interpolated between the logarithms of places, and extrapolated beyond the last.
func TestGapTable(t *testing.T) {
	table := gapTable{depth: 10, places: []float64{0, 0.1, 0.3, 0.4}}
	for _, x := range []struct {
		place int
		gap   float64
	}{{10, gapLeast}, {3, gapLeast}, {20, 0.1}, {40, 0.3}, {57, 0.351096}, {80, 0.4}, {160, 0.5}} {
		if got := table.of(x.place); math.Abs(float64(got)-x.gap) > 1e-5 {
			t.Errorf("place %d: gap %g, want %g", x.place, got, x.gap)
		}
	}
}

// The tuner finds settings with a gap that have the recall that it measured, up to 0.99.
func TestAddGapped(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	m := meter{v: f.v, k: 10, queries: queries, truth: truth, lanes: newLanes(1)}
	tuner := &tuner{m: m, start: time.Now(), budget: time.Minute, report: func(int, int) {}}
	b := &beams{t: tuner, base: Params{Trees: 2, Sketch: true}, bias: 1}
	must(t, b.measureWidths(t.Context()))
	var err error
	b.gaps, err = b.measureGaps(t.Context())
	must(t, err)
	if p := b.gaps.places; len(p) < 3 || p[0] != 0 || !(b.gaps.floor > 0) {
		t.Fatalf("%+v", b.gaps)
	}
	for i, gap := range b.gaps.places[1:] {
		if !(gap > b.gaps.places[i]) {
			t.Errorf("gaps %v do not rise", b.gaps.places)
		}
	}
	must(t, b.addGapped(t.Context(), 0.9))
	best := 0.0
	for _, p := range b.twin.points {
		best = max(best, p.Recall)
		var s sample
		must(t, tuner.m.run(t.Context(), p.Params, 1, &s))
		if got := s.recall(); !(p.Params.Gap > 0) || got < p.Recall-0.002 {
			t.Errorf("%+v: recall %.4f, measured %.4f", p.Params, got, p.Recall)
		}
	}
	if best < 0.99 || b.points != nil || b.limited {
		t.Errorf("recall %.4f, %d points without a gap", best, len(b.points))
	}
}

// Settings with a gap are chosen if they are clearly faster. Between depths the gap is interpolated, next to
// a setting without one there is none.
func TestGapsOfDepths(t *testing.T) {
	at := func(recall, micros float64, beam int, gap float32) Point {
		p := Params{Sketch: true, Beam: beam, R: 20, Gap: gap, GapFloor: 2 * gap}
		return Point{Recall: recall, Micros: micros, Params: p}
	}
	b := &beams{points: []Point{at(0.9, 10, 20, 0), at(0.99, 40, 80, 0)},
		twin: &beams{points: []Point{at(0.905, 9.6, 60, 0.1), at(0.991, 30, 120, 0.3)}}}
	all := settings(b)
	if len(all) != 3 || all[2].Params.Gap != 0.3 {
		t.Errorf("%+v", all)
	}
	one := Curve{K: 1, Points: []Point{at(0.99, 5, 8, 0)}}
	hundred := Curve{K: 100, Points: []Point{at(0.9, 50, 150, 0), at(0.99, 90, 400, 0.1)}}
	c := &Curve{K: 10, Depths: []Curve{one, hundred}}
	c.set(append(all, at(0.99, 60, 70, 0)))
	if len(c.Points) != 2 || len(c.Plain) != 1 || c.Plain[0].Params.Beam != 80 {
		t.Fatalf("%+v", c)
	}
	for _, x := range []struct {
		recall float64
		k      int
		gap    float64
		beam   int
	}{{0.99, 10, 0.3, 120}, {0.99, 31, 0.2, 217}, {0.99, 100, 0.1, 400}, {0.99, 500, 0.1, 2000},
		{0.9, 10, 0, 20}, {0.9, 50, 0, 82}, {0.99, 1, 0, 8}, {0.99, 3, 0, 24}} {
		p, ok := c.Setting(x.recall, x.k)
		if !ok || p.Beam != x.beam || math.Abs(float64(p.Gap)-x.gap) > 0.002 ||
			math.Abs(float64(p.GapFloor-2*p.Gap)) > 1e-6 {
			t.Errorf("recall %g, k %d: %+v, %v", x.recall, x.k, p, ok)
		}
	}
	// The next depths have no beam with a gap: near this one it serves, farther ones are without.
	c.Depths[1].Points = []Point{at(0.99, 90, 400, 0)}
	for k, beam := range map[int]int{5: 40, 7: 120, 15: 180, 20: 130, 100: 400} {
		if p, ok := c.Setting(0.99, k); !ok || p.Beam != beam || (p.Gap > 0) != (k == 7 || k == 15) {
			t.Errorf("k %d: %+v, %v", k, p, ok)
		}
	}
	// A restricted search of the k of the curve has its beam.
	l := c.ladder(0.99)
	if x, ok := l.at(10); !ok || x.beam != 120 || !(x.gap > 0) {
		t.Errorf("%+v, %v", x, ok)
	}
}

// A restricted search has a gap, too: to the k-th passing row, wherever it is.
func TestRestrictedGap(t *testing.T) {
	f := small()
	v := f.with(func(v *View) {
		v.Deleted = roaring.New()
		for row := uint32(0); row < uint32(v.N); row += 7 {
			v.Deleted.Add(row)
		}
	})
	s := NewSearcher()
	work := func(gap float32) (sketched, hits int) {
		for i := range f.queries.n {
			q := f.queries.row(i)
			p := Params{K: 10, Trees: 2, Sketch: true, R: 30, Beam: 100, Gap: gap}
			found, stats, err := s.Search(t.Context(), v, q, &p, nil)
			must(t, err)
			exact, _, err := s.Search(t.Context(), v, q, &Params{K: 10, Method: Flat}, nil)
			must(t, err)
			sketched += stats.Sketched
			for _, h := range found {
				if slices.Contains(exact, h) {
					hits++
				}
			}
		}
		return sketched, hits
	}
	all, most := work(0)
	narrow, fewer := work(0.3)
	if narrow >= all || fewer < most*9/10 || most < 9*f.queries.n {
		t.Errorf("%d sketches and %d hits with a gap, %d and %d without", narrow, fewer, all, most)
	}
}
