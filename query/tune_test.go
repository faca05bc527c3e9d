package query

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (f *fixture) heldOut(k int) (queries [][]float32, truth [][]uint32) {
	for i := range f.queries.n {
		q := f.queries.row(i)
		queries, truth = append(queries, q), append(truth, exactly(f.all, f.v.Metric, q, k, nil))
	}
	return queries, truth
}

// The curve is a Pareto front; recall on it is what searching again gives.
func TestTune(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	views := map[string]*View{
		"full":    f.v,
		"bare":    f.with(func(v *View) { v.Sketch, v.Neighbors = nil, nil }),
		"members": f.with(func(v *View) { g := *v.Forest; g.LeafDir = nil; v.Forest = &g }),
	}
	for name, v := range views {
		last := -1
		o := TuneOptions{K: 10, budget: 300 * time.Millisecond, Progress: func(done, total int) {
			if done < last || done > total {
				t.Errorf("%s: progress %d of %d after %d", name, done, total, last)
			}
			last = done
			if done == total {
				last = math.MaxInt - 1
			}
		}}
		c, err := Tune(context.Background(), v, QuerySet{Queries: queries, Truth: truth}, o)
		must(t, err)
		if last != math.MaxInt-1 {
			t.Errorf("%s: progress ended at %d", name, last)
		}
		if c.K != 10 || c.Queries != len(queries) || len(c.Points) == 0 {
			t.Fatalf("%s: %+v", name, c)
		}
		// A single point outdoes all others only if it finds everything.
		if len(c.Points) == 1 && c.Points[0].Recall < 1 {
			t.Errorf("%s: one point: %+v", name, c)
		}
		for i, p := range c.Points {
			if i > 0 && (p.Recall <= c.Points[i-1].Recall || p.Micros <= c.Points[i-1].Micros) {
				t.Errorf("%s: point %d does not rise: %+v", name, i, c.Points)
			}
			hits := 0
			p.Params.K = 10
			for j, q := range queries {
				hits += common(search(t, v, q, p.Params), truth[j])
			}
			if r := float64(hits) / float64(10*len(queries)); r != p.Recall || p.Candidates <= 0 {
				t.Errorf("%s: point %+v, searching again gives %v", name, p, r)
			}
		}
		if best := c.Points[len(c.Points)-1].Recall; best < 0.97 {
			t.Errorf("%s: best recall %v", name, best)
		}
		data, err := json.Marshal(c)
		must(t, err)
		var back Curve
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(&back, c) {
			t.Errorf("%s: %v: %s", name, err, data)
		}
	}
}

func TestTuneErrors(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(5)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	bare := f.with(func(v *View) { v.Forest = nil })
	for name, c := range map[string]struct {
		ctx     context.Context
		v       *View
		queries [][]float32
		truth   [][]uint32
		k       int
		want    error
	}{
		"no queries":      {context.Background(), f.v, nil, nil, 5, ErrParams},
		"missing truth":   {context.Background(), f.v, queries, truth[1:], 5, ErrParams},
		"k":               {context.Background(), f.v, queries, truth, 0, ErrParams},
		"no forest":       {context.Background(), bare, queries, truth, 5, ErrMethod},
		"cancelled":       {ctx, f.v, queries, truth, 5, context.Canceled},
		"other dimension": {context.Background(), f.v, [][]float32{{1}}, truth[:1], 5, ErrDimension},
	} {
		if _, err := Tune(c.ctx, c.v, QuerySet{Queries: c.queries, Truth: c.truth}, TuneOptions{K: c.k}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// resolve returns the cheapest point that is good enough.
func TestResolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
			return Point{
				Params: Params{Trees: rapid.IntRange(1, 1000).Draw(t, "trees"), K: 4},
				Recall: float64(rapid.IntRange(0, 20).Draw(t, "recall")) / 20,
				Micros: float64(rapid.IntRange(1, 50).Draw(t, "micros")),
			}
		}), 0, 30).Draw(t, "points")
		c := Curve{Points: pareto(points)}
		for i := range c.Points {
			if i > 0 && (c.Points[i].Recall <= c.Points[i-1].Recall || c.Points[i].Micros <= c.Points[i-1].Micros) {
				t.Fatalf("%+v", c.Points)
			}
		}
		target := rapid.Float64Range(0, 1).Draw(t, "target")
		cheapest, found := math.Inf(1), false
		for _, p := range points {
			if p.Recall >= target {
				cheapest, found = min(cheapest, p.Micros), true
			}
		}
		p, ok := c.resolve(target)
		if ok != found || p.K != 0 {
			t.Fatalf("%v, %v", p, ok)
		}
		if !ok {
			return
		}
		for _, x := range c.Points {
			if x.Params.Trees == p.Trees && x.Micros == cheapest {
				return
			}
		}
		t.Fatalf("resolved %+v, the cheapest takes %v: %+v", p, cheapest, c.Points)
	})
}

// An interrupted group of queries does not count, one with more work does.
func TestSamplePoint(t *testing.T) {
	s := sample{hits: 30, possible: 40, candidates: 200, queries: 4, micros: []float64{10, 12, 14, 900},
		work: []float64{100, 100, 100, 100}}
	if p := s.point(Params{Trees: 3}); p.Recall != 0.75 || p.Micros != 12 || p.Candidates != 50 || p.Params.Trees != 3 {
		t.Errorf("%+v", p)
	}
	s.work[3] = 8000
	if p := s.point(Params{}); p.Micros != 234 {
		t.Errorf("%v µs with 80 times the work in one group", p.Micros)
	}
	s.micros, s.work = []float64{10, 20, 900}, []float64{100, 200, 300}
	if p := s.point(Params{}); math.Abs(p.Micros-20) > 1e-9 {
		t.Errorf("%v µs with an interruption in the group of most work", p.Micros)
	}
}

// Tuning for another metric works the same.
func TestTuneCosine(t *testing.T) {
	f := cosine()
	queries, truth := f.heldOut(3)
	c, err := Tune(context.Background(), f.v, QuerySet{Queries: queries[:20], Truth: truth[:20]},
		TuneOptions{K: 3, budget: 100 * time.Millisecond})
	if err != nil || len(c.Points) == 0 {
		t.Fatal(c, err)
	}
	if p, ok := c.resolve(0.9); !ok || p.Method != Natural {
		t.Errorf("%+v, %v", p, ok)
	}
}
