package query

import (
	"math"
	"slices"
	"testing"
	"time"
)

// foreignTo returns queries unlike the rows of a fixture, with their nearest rows.
func (f *fixture) foreignTo(k int) (s QuerySet) {
	near, _ := f.heldOut(k)
	for i, q := range near {
		x := slices.Clone(q)
		for j, y := range near[(i+len(near)/2)%len(near)] {
			x[j] = (x[j] + y) / 2
		}
		s.Queries, s.Truth = append(s.Queries, x), append(s.Truth, exactly(f.all, f.v.Metric, x, k, nil))
	}
	return s
}

// TestSafest: joined curves hold for each set of queries.
func TestSafest(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(120)
	sets := []QuerySet{{Queries: queries, Truth: truth}, f.foreignTo(120)}
	sets[1].Margin = true
	var curves []*Curve
	for _, set := range sets {
		c, err := Tune(t.Context(), f.v, set, TuneOptions{K: 10, budget: 200 * time.Millisecond})
		must(t, err)
		curves = append(curves, c)
	}
	c, err := Safest(t.Context(), f.v, 2, curves, sets...)
	must(t, err)
	if want := len(queries) + len(sets[1].Queries); c.K != 10 || c.Queries != want || c.Queries == 0 {
		t.Errorf("k %d, %d queries", c.K, c.Queries)
	}
	if want := max(curves[0].Reach, curves[1].Reach); c.Reach != want {
		t.Errorf("reach %g, want %g", c.Reach, want)
	}
	if len(c.Depths) < 2 {
		t.Fatalf("%d depths", len(c.Depths))
	}
	s := NewSearcher()
	for _, d := range append([]Curve{*c}, c.Depths...) {
		for _, p := range d.Points {
			least := 1.0
			for i := range sets {
				x := p.Params
				x.K = d.K
				got, err := s.delivered(t.Context(), f.v, &x, &sets[i])
				must(t, err)
				if got.queries > 0 {
					least = min(least, got.counted(i == 1))
				}
			}
			if d.K <= 120 && math.Abs(least-p.Recall) > 1e-9 {
				t.Errorf("k %d, %+v: recall %g of the worst set, %g on the curve", d.K, p.Params, least, p.Recall)
			}
		}
	}
}

// TestRecheck: the recall of the set where it is least is recorded, and the sets that are short are
// reported.
func TestRecheck(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	set := QuerySet{Queries: queries, Truth: truth}
	c, err := Tune(t.Context(), f.v, set, TuneOptions{K: 10, budget: 200 * time.Millisecond})
	must(t, err)
	checked, short, err := c.Recheck(t.Context(), f.v, set)
	if err != nil || slices.Contains(short, true) {
		t.Fatalf("short: %v, %v", short, err)
	}
	// Answers that no search finds.
	wrong := QuerySet{Queries: queries}
	for i := range truth {
		wrong.Truth = append(wrong.Truth, truth[(i+len(truth)/2)%len(truth)])
	}
	fell, short, err := c.Recheck(t.Context(), f.v, set, wrong)
	if err != nil || !slices.Equal(short, []bool{false, true}) {
		t.Fatalf("short: %v, %v", short, err)
	}
	// A setting that only a search for 0.8 selects, and which finds less.
	least := *c
	cheap := Point{Params: Params{Method: Lookup, Trees: 1}, Recall: 0.85, Micros: c.Points[0].Micros / 2}
	least.Points = slices.Insert(slices.Clone(c.Points), 0, cheap)
	weak, short, err := least.Recheck(t.Context(), f.v, set)
	if err != nil || !short[0] || weak.Points[0].Checked >= 0.8 {
		t.Errorf("a weak setting for 0.8: short %v, measured %g, %v", short, weak.Points[0].Checked, err)
	}
	for _, p := range weak.Points[1:] {
		if p.Checked > 0 && p.Checked < 0.8 {
			t.Errorf("%+v has the recall of the weak setting: %g", p.Params, p.Checked)
		}
	}
	n := 0
	for i, p := range fell.Points {
		if was := checked.Points[i].Checked; was > 0 {
			n++
			if p.Checked >= was {
				t.Errorf("point %d: recall %g on both, %g on the first", i, p.Checked, was)
			}
		}
	}
	if n == 0 || c.Points[0].Checked != 0 {
		t.Errorf("%d points were measured", n)
	}
}

// TestMargin: the margin is 1.645 standard errors of the mean of the queries' recalls.
func TestMargin(t *testing.T) {
	var s sample
	for _, hits := range []int{10, 10, 10, 6} {
		s.hit(hits, 10)
	}
	// The mean is 0.9, the deviations 0.1, 0.1, 0.1 and -0.3.
	if want := 0.9 - 1.645*math.Sqrt(0.03/4); s.counted(false) != 0.9 || math.Abs(s.counted(true)-want) > 1e-12 {
		t.Errorf("%g and %g, want 0.9 and %g", s.counted(false), s.counted(true), want)
	}
	// Each of the four would have 0.9·0.1/10 by itself.
	if want := 0.03 / 4 / (0.09 / 40); math.Abs(s.together()-want) > 1e-9 {
		t.Errorf("together %g, want %g", s.together(), want)
	}
	if empty := new(sample); empty.counted(true) != 0 {
		t.Errorf("no query: %g", empty.counted(true))
	}
}

// A curve of a forged file may have beams narrower than its number of neighbors, or wider than memory: they
// are measured like others.
func TestSafestForgedBeams(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(120)
	beam := func(width int) Point {
		return Point{Params: Params{Sketch: true, Beam: width, R: 20}, Recall: 0.9, Micros: 9}
	}
	blind := Point{Params: Params{Beam: 5, Hops: 2}, Recall: 0.9, Micros: 9} // without sketches there is no beam
	c := &Curve{K: 10, Points: []Point{beam(3), beam(math.MaxInt), blind}, Depths: []Curve{{K: 100, Points: []Point{beam(40)}}}}
	got, err := Safest(t.Context(), f.v, 1, []*Curve{c}, QuerySet{Queries: queries, Truth: truth})
	must(t, err)
	if len(got.Points) == 0 || len(got.Depths) != 1 || len(got.Depths[0].Points) == 0 {
		t.Errorf("%+v", got)
	}
}
