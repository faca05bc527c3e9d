package query

import (
	"math"
	"testing"
	"time"
)

// Gaps are interpolated between the logarithms of places, and extrapolated beyond the last.
func TestGapTable(t *testing.T) {
	table := gapTable{places: []float64{0, 0.1, 0.3, 0.4}}
	for _, x := range []struct {
		place int
		gap   float64
	}{{10, gapLeast}, {3, gapLeast}, {20, 0.1}, {40, 0.3}, {57, 0.351096}, {80, 0.4}, {160, 0.5}} {
		if got := table.of(x.place, 10); math.Abs(float64(got)-x.gap) > 1e-5 {
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
	for _, p := range b.gapped {
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

// Settings with a gap serve the k of a curve if they are clearly faster; searches for another k and
// restricted ones have those without.
func TestSplitGaps(t *testing.T) {
	at := func(recall, micros float64, beam int, gap float32) Point {
		return Point{Recall: recall, Micros: micros, Params: Params{Sketch: true, Beam: beam, R: 20, Gap: gap}}
	}
	b := &beams{points: []Point{at(0.9, 10, 20, 0), at(0.99, 40, 80, 0)},
		gapped: []Point{at(0.905, 9.6, 60, 0.1), at(0.991, 30, 120, 0.3)}}
	all := b.all()
	if len(all) != 3 || all[2].Params.Gap != 0.3 {
		t.Errorf("%+v", all)
	}
	hundred := Curve{K: 100, Points: []Point{at(0.9, 50, 150, 0), at(0.99, 90, 400, 0)}}
	c := &Curve{K: 10, Points: pareto(all), Depths: splitGaps(10, all, []Curve{hundred})}
	if len(c.Depths) != 2 || c.Depths[0].K != 10 || len(c.Depths[0].Points) != 2 {
		t.Fatalf("%+v", c.Depths)
	}
	for _, x := range []struct {
		k, least, most int
		gap            float32
	}{{10, 120, 120, 0.3}, {9, 80, 80, 0}, {11, 80, 90, 0}, {100, 400, 400, 0}} {
		p, ok := c.Setting(0.99, x.k)
		if !ok || p.Gap != x.gap || p.Beam < x.least || p.Beam > x.most {
			t.Errorf("k %d: %+v, %v", x.k, p, ok)
		}
	}
	if x, ok := func() (rung, bool) { l := c.ladder(0.99); return l.at(10) }(); !ok || x.beam != 80 {
		t.Errorf("a restricted search has a beam of %g, %v", x.beam, ok)
	}
	if d := splitGaps(10, b.points, nil); d != nil {
		t.Errorf("%+v without gaps", d)
	}
}
