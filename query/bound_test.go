package query

import (
	"math"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
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

// Bounded settings have the recalls of users' queries next to those of held-out ones; the first time there are
// wider ones. Measuring again replaces the recalls of users.
func TestBound(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(120)
	held, users := QuerySet{Queries: queries, Truth: truth}, f.foreignTo(120)
	c, err := Tune(t.Context(), f.v, held, TuneOptions{K: 10})
	must(t, err)
	got, err := c.Bound(t.Context(), f.v, users, 2)
	must(t, err)
	s := NewSearcher()
	if got.Sampled != len(users.Queries) || got.Reach != max(c.Reach, s.reach(f.v, users, 10)) {
		t.Errorf("%d queries, reach %g", got.Sampled, got.Reach)
	}
	lower := 0
	for i, d := range append([]Curve{*got}, got.Depths...) {
		was := append([]Curve{*c}, c.Depths...)[i]
		if len(d.Points) < len(was.Points) {
			t.Errorf("k %d: %d points, %d before", d.K, len(d.Points), len(was.Points))
		}
		for j, p := range d.Points {
			if p.Params.Method == Flat && !p.Params.Sketch {
				continue
			}
			hits := 0
			p.Params.K = d.K
			for q, x := range users.Queries {
				last := vector.L2Squared(x, f.all.row(int(users.Truth[q][d.K-1])))
				for _, hit := range search(t, f.v, x, p.Params) {
					if hit.Distance <= last {
						hits++
					}
				}
			}
			recall := float64(hits) / float64(d.K*len(users.Queries))
			if p.Users > recall+1e-9 || j > 0 && p.Users < d.Points[j-1].Users {
				t.Errorf("k %d, setting %d: recall %g of users, searching again gives %g", d.K, j, p.Users, recall)
			}
			if d.Promise(&p) < was.Promise(&p) {
				lower++
			}
		}
	}
	if lower == 0 {
		t.Error("no promise is lower for users")
	}
	back, err := got.Bound(t.Context(), f.v, held, 1)
	must(t, err)
	if len(back.Points) != len(got.Points) {
		t.Errorf("%d points, %d after the first time", len(back.Points), len(got.Points))
	}
	for i, p := range back.Points {
		if p.Recall != got.Points[i].Recall || p.Users < got.Points[i].Users {
			t.Errorf("%+v, %+v before", p, got.Points[i])
		}
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
