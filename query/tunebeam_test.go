package query

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// powers is a ladder whose beams miss a share of width^-s of the rows and take
// a + c·width; all rows that are found are the best of their beams.
func powers(k int, s, a, c float64, widths ...int) *beams {
	b := &beams{t: &tuner{m: meter{k: k, queries: make([][]float32, 1000), v: &View{Segment: Segment{N: 1 << 20}}}}, bias: 1}
	for _, w := range widths {
		r := widthStep{p: Params{Beam: w, R: min(w, scheduleKeep*k)}, stride: 1, micros: a + c*float64(w), found: make([]float64, w+1)}
		most := 1 - math.Pow(float64(w), -s)
		for i := range r.found {
			r.found[i] = most * min(1, float64(i)/float64(k))
		}
		b.schedule = append(b.schedule, r)
	}
	b.fit()
	return b
}

// What lies between the measured widths, and beyond them, is read off the power.
func TestBeamsWidth(t *testing.T) {
	b := powers(10, 0.9, 4, 0.5, 10, 20, 40, 80, 160, 320)
	for _, w := range []float64{15, 30, 100, 240, 700} {
		if got := b.width(1 - math.Pow(w, -0.9)); math.Abs(got-w) > 1e-6*w {
			t.Errorf("width %g, want %g", got, w)
		}
		if got, want := b.micros(w, 10), 4+0.5*w; math.Abs(got-want) > 1e-6*want {
			t.Errorf("%g µs for a width of %g, want %g", got, w, want)
		}
	}
	if s := b.slope(3); math.Abs(s-0.9) > 1e-9 {
		t.Errorf("slope %g", s)
	}
	if b.level() {
		t.Error("a ladder that rises is level")
	}
	// A scan of a million rows takes as long as a beam of some ten thousand places.
	if w := b.widest(); w != 8192 || b.tooWide(w) {
		t.Errorf("the widest beam has %d places", w)
	}
	if b.t.m.v.N = 100_000; b.widest() != 1920 {
		t.Errorf("among 100,000 rows the widest beam has %d places", b.widest())
	}
	flat := powers(10, 0.01, 4, 0.5, 10, 20, 40, 80)
	if !flat.level() {
		t.Error("a level ladder is not level")
	}
}

// Differences of times that are below the noise are no times: every width takes longer than a
// narrower one and more exact distances take longer than fewer, whatever the clock has measured.
func TestBeamsNoise(t *testing.T) {
	for name, c := range map[string]struct {
		exact  float64 // as priced
		micros []float64
	}{
		"exact distances priced above a run": {0.5, []float64{40, 60, 90, 400}},
		"a slow first run":                   {0.01, []float64{300, 60, 90, 400}},
		"falling times":                      {0.01, []float64{400, 300, 200, 100}},
		"one slow run":                       {0.01, []float64{40, 5000, 90, 400}},
		"a run too short for the clock":      {0.01, []float64{0, 10, 20, 40}},
		"all too short":                      {0.01, []float64{0, 0, 0, 0}},
		"one run":                            {1, []float64{40}},
	} {
		b := powers(100, 0.9, 0, 1, []int{100, 200, 400, 800}[:len(c.micros)]...)
		b.exact = c.exact
		for i, micros := range c.micros {
			b.schedule[i].micros = micros
		}
		b.fit()
		least := math.Inf(1)
		for _, micros := range c.micros {
			least = min(least, micros)
		}
		for width, before := 50.0, 0.0; width < 1000; width *= 1.3 {
			micros, more := b.micros(width, 100), b.micros(width, 300)
			if !(micros >= before) || more < micros || micros < least/8 {
				t.Errorf("%s: %g and %g µs for a width of %g after %g", name, micros, more, width, before)
			}
			before = micros
		}
	}
}

// The cheapest measured width that has a recall is taken with as few exact distances as
// the recall needs; between widths that are far apart there is a width to try.
func TestBeamsChoose(t *testing.T) {
	b := powers(10, 0.9, 4, 0.5, 10, 20, 40, 80, 160)
	// A beam of 20 misses 0.067; its best k are all that it finds.
	p, from := b.choose(0.92)
	if from != 1 || p.Beam != 20 || p.R != 10 {
		t.Errorf("%+v from %d", p, from)
	}
	if p, from = b.choose(0.5); from != 0 || p.R != 10 {
		t.Errorf("%+v from %d", p, from)
	}
	if _, from = b.choose(0.995); from >= 0 {
		t.Errorf("found at %d what no width has", from)
	}
	if w, ok := b.between(0.95, narrowGap); !ok || w != 28 {
		t.Errorf("between 20 and 40: %d, %v", w, ok)
	}
	if _, ok := b.between(0.5, narrowGap); ok {
		t.Error("a width below the narrowest")
	}
	near := powers(10, 0.9, 4, 0.5, 40, 43)
	if w, ok := near.between(1-math.Pow(42, -0.9), narrowGap); ok {
		t.Errorf("width %d between 40 and 43", w)
	}
}

// The places that true rows take on a beam give the recall of every number of
// exact distances that searching with that number gives.
func TestByRank(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	m := meter{v: f.v, k: 10, queries: queries, truth: truth, lanes: newLanes(1)}
	p := Params{Trees: 2, Sketch: true, R: 10, Beam: 40}
	var all sample
	must(t, m.run(context.Background(), p, 1, &all))
	found := all.byRank(p.Beam)
	if len(found) != p.Beam+1 || found[0] != 0 || !slices.IsSorted(found) {
		t.Fatalf("%v", found)
	}
	for _, rows := range []int{10, 13, 25, 40} {
		p.R = rows
		var s sample
		must(t, m.run(context.Background(), p, 1, &s))
		if got := s.point(p).Recall; math.Abs(got-found[rows]) > 1e-9 {
			t.Errorf("%d exact distances: recall %v, by rank %v", rows, got, found[rows])
		}
	}
}

// A curve has a point for the recalls that are often asked for, as far as beams
// reach them, and none asks for more than that by far.
func TestTuneBeams(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	c, err := Tune(context.Background(), f.v, QuerySet{Queries: queries, Truth: truth}, TuneOptions{K: 10, budget: time.Minute})
	must(t, err)
	best := c.Points[len(c.Points)-1].Recall
	for _, recall := range refined {
		if p, ok := c.resolve(recall); !ok && best >= recall || ok && p.Beam > widest*10 {
			t.Errorf("recall %g: %+v, %v", recall, p, ok)
		}
	}
	if best < 0.99 {
		t.Errorf("best recall %v", best)
	}
}

// Where lists lead nowhere a beam has no more rows than it starts from, so the highest recalls are those of
// more leaves.
func TestStartMore(t *testing.T) {
	f := &fixture{all: clustered(2000, 24, 5)}
	f.queries = &matrix{f.all.data[1900*24:], 100, 24}
	f.all = &matrix{f.all.data[:1900*24], 1900, 24}
	f.v = build(t, f.all, spec{
		metric: vector.L2, labelsK: 4, rotate: 12, sketch: 64, shift: 8,
		forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 7, Natural: true, Seed: 3},
	})
	lists := make([]uint32, f.v.N)
	for i := range lists {
		lists[i] = uint32(i)
	}
	f.v.Neighbors = neighborView(lists, 1, 7)
	queries, truth := f.heldOut(10)
	set := QuerySet{Queries: queries, Truth: truth}
	c, err := Tune(context.Background(), f.v, set, TuneOptions{K: 10, budget: time.Minute})
	must(t, err)
	var most Point // of the beams
	for _, p := range c.Points {
		if p.Params.Beam > 0 && p.Recall > most.Recall {
			most = p
		}
	}
	m := meter{v: f.v, k: 10, queries: queries, truth: truth, lanes: newLanes(1)}
	few := most.Params
	few.Extra = 0
	var s sample
	must(t, m.run(context.Background(), few, 1, &s))
	if less := s.point(few).Recall; most.Params.Extra == 0 || most.Recall < less+0.1 {
		t.Errorf("recall %v from %d more leaves, %v without them", most.Recall, most.Params.Extra, less)
	}
}

// More starts are tried above the recalls that cost at most so many times what 0.95 does.
func TestWithin(t *testing.T) {
	at := func(recall, micros float64) Point { return Point{Recall: recall, Micros: micros} }
	for _, c := range []struct {
		points []Point
		recall float64
		ok     bool
	}{
		{nil, 0, false},
		{[]Point{at(0.9, 5)}, 0, false},
		{[]Point{at(0.95, 10)}, 0.95, false},
		{[]Point{at(0.96, 10), at(0.992, 39), at(0.999, 41)}, 0.99, false},
		{[]Point{at(0.95, 10), at(0.9991, 40)}, 0.999, true},
	} {
		if recall, ok := within(c.points, 4); recall != c.recall || ok != c.ok {
			t.Errorf("%v: up to %v, %v, want %v, %v", c.points, recall, ok, c.recall, c.ok)
		}
	}
}
