package query

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// Settings rise in recall and time up to the exact scan; searching again gives at least their recall.
func TestTune(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	views := map[string]*View{
		"full":    f.v,
		"bare":    f.with(func(v *View) { v.Sketch, v.Neighbors = nil, nil }),
		"members": f.with(func(v *View) { g := *v.Forest; g.LeafDir = nil; v.Forest = &g }),
	}
	for name, v := range views {
		last, of := -1, 0
		o := TuneOptions{K: 10, Progress: func(done, total int) {
			if done < last || done > total {
				t.Errorf("%s: progress %d of %d after %d", name, done, total, last)
			}
			last, of = done, total
		}}
		set := QuerySet{queries, truth}
		c, err := Tune(context.Background(), v, set, o)
		must(t, err)
		if last != of {
			t.Errorf("%s: progress ended at %d", name, last)
		}
		_, held := set.split()
		if c.K != 10 || c.Queries != len(held.Queries) || len(c.Points) == 0 {
			t.Fatalf("%s: %+v", name, c)
		}
		for i, p := range c.Points {
			if i > 0 && (p.Recall < c.Points[i-1].Recall || p.Micros <= c.Points[i-1].Micros) {
				t.Errorf("%s: point %d does not rise: %+v", name, i, c.Points)
			}
			hits := 0
			p.Params.K = 10
			for j, q := range held.Queries {
				hits += common(search(t, v, q, p.Params), held.Truth[j])
			}
			if r := float64(hits) / float64(10*c.Queries); r < p.Recall {
				t.Errorf("%s: point %+v, searching again gives %v", name, p, r)
			}
		}
		if best := c.Points[len(c.Points)-1]; best.Params.Method != Flat || best.Recall < 1 || best.Micros != c.Scan {
			t.Errorf("%s: the last setting is %+v, an exact scan takes %v µs", name, best, c.Scan)
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

// Tuning for another metric works the same.
func TestTuneCosine(t *testing.T) {
	f := cosine()
	queries, truth := f.heldOut(3)
	c, err := Tune(context.Background(), f.v, QuerySet{Queries: queries[:20], Truth: truth[:20]},
		TuneOptions{K: 3})
	if err != nil || len(c.Points) == 0 {
		t.Fatal(c, err)
	}
	if p, ok := c.resolve(0.9); !ok || p.Method != Natural {
		t.Errorf("%+v, %v", p, ok)
	}
}
