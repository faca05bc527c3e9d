package lcif

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// topics draws n rows of a few topics: a topic has its own words and labels.
func topics(n, m, l int, seed uint64) (raw [][]float32, sets [][]uint32) {
	rng := rand.New(rand.NewPCG(seed, 11))
	for range n {
		topic := rng.IntN(l)
		x := make([]float32, m)
		for range 6 {
			x[(topic*3+rng.IntN(5))%m]++
			x[rng.IntN(m)]++
		}
		set := []uint32{uint32(topic)}
		if topic%2 == 0 {
			set = append(set, uint32((topic+1)%l))
		}
		if rng.IntN(4) == 0 {
			set = append(set, uint32(rng.IntN(l)))
		}
		raw, sets = append(raw, x), append(sets, set)
	}
	return raw, sets
}

func topicFixture(t testing.TB, n int) (*lcifFixture, *vector.CSR) {
	t.Helper()
	const m, l, queries = 40, 9, 60
	raw, sets := topics(n+queries, m, l, 3)
	f := newLCIFFixture(t, raw[:n], m, sets[:n], l)
	q := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	for _, x := range raw[n:] {
		q.Append(sparse(x))
	}
	return f, q
}

func TestPredictAllocatesNothing(t *testing.T) {
	f, q := topicFixture(t, 400)
	ctx := context.Background()
	for name, p := range map[string]Params{
		"set":          {K: 20, Alpha: 2, Beta: 2, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}},
		"top":          {K: 20, Alpha: 1.3, Beta: 1.3, Lambda: 0.5, Top: 3},
		"second order": {K: 20, Lambda: 0.5, SecondOrder: 0.3, Top: 3},
		"instances":    {K: 20, Lambda: 1},
		"features":     {Lambda: 0},
	} {
		s := NewPredictor()
		var dst []labels.Ranked
		run := func() {
			for i := range q.Rows() {
				var err error
				if dst, _, err = s.Predict(ctx, f.view, q.Row(i), &p, dst[:0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		run()
		// What the search for neighbours allocates is its own affair.
		search := func() {
			if p.Lambda == 0 {
				return
			}
			for i := range q.Rows() {
				var err error
				if s.hits, err = f.view.Neighbors.Neighbors(ctx, &s.scratch, NeighborQuery{Raw: q.Row(i), Unit: q.Row(i)}, p.K, s.hits[:0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := testing.AllocsPerRun(3, run) - testing.AllocsPerRun(3, search); n > 0 {
			t.Errorf("%s: %v allocations in %d predictions", name, n, q.Rows())
		}
	}
}

func TestPredictErrors(t *testing.T) {
	f, q := topicFixture(t, 50)
	good := Params{K: 5, Lambda: 0.5}
	with := func(change func(*Params)) Params { p := good; change(&p); return p }
	noNeighbors, noPowers, noRows := *f.view, *f.view, *f.view
	noNeighbors.Neighbors, noPowers.Powers, noRows.Row = nil, nil, nil
	nan := math.NaN()
	for name, c := range map[string]struct {
		view *View
		p    Params
		q    vector.Sparse
		want error
	}{
		"k":                    {f.view, with(func(p *Params) { p.K = 0 }), q.Row(0), query.ErrParams},
		"alpha":                {f.view, with(func(p *Params) { p.Alpha = -1 }), q.Row(0), query.ErrParams},
		"alpha not a number":   {f.view, with(func(p *Params) { p.Alpha = nan }), q.Row(0), query.ErrParams},
		"beta infinite":        {f.view, with(func(p *Params) { p.Beta = math.Inf(1) }), q.Row(0), query.ErrParams},
		"lambda above 1":       {f.view, with(func(p *Params) { p.Lambda = 1.1 }), q.Row(0), query.ErrParams},
		"lambda not a number":  {f.view, with(func(p *Params) { p.Lambda = nan }), q.Row(0), query.ErrParams},
		"second order below 0": {f.view, with(func(p *Params) { p.SecondOrder = -0.1 }), q.Row(0), query.ErrParams},
		"top":                  {f.view, with(func(p *Params) { p.Top = -1 }), q.Row(0), query.ErrParams},
		"few thresholds":       {f.view, with(func(p *Params) { p.Thresholds = &labels.Thresholds{PerLabel: []float64{1}} }), q.Row(0), query.ErrParams},
		"unsorted query":       {f.view, good, vector.Sparse{Index: []uint32{3, 1}, Value: []float32{1, 1}}, query.ErrParams},
		"negative query":       {f.view, good, vector.Sparse{Index: []uint32{1, 3}, Value: []float32{1, -1}}, postings.ErrParams},
		"negative, instances":  {f.view, with(func(p *Params) { p.Lambda = 1 }), vector.Sparse{Index: []uint32{1}, Value: []float32{-1}}, postings.ErrParams},
		"no neighbours":        {&noNeighbors, good, q.Row(0), query.ErrMethod},
		"no similarities":      {&noPowers, good, q.Row(0), query.ErrMethod},
		"no rows":              {&noRows, with(func(p *Params) { p.SecondOrder = 0.5 }), q.Row(0), query.ErrMethod},
	} {
		before := []labels.Ranked{{Label: 1}}
		got, _, err := NewPredictor().Predict(context.Background(), c.view, c.q, &c.p, before)
		if !errors.Is(err, c.want) || len(got) != 1 {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
	if _, err := NewPredictor().ExplainLabels(context.Background(), f.view, q.Row(0), &good, []uint32{9}); !errors.Is(err, query.ErrParams) {
		t.Errorf("explaining a label that does not exist: %v", err)
	}
	features := with(func(p *Params) { p.Lambda = 0; p.K = 0 })
	if _, _, err := NewPredictor().Predict(context.Background(), &noNeighbors, q.Row(0), &features, nil); err != nil {
		t.Errorf("features alone: %v", err)
	}
}

func TestPredictDegenerate(t *testing.T) {
	ctx := context.Background()
	p := Params{K: 3, Lambda: 0.5, SecondOrder: 0.5, Top: 5}
	one := vector.Sparse{Index: []uint32{0}, Value: []float32{2}}
	for name, c := range map[string]struct {
		raw  [][]float32
		sets [][]uint32
		q    vector.Sparse
		want []uint32
	}{
		"no rows":              {nil, nil, one, nil},
		"empty query":          {[][]float32{{1, 1}}, [][]uint32{{0}}, vector.Sparse{}, nil},
		"zeros":                {[][]float32{{1, 1}}, [][]uint32{{0}}, vector.Sparse{Index: []uint32{0}, Value: []float32{0}}, nil},
		"unknown features":     {[][]float32{{1, 1}}, [][]uint32{{0}}, vector.Sparse{Index: []uint32{9}, Value: []float32{1}}, nil},
		"nothing in common":    {[][]float32{{0, 1}}, [][]uint32{{0}}, one, nil},
		"no labels":            {[][]float32{{1, 0}, {1, 1}}, [][]uint32{nil, nil}, one, nil},
		"rows without values":  {[][]float32{{0, 0}, {1, 0}}, [][]uint32{{1}, {0}}, one, []uint32{0}},
		"a single label":       {[][]float32{{1, 0}, {1, 1}}, [][]uint32{{0}, {0}}, one, []uint32{0}},
		"label without others": {[][]float32{{1, 0}}, [][]uint32{{1}}, one, []uint32{1}},
	} {
		f := newLCIFFixture(t, c.raw, 2, c.sets, 2)
		got, _, err := NewPredictor().Predict(ctx, f.view, c.q, &p, nil)
		var have []uint32
		for _, r := range got {
			have = append(have, r.Label)
		}
		if err != nil || !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// keepFeatures is the matrix with only the given features.
func keepFeatures(m *vector.CSR, features []uint32) *vector.CSR {
	out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range m.Rows() {
		var kept vector.Sparse
		for e, f := range m.Row(i).Index {
			if slices.Contains(features, f) {
				kept.Index, kept.Value = append(kept.Index, f), append(kept.Value, m.Row(i).Value[e])
			}
		}
		out.Append(kept)
	}
	out.Cols = m.Cols
	return out
}

// A selection of features is what the view says: predictions are those of the
// whole pipeline run on rows and queries with these features only.
func TestSelectedFeatures(t *testing.T) {
	f, q := topicFixture(t, 200)
	chosen := labels.SelectFeatures(f.rows, 12)
	raw := make([][]float32, f.rows.Rows())
	kept := keepFeatures(f.rows, chosen)
	for i := range raw {
		raw[i] = make([]float32, f.rows.Cols)
		for j, x := range dense(kept.Row(i), f.rows.Cols) {
			raw[i][j] = float32(x)
		}
	}
	sets := make([][]uint32, len(raw))
	for i := range sets {
		sets[i] = f.truth.Row(i)
	}
	small := newLCIFFixture(t, raw, f.rows.Cols, sets, f.truth.Labels())
	masked := *small.view
	masked.SelectFeatures(append(slices.Clone(chosen), 4000))
	p := Params{K: 7, Alpha: 2, Lambda: 0.4, Top: 9}
	want, err := predictAll(context.Background(), small.view, keepFeatures(q, chosen), &p)
	must(t, err)
	got, err := predictAll(context.Background(), &masked, q, &p)
	must(t, err)
	if !slices.EqualFunc(got, want, slices.Equal[[]labels.Ranked]) {
		t.Error("predictions with selected features differ from those on rows that have no others")
	}
}

// The set of a prediction is that of the thresholds over its scores.
func TestSetOfScores(t *testing.T) {
	f, q := topicFixture(t, 300)
	ctx := context.Background()
	p := Params{K: 10, Alpha: 1.5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.15, KeepTop: true}}
	scores, err := scoreAll(ctx, f.view, q, &p)
	must(t, err)
	sets, err := p.Thresholds.Predict(scores)
	must(t, err)
	s := NewPredictor()
	for i := range q.Rows() {
		_, _, err := s.Predict(ctx, f.view, q.Row(i), &p, nil)
		if err != nil || !slices.Equal(s.Set(), sets.Row(i)) {
			t.Fatalf("query %d: %v, thresholds make %v of the scores, %v", i, s.Set(), sets.Row(i), err)
		}
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := s.Predict(stopped, f.view, q.Row(0), &Params{Lambda: 0}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled prediction: %v", err)
	}
}

// Without values every feature of a query counts one.
func TestBinaryQueries(t *testing.T) {
	f, q := topicFixture(t, 100)
	ones := vector.CSR{Ptr: q.Ptr, Index: q.Index, Value: slices.Repeat([]float32{1}, len(q.Index)), Cols: q.Cols}
	bare := ones
	bare.Value = nil
	p := Params{K: 10, Lambda: 0.5, Top: 3}
	want, err := predictAll(context.Background(), f.view, &ones, &p)
	must(t, err)
	got, err := predictAll(context.Background(), f.view, &bare, &p)
	if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]labels.Ranked]) {
		t.Errorf("predictions for binary rows differ, %v", err)
	}
}

// A query without any evidence gets no label, and so do rows of a
// cross-validation, even where the best label is always predicted.
func TestNoEvidenceMeansNoLabels(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 200, 3)
	view, counts, err := Build(ctx, x, y, 0, 1)
	must(t, err)
	must(t, view.SetPower(counts, 1))
	queries := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 99}
	for range 40 { // a group of them, with others between
		queries.Append(vector.Sparse{})
		queries.Append(vector.Sparse{Index: []uint32{90}, Value: []float32{2}})
		queries.Append(x.Row(len(queries.Ptr)))
	}
	for name, p := range map[string]Params{
		"top":       {K: 5, Lambda: 0.5, Top: 3},
		"best":      {K: 5, Lambda: 1},
		"features":  {Lambda: 0, Top: 20},
		"threshold": {K: 5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.01, KeepTop: true}},
		"keep top":  {K: 5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.99, KeepTop: true}},
	} {
		one := NewPredictor()
		for i := range queries.Rows() {
			got, stats, err := one.Predict(ctx, view, queries.Row(i), &p, nil)
			if err != nil || stats.NoEvidence != (i%3 < 2) ||
				stats.NoEvidence != (len(got) == 0) {
				t.Fatalf("%s: query %d: %v, %+v, %v", name, i, got, stats, err)
			}
		}
	}
	all, err := NewPredictor().ExplainLabels(ctx, view, vector.Sparse{}, &Params{K: 5, Lambda: 0.5}, nil)
	if err != nil || len(all) != 0 {
		t.Errorf("explained by %+v, %v", all, err)
	}
	// The tuner sees the same.
	raw := labels.SelectRows(x, nil)
	for i := range 200 {
		if i%10 == 0 {
			raw.Append(vector.Sparse{})
		} else {
			raw.Append(x.Row(i))
		}
	}
	raw.Cols = x.Cols
	for _, lambda := range []float64{0, 0.5, 1} {
		held, err := CrossValidation(raw, y, nil, CVOptions{Folds: 4})(ctx, 0)
		must(t, err)
		tr, err := newTrials(held, 2)
		must(t, err)
		tr.propensity = true
		s := Setting{K: 7, Alpha: 1, Beta: 1, Lambda: lambda, Cut: Cut{Share: 1}}.canonical()
		must(t, tr.neighbors(ctx, 7, func(int, int) {}))
		got, err := tr.measure(ctx, s)
		must(t, err)
		if want, _ := plain(t, held, s); !equalMeasures(got.Measures, want) {
			t.Errorf("λ %g: measured %+v, predictions %+v", lambda, got.Measures, want)
		}
	}
}
