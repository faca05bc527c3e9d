package query

import (
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
	sets := []QuerySet{{queries, truth}, f.foreignTo(120)}
	var curves []*Curve
	for _, set := range sets {
		c, err := Tune(t.Context(), f.v, set, TuneOptions{K: 10, budget: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		curves = append(curves, c)
	}
	c, err := Safest(t.Context(), f.v, 2, curves, sets...)
	if err != nil {
		t.Fatal(err)
	}
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
				got, n, err := s.delivered(t.Context(), f.v, &x, &sets[i])
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					least = min(least, got)
				}
			}
			if d.K <= 120 && (least < p.Recall-1e-9 || least > p.Recall+1e-9) {
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
	set := QuerySet{queries, truth}
	c, err := Tune(t.Context(), f.v, QuerySet{queries, truth}, TuneOptions{K: 10, budget: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
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
