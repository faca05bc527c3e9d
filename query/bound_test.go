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

// Bounded settings have the recall that counts for users, if that is lower; bounds do not add up.
func TestBound(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(120)
	held, users := QuerySet{Queries: queries, Truth: truth}, f.foreignTo(120)
	c, err := Tune(t.Context(), f.v, held, TuneOptions{K: 10, budget: 200 * time.Millisecond})
	must(t, err)
	got, err := c.Bound(t.Context(), f.v, users, 2)
	must(t, err)
	m := meter{v: f.v, queries: users.Queries, truth: users.Truth, lanes: newLanes(1)}
	if got.Sampled != len(users.Queries) || got.Reach != max(c.Reach, m.lanes[0].s.reach(f.v, users, 10)) {
		t.Errorf("%d queries, reach %g", got.Sampled, got.Reach)
	}
	lower := 0
	for i, d := range append([]Curve{*got}, got.Depths...) {
		was := append([]Curve{*c}, c.Depths...)[i]
		if len(d.Points) < len(was.Points) || i == 0 && len(d.Points) == len(was.Points) {
			t.Errorf("k %d: %d points, %d before", d.K, len(d.Points), len(was.Points))
		}
		for j, p := range d.Points {
			if j >= len(was.Points) {
				if p.Recall > p.Held || !climbs(&p.Params) {
					t.Errorf("k %d, wider: %+v", d.K, p)
				}
				continue
			}
			var x sample
			of := m.atDepth(d.K)
			must(t, of.run(t.Context(), p.Params, 1, &x))
			want := was.Points[j].Recall
			if d.K <= 120 && p.Params.Method != Flat {
				want = min(want, x.recall())
			}
			if math.Abs(want-p.Recall) > 1e-9 {
				t.Errorf("k %d, %+v: recall %g, want %g", d.K, p.Params, p.Recall, want)
			}
			if p.Recall < was.Points[j].Recall {
				lower++
			}
		}
	}
	if lower == 0 || c.Points[0].Held != 0 {
		t.Errorf("%d recalls are lower, %g held", lower, c.Points[0].Held)
	}
	back, err := got.Bound(t.Context(), f.v, held, 1)
	must(t, err)
	if len(back.Points) != len(got.Points) {
		t.Errorf("%d points, %d after the first time", len(back.Points), len(got.Points))
	}
	for i, p := range back.Points[:len(c.Points)] {
		if p.Recall > c.Points[i].Recall || p.Recall < got.Points[i].Recall-0.05 {
			t.Errorf("%+v: recall %g, %g of the tuner", p.Params, p.Recall, c.Points[i].Recall)
		}
	}
}

// The margin follows from the variance of the queries' recalls.
func TestVariance(t *testing.T) {
	var s sample
	for _, hits := range []int{10, 10, 10, 6} {
		s.hit(hits, 10)
	}
	// The mean is 0.9, the deviations 0.1, 0.1, 0.1 and -0.3.
	if math.Abs(s.variance()-0.03/4) > 1e-12 {
		t.Errorf("variance %g, want %g", s.variance(), 0.03/4)
	}
	// Each of the four would have 0.9·0.1/10 by itself.
	if want := 0.03 / 4 / (0.09 / 40); math.Abs(s.together()-want) > 1e-9 {
		t.Errorf("together %g, want %g", s.together(), want)
	}
}

// A curve of a forged file may have beams narrower than its number of neighbors, or wider than memory: they
// are measured like others.
func TestBoundForgedBeams(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(120)
	beam := func(width int) Point {
		return Point{Params: Params{Sketch: true, Beam: width, R: 20}, Recall: 0.9, Micros: 9}
	}
	blind := Point{Params: Params{Beam: 5}, Recall: 0.9, Micros: 9} // without sketches there is no beam
	c := &Curve{K: 10, Points: []Point{beam(3), beam(math.MaxInt), blind}, Depths: []Curve{{K: 100, Points: []Point{beam(40)}}}}
	got, err := c.Bound(t.Context(), f.v, QuerySet{Queries: queries, Truth: truth}, 1)
	must(t, err)
	if len(got.Points) == 0 || len(got.Depths) != 1 || len(got.Depths[0].Points) == 0 {
		t.Errorf("%+v", got)
	}
}
