package lcif

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// topicSet is a labelled set and its labels.
func topicSet(t testing.TB, n int, seed uint64) (*vector.CSR, *labels.Matrix) {
	t.Helper()
	const m, l = 40, 9
	raw, sets := topics(n, m, l, seed)
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	for _, r := range raw {
		x.Append(sparse(r))
	}
	x.Cols = m
	y, err := labels.FromSets(sets, l)
	must(t, err)
	return x, y
}

// heldOut returns data to tune on rows that are not training rows.
func heldOut(
	rows *vector.CSR, sets *labels.Matrix, queries *vector.CSR, truth *labels.Matrix, workers int,
) Data {
	return func(ctx context.Context, features int) (*HeldOut, error) {
		view, counts, err := Build(ctx, rows, sets, features, workers)
		part := Part{View: view, Queries: queries, Truth: truth}
		part.Counts = func(context.Context) (*labels.FeatureLabels, error) { return counts, nil }
		return &HeldOut{Parts: []Part{part}, Train: sets}, err
	}
}

// Rows that are not live change nothing: they are empty.
func TestTuneOverLiveRows(t *testing.T) {
	x, y := topicSet(t, 90, 3)
	some, none := []int{}, map[int]bool{}
	for i := range x.Rows() {
		if none[i] = i%4 == 1; !none[i] {
			some = append(some, i)
		}
	}
	all := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	sets := make([][]uint32, x.Rows())
	for i := range sets {
		if none[i] {
			all.Append(vector.Sparse{})
			continue
		}
		all.Append(x.Row(i))
		sets[i] = y.Row(i)
	}
	all.Cols = x.Cols
	live, err := labels.FromSets(sets, y.Labels())
	must(t, err)
	o, cv := TuneOptions{Ks: []int{1, 5}, SecondOrders: []float64{0, 0.5}}, CVOptions{Folds: 4, Seed: 1}
	want, err := Tune(t.Context(), CrossValidation(labels.SelectRows(x, some), y.Select(some), nil, cv), o)
	must(t, err)
	got, err := Tune(t.Context(), CrossValidation(all, live, some, cv), o)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// A part of a cross-validation is what training on the other rows makes.
func TestFoldsAreTrainedOnOtherRows(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 60, 1)
	for _, features := range []int{0, 15} {
		held, err := CrossValidation(x, y, nil, CVOptions{Folds: 4, Seed: 2})(ctx, features)
		must(t, err)
		folds, err := labels.KFold(60, 4, 2)
		must(t, err)
		for i, part := range held.Parts {
			rest := folds[i].Train
			units := UnitRows(x, part.View)
			counts, err := labels.CountFeatureLabels(ctx, labels.SelectRows(units, rest), y.Select(rest), 1)
			must(t, err)
			got, err := part.Counts(ctx)
			must(t, err)
			if !reflect.DeepEqual(got, counts) {
				t.Fatalf("fold %d: counts are not those of the other rows", i)
			}
			ix, err := postings.Build(ctx, labels.SelectRows(units, rest), nil)
			must(t, err)
			var s NeighborScratch
			for r := range part.Queries.Rows() {
				u := UnitRows(part.Queries, part.View).Row(r)
				got, err := part.View.Neighbors.Neighbors(ctx, &s, NeighborQuery{Raw: u, Unit: u}, 7, nil)
				must(t, err)
				want, _, err := s.Postings.Search(ctx, ix, u, 7, postings.SearchParams{}, nil)
				must(t, err)
				for j := range want {
					want[j].Row = uint32(rest[want[j].Row])
				}
				if !slices.Equal(got, want) {
					t.Fatalf("fold %d, row %d: neighbours %v, want %v", i, r, got, want)
				}
			}
		}
	}
	held, err := CrossValidation(x, y, nil, CVOptions{Folds: 7, Rows: 20})(ctx, 0)
	must(t, err)
	var tried []int // of all parts of the file, whose rows may be in an order
	for _, p := range held.Parts {
		tried = append(tried, p.Rows...)
	}
	slices.Sort(tried)
	if half := x.Rows() / 2; len(tried) != 20 || tried[4] > half || tried[15] < half {
		t.Errorf("rows %d tried, want 20 from everywhere in %d", tried, x.Rows())
	}
}

// plain measures a setting the long way: all scores by the predictor, all
// measures by package labels.
func plain(t testing.TB, held *HeldOut, s Setting) (Measures, *labels.Thresholds) {
	t.Helper()
	ctx := context.Background()
	scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	var sets [][]uint32
	for _, part := range held.Parts {
		v := *part.View
		v.Powers = nil
		if s.Beta > 0 {
			counts, err := part.Counts(ctx)
			must(t, err)
			must(t, v.SetPower(counts, s.Beta))
		}
		m, err := scoreAll(ctx, &v, part.Queries, &Params{
			K: s.K, Alpha: s.Alpha, Beta: s.Beta, Lambda: s.Lambda, SecondOrder: s.SecondOrder,
		})
		must(t, err)
		for i := range m.Rows() {
			scores.Append(m.Row(i))
			sets = append(sets, part.Truth.Row(i))
		}
	}
	scores.Cols = held.Train.Labels()
	truth, err := labels.FromSets(sets, scores.Cols)
	must(t, err)
	th := &labels.Thresholds{KeepTop: !s.Cut.NoTop}
	switch {
	case len(scores.Index) == 0:
	case s.Cut.Steps && !s.Cut.PerLabel:
		th, err = labels.SteppedThreshold(scores, s.Cut.Share*held.Train.Cardinality(), !s.Cut.NoTop)
	case s.Cut.PerLabel:
		th, err = labels.LabelThresholds(scores, held.Train, !s.Cut.NoTop)
	default:
		th, err = labels.SingleThreshold(scores, s.Cut.Share*held.Train.Cardinality(), !s.Cut.NoTop)
	}
	must(t, err)
	predicted, err := th.Predict(scores)
	must(t, err)
	r, err := labels.Evaluate(truth, predicted)
	must(t, err)
	ranking, err := labels.EvaluateRanking(truth, scores, []int{1, 3, 5})
	must(t, err)
	psp := plainPropensity(held, truth, scores, th)
	if th.PerLabel != nil { // the order of labels is by score / threshold: give each its place from the end
		for i := range scores.Rows() {
			row, order := scores.Row(i), slices.Clone(scores.Row(i).Index)
			ratio := func(l uint32) float64 { return float64(scoreAt(row, l)) / th.PerLabel[l] }
			slices.SortStableFunc(order, func(a, b uint32) int {
				return cmp.Or(cmp.Compare(ratio(b), ratio(a)), cmp.Compare(scoreAt(row, b), scoreAt(row, a)))
			})
			places := make([]float32, len(order))
			for e, l := range row.Index {
				places[e] = float32(len(order) - slices.Index(order, l))
			}
			copy(row.Value, places)
		}
		ranking, err = labels.EvaluateRanking(truth, scores, []int{1, 3, 5})
		must(t, err)
	}
	m := Measures{
		Accuracy: r.Mulan.Accuracy, MicroF1: r.Mulan.Micro.F1, MacroF1: r.Mulan.Macro.F1,
		MacroF1Zero: r.Zero.Macro.F1, HammingLoss: r.HammingLoss, Precision: [3]float64(ranking.Precision),
		NDCG5: ranking.NDCG[2], PSP5: psp,
	}
	return m, th
}

// plainPropensity returns propensity-scored precision@5 by its definition (Jain, Prabhu, Varma 2016, equations 10 and
// 13, over the best that can be had), of labels in the order of score, by threshold, times inverse propensity.
func plainPropensity(held *HeldOut, truth *labels.Matrix, scores *vector.CSR, th *labels.Thresholds) float64 {
	n := float64(held.Train.Rows())
	weight := func(l uint32) float64 {
		return 1 + (math.Log(n)-1)*math.Pow(2.5, 0.55)/math.Pow(float64(len(held.Train.Column(int(l))))+1.5, 0.55)
	}
	found, most := 0., 0.
	for i := range truth.Rows() {
		row, order := scores.Row(i), slices.Clone(scores.Row(i).Index)
		value := func(l uint32) float32 {
			return Strength(th, labels.Ranked{Label: l, Score: scoreAt(row, l)}) * float32(weight(l))
		}
		slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(value(b), value(a)) })
		for _, l := range order[:min(5, len(order))] {
			if value(l) > 0 && slices.Contains(truth.Row(i), l) {
				found += weight(l)
			}
		}
		best := slices.Clone(truth.Row(i))
		slices.SortFunc(best, func(a, b uint32) int { return cmp.Compare(weight(b), weight(a)) })
		for _, l := range best[:min(5, len(best))] {
			most += weight(l)
		}
	}
	return found / max(most, 1e-300)
}

func scoreAt(s vector.Sparse, l uint32) float32 {
	i, _ := slices.BinarySearch(s.Index, l)
	return s.Value[i]
}

// equalMeasures compares with room for another order of sums.
func equalMeasures(a, b Measures) bool {
	for o := MicroF1; o <= PropensityAt5; o++ {
		if d := a.Of(o) - b.Of(o); d > 1e-12 || d < -1e-12 {
			return false
		}
	}
	d := a.MacroF1Zero - b.MacroF1Zero
	return d < 1e-12 && d > -1e-12
}

func TestTrialsMeasureWhatPredictionsDo(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 90, 5)
	held, err := CrossValidation(x, y, nil, CVOptions{Folds: 3})(ctx, 0)
	must(t, err)
	tr, err := newTrials(held, 2)
	must(t, err)
	tr.propensity = true
	must(t, tr.neighbors(ctx, 30, func(int, int) {}))
	rapid.Check(t, func(rt *rapid.T) {
		powers := rapid.SampledFrom([]float64{0.5, 1, 1.5, 2, 0.7})
		s := Setting{
			K: rapid.IntRange(1, 30).Draw(rt, "k"), Alpha: powers.Draw(rt, "alpha"), Beta: powers.Draw(rt, "beta"),
			Lambda:      rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(rt, "lambda"),
			SecondOrder: rapid.SampledFrom([]float64{0, 0.5}).Draw(rt, "second"),
		}.canonical()
		draw := rapid.Custom(func(rt *rapid.T) Cut {
			return Cut{
				PerLabel: rapid.IntRange(0, 5).Draw(rt, "per label") == 0,
				Share:    rapid.SampledFrom([]float64{0.1, 0.5, 1, 2, 50}).Draw(rt, "share"),
				NoTop:    rapid.Bool().Draw(rt, "no top"),
				Steps:    rapid.IntRange(0, 3).Draw(rt, "steps") == 0,
			}
		})
		var settings []Setting
		for _, s.Cut = range rapid.SliceOfN(draw, 1, 3).Draw(rt, "cuts") {
			other := s
			other.K, other.Lambda, other.Beta = rapid.IntRange(1, 30).Draw(rt, "other k"), 0.3, cmp.Or(s.Beta, 1)
			settings = append(settings, s, other)
		}
		for _, s := range settings {
			got, err := tr.measure(ctx, s)
			if err != nil {
				rt.Fatal(err)
			}
			want, th := plain(t, held, s.canonical())
			if !equalMeasures(got.Measures, want) || !reflect.DeepEqual(got.thresholds, th) {
				rt.Fatalf("%+v: measured %+v by %+v, want %+v by %+v", s, got.Measures, got.thresholds, want, th)
			}
		}
	})
}

// All measures of a cross-validation are over all rows and labels at once, macro
// averages too, however many the folds are: as package labels evaluates a test part.
func TestMacroAveragesOverAllRows(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 900, 4)
	held, err := CrossValidation(x, y, nil, CVOptions{Folds: 3})(ctx, 0)
	must(t, err)
	tr, err := newTrials(held, 1)
	must(t, err)
	tr.propensity = true
	s := Setting{Beta: 1, Cut: Cut{Share: 1}}
	got, err := tr.measure(ctx, s)
	must(t, err)
	if want, _ := plain(t, held, s); !equalMeasures(got.Measures, want) {
		t.Errorf("measured %+v, package labels %+v", got.Measures, want)
	}
}

// uneven is a labeled set whose tuning needs every parameter: labels of very
// different frequency, features that are noise, and neighbors that mislead.
func uneven(t testing.TB, n int, seed uint64) (*vector.CSR, *labels.Matrix) {
	t.Helper()
	const m, l = 60, 12
	rng := rand.New(rand.NewPCG(seed, 3))
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	var sets [][]uint32
	for range n {
		topic := min(rng.IntN(l), rng.IntN(l), rng.IntN(l))
		row := make([]float32, m)
		for range 3 {
			row[topic*4+rng.IntN(8)]++
		}
		for range 6 {
			row[48+rng.IntN(12)]++
		}
		set := []uint32{uint32(topic)}
		if rng.IntN(2) == 0 {
			set = append(set, uint32((topic+1)%l))
		}
		if rng.IntN(3) == 0 {
			set = append(set, uint32(rng.IntN(l)))
		}
		x.Append(sparse(row))
		sets = append(sets, set)
	}
	x.Cols = m
	y, err := labels.FromSets(sets, l)
	must(t, err)
	return x, y
}

// The coordinate search ends where no other value of a single parameter is
// better: measured without the tuner.
func TestCoordinateSearchVariesEveryParameter(t *testing.T) {
	ctx := context.Background()
	x, y := uneven(t, 250, 1)
	queries, truth := uneven(t, 250, 2)
	data := heldOut(x, y, queries, truth, 2)
	held, err := data(ctx, 0)
	must(t, err)
	o := TuneOptions{
		Ks: []int{5, 20, 100}, Alphas: []float64{0.5, 1, 2, 4}, Betas: []float64{0.25, 0.5, 1, 2, 3},
		Lambdas: []float64{0.2, 0.5, 0.8}, Cuts: []Cut{{Share: 1}, {Share: 1.5}}, Passes: 20,
	}
	moved := map[string]bool{}
	for _, o.Objective = range []Objective{MicroF1, MacroF1, Accuracy} {
		objective := o.Objective
		c, err := Tune(ctx, data, o)
		must(t, err)
		best := c.Best
		try := func(name string, s Setting) {
			if m, _ := plain(t, held, s.canonical()); m.Of(objective) > best.Of(objective)+1e-12 {
				t.Errorf("%v: %s: %+v has %v, the choice %+v", objective, name, s, m.Of(objective), best)
			}
		}
		for _, k := range o.Ks {
			s := best.Setting
			s.K = k
			try("k", s)
		}
		for name, values := range map[string][]float64{"alpha": o.Alphas, "beta": o.Betas, "lambda": o.Lambdas} {
			for _, x := range values {
				s := best.Setting
				*map[string]*float64{"alpha": &s.Alpha, "beta": &s.Beta, "lambda": &s.Lambda}[name] = x
				try(name, s)
			}
		}
		for _, cut := range o.Cuts {
			s := best.Setting
			s.Cut = cut
			try("cut", s)
		}
		moved["k"] = moved["k"] || best.K != 100
		moved["alpha"] = moved["alpha"] || best.Alpha != 1
		moved["beta"] = moved["beta"] || best.Beta != 1
		moved["lambda"] = moved["lambda"] || best.Lambda != 0.5
	}
	for _, name := range []string{"k", "alpha", "beta", "lambda"} {
		if !moved[name] {
			t.Errorf("the best %s is where the search starts: the data does not test it", name)
		}
	}
}

// The paper's protocol is one pass over the parameters with its values.
func TestPaperProtocol(t *testing.T) {
	ctx := context.Background()
	x, y := uneven(t, 500, 5)
	c, err := Tune(ctx, CrossValidation(x, y, nil, CVOptions{Folds: 5}), TuneOptions{Paper: true})
	must(t, err)
	ks, shares := map[int]bool{}, map[int]bool{}
	// One pass: k, then α with that k, then β, then λ, each from the best so far.
	stage, at := 0, Setting{}
	better := func(p Point, than float64) bool { return p.MicroF1 > than }
	best := -1.0
	for i, p := range c.Points {
		if p.Cut != (Cut{Share: 1, Steps: true}) {
			t.Fatalf("%+v: not a threshold of the paper", p)
		}
		ks[p.K], shares[p.Features] = true, true
		if p.Features != c.Params.Features {
			continue
		}
		if i == 0 || best < 0 {
			if p.K != 100 || p.Alpha != 1 || p.Beta != 1 || p.Lambda != 0.5 {
				t.Errorf("starts at %+v", p.Setting)
			}
			best, at = p.MicroF1, p.Setting
			continue
		}
		changed := 0
		for n, is := range []bool{p.K != at.K && p.Lambda > 0, p.Alpha != at.Alpha && p.Lambda > 0 && p.K != 1, p.Beta != at.Beta && p.Lambda < 1, p.Lambda != at.Lambda} {
			if is {
				changed = max(changed, n)
			}
		}
		if changed < stage {
			t.Errorf("point %d, %+v: parameter %d after parameter %d", i, p.Setting, changed, stage)
		}
		stage = max(stage, changed)
		if better(p, best) {
			best = p.MicroF1
			at = p.Setting
		}
	}
	delete(ks, 0)
	if len(ks) != 9 || !ks[1] || !ks[5] || !ks[350] || len(shares) != 7 {
		t.Errorf("k %v, numbers of features %v", ks, shares)
	}
	if th := c.Params.Thresholds; th.PerLabel != nil || !th.KeepTop || math.Abs(th.Single*100-math.Round(th.Single*100)) > 1e-9 {
		t.Errorf("thresholds %+v, want hundredths", th)
	}
}

func TestTuneLCIF(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 240, 7)
	queries, truth := topicSet(t, 80, 8)
	data := heldOut(x, y, queries, truth, 2)
	held, err := data(ctx, 0)
	must(t, err)
	for objective := MicroF1; objective <= PropensityAt5; objective++ {
		stages := map[string]bool{}
		o := TuneOptions{
			Objective: objective, Workers: 2,
			Ks: []int{1, 5, 20, 400}, Alphas: []float64{1, 2}, Betas: []float64{1, 2}, Lambdas: []float64{0, 0.3, 0.6, 1},
			Progress: func(stage string, done, total int) {
				name, _, _ := strings.Cut(stage, ",")
				stages[name] = true
				if done > total {
					t.Errorf("%s: %d of %d", stage, done, total)
				}
			},
		}
		c, err := Tune(ctx, data, o)
		must(t, err)
		if c.Rows != 80 || c.Labels != 9 || !stages["settings"] || !stages["neighbours"] {
			t.Fatalf("%d rows, %d labels, stages %v", c.Rows, c.Labels, stages)
		}
		seen := map[Setting]bool{}
		for _, p := range c.Points {
			if seen[p.Setting] || p.Setting != p.canonical() {
				t.Fatalf("%+v stands twice on the curve or says what does not matter", p)
			}
			seen[p.Setting] = true
			if p.Better(&c.Best.Measures, objective) {
				t.Errorf("%v: %+v is better than the choice %+v", objective, p, c.Best)
			}
			if objective >= PrecisionAt1 && p.Cut != DefaultCuts(false)[0] && !p.Cut.PerLabel {
				t.Errorf("%v: a cut that does not change the order was tried: %+v", objective, p.Cut)
			}
		}
		m, th := plain(t, held, c.Best.Setting)
		if objective != PropensityAt5 {
			m.PSP5 = 0 // it is not measured
		}
		if !equalMeasures(m, c.Best.Measures) || !reflect.DeepEqual(th, c.Params.Thresholds) {
			t.Errorf("%v: chosen for %+v, predictions do %+v", objective, c.Best, m)
		}
		o.Workers = 1
		again, err := Tune(ctx, data, o)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("another number of workers gives another curve, %v", err)
		}
		text, err := json.Marshal(c)
		must(t, err)
		var back Curve
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(&back, c) {
			t.Errorf("the curve does not survive JSON, %v", err)
		}
	}
}

// A later pass varies a parameter again, since the best value of one depends on the others.
func TestTuneRepeatsPasses(t *testing.T) {
	ctx := context.Background()
	x, y := uneven(t, 250, 1)
	queries, truth := uneven(t, 250, 2)
	o := TuneOptions{Objective: MacroF1, Ks: []int{5, 20, 100}}
	best := make([]float64, 5)
	for o.Passes = range best {
		c, err := Tune(ctx, heldOut(x, y, queries, truth, 2), o)
		must(t, err)
		best[o.Passes] = c.Best.MacroF1
	}
	if best[0] != best[3] || !(best[1] < best[2]) {
		t.Errorf("macro F1 by passes %v: zero has to be three, and two better than one", best)
	}
}

// A tuner that is stopped returns the best of what it has measured, at least of one setting.
func TestTuneStops(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 120, 3)
	data := CrossValidation(x, y, nil, CVOptions{Folds: 3})
	all, err := Tune(ctx, data, TuneOptions{})
	must(t, err)
	for _, n := range []int{0, 1, 20} {
		stop := make(chan struct{})
		o := TuneOptions{Stop: stop, Progress: func(stage string, done, _ int) {
			if strings.HasPrefix(stage, "settings") && done == n {
				close(stop)
			}
		}}
		if n == 0 {
			close(stop)
		}
		c, err := Tune(ctx, data, o)
		must(t, err)
		if len(c.Points) < max(n, 1) || len(c.Points) >= len(all.Points) || n < 2 && len(c.Points) > 1 {
			t.Errorf("stopped after %d settings: %d measured, without a stop %d", n, len(c.Points), len(all.Points))
		}
		if !slices.Equal(c.Points, all.Points[:len(c.Points)]) || c.Params.Thresholds == nil {
			t.Errorf("stopped after %d settings: %+v", n, c)
		}
		for _, p := range c.Points {
			if p.Better(&c.Best.Measures, MicroF1) {
				t.Errorf("stopped after %d settings: %+v is better than the choice %+v", n, p, c.Best)
			}
		}
	}
}

// Of a row with more labels than are kept, the best are, in the order of the labels.
func TestKeepBest(t *testing.T) {
	x := vector.Sparse{Index: []uint32{2, 5, 7, 8, 9}, Value: []float32{0.5, 0.25, 0.5, 0.75, 0.5}}
	new(tally).keepBest(&x, 3)
	if want := []uint32{2, 7, 8}; !slices.Equal(x.Index, want) || !slices.Equal(x.Value, []float32{0.5, 0.5, 0.75}) {
		t.Errorf("labels %v with %v, want %v", x.Index, x.Value, want)
	}
}

func TestTuneLCIFFeatures(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 200, 9)
	c, err := Tune(ctx, CrossValidation(x, y, nil, CVOptions{Folds: 4}), TuneOptions{
		FeatureShare: []float64{0.1, 0.5, 1}, Ks: []int{5, 20}, SecondOrders: []float64{0, 0.3}, Passes: 1,
	})
	must(t, err)
	tried := map[int]float64{}
	for _, p := range c.Points {
		if _, ok := tried[p.Features]; !ok {
			tried[p.Features] = p.MicroF1
		}
	}
	if len(tried) != 3 {
		t.Fatalf("numbers of features tried: %v", tried)
	}
	for features, f1 := range tried {
		if f1 > tried[c.Params.Features] {
			t.Errorf("%d features give %v, chosen are %d with %v", features, f1, c.Params.Features, tried[c.Params.Features])
		}
	}
	if !slices.ContainsFunc(c.Points, func(p Point) bool { return p.SecondOrder == 0.3 }) {
		t.Error("second order was not tried")
	}
}

// Degenerate data is measured, not refused.
func TestTuneLCIFDegenerate(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 40, 3)
	empty := &vector.CSR{Ptr: make([]uint64, 41), Value: []float32{}, Cols: 40}
	none, err := labels.FromSets(make([][]uint32, 40), 9)
	must(t, err)
	for name, data := range map[string]Data{
		"rows without features": CrossValidation(empty, y, nil, CVOptions{Folds: 2}),
		"rows without labels":   CrossValidation(x, none, nil, CVOptions{Folds: 2}),
		"unlike queries":        heldOut(x, y, empty, none, 1),
		"no queries":            heldOut(x, y, labels.SelectRows(x, nil), y.Select(nil), 1),
	} {
		if c, err := Tune(ctx, data, TuneOptions{Ks: []int{1, 50}}); err != nil || len(c.Points) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTuneLCIFErrors(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 40, 3)
	data := CrossValidation(x, y, nil, CVOptions{Folds: 4})
	noCounts := func(ctx context.Context, features int) (*HeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[1].Counts = nil
		return held, err
	}
	noNeighbors := func(ctx context.Context, features int) (*HeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[0].View.Neighbors = nil
		return held, err
	}
	noRows := func(ctx context.Context, features int) (*HeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[0].View.Row = nil
		return held, err
	}
	misfit := func(ctx context.Context, features int) (*HeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[0].Truth = y
		return held, err
	}
	negative := labels.SelectRows(x, []int{0, 1, 2})
	negative.Value[0] = -1
	short := []int{5}
	three := y.Select([]int{0, 1, 2})
	for name, c := range map[string]struct {
		data Data
		o    TuneOptions
		want error
	}{
		"objective":       {data, TuneOptions{Objective: 99}, query.ErrParams},
		"k":               {data, TuneOptions{Ks: []int{0}}, query.ErrParams},
		"alpha":           {data, TuneOptions{Alphas: []float64{0}}, query.ErrParams},
		"beta":            {data, TuneOptions{Betas: []float64{-1}}, query.ErrParams},
		"lambda":          {data, TuneOptions{Lambdas: []float64{1.5}}, query.ErrParams},
		"second order":    {data, TuneOptions{SecondOrders: []float64{2}}, query.ErrParams},
		"share":           {data, TuneOptions{FeatureShare: []float64{0}}, query.ErrParams},
		"cut":             {data, TuneOptions{Cuts: []Cut{{}}}, query.ErrParams},
		"folds":           {CrossValidation(x, y, nil, CVOptions{Folds: 1}), TuneOptions{}, labels.ErrInput},
		"no counts":       {noCounts, TuneOptions{Ks: short}, query.ErrMethod},
		"no neighbours":   {noNeighbors, TuneOptions{Ks: short}, query.ErrMethod},
		"no rows":         {noRows, TuneOptions{Ks: short, SecondOrders: []float64{0.5}}, query.ErrMethod},
		"misfit":          {misfit, TuneOptions{Ks: short}, query.ErrParams},
		"held out misfit": {heldOut(x, y, negative, y, 1), TuneOptions{}, query.ErrParams},
		"negative":        {heldOut(x, y, negative, three, 1), TuneOptions{Ks: short}, postings.ErrParams},
		"nothing":         {func(context.Context, int) (*HeldOut, error) { return &HeldOut{}, nil }, TuneOptions{}, query.ErrParams},
	} {
		if curve, err := Tune(ctx, c.data, c.o); curve != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	var all TuneOptions
	must(t, all.fill())
	stop, cancel := context.WithCancel(ctx)
	settings := 0
	_, err := Tune(stop, data, TuneOptions{Progress: func(stage string, _, _ int) {
		if strings.HasPrefix(stage, "settings") {
			if settings++; settings == 3 {
				cancel()
			}
		}
	}})
	// Settings that go together are measured before any is told of.
	if !errors.Is(err, context.Canceled) || settings > 1+len(all.Ks) {
		t.Errorf("cancelled after %d settings: %v", settings, err)
	}
	var o Objective
	if o.UnmarshalText([]byte("x")) == nil {
		t.Error("an unknown name is read")
	}
	if _, err := Objective(99).MarshalText(); !errors.Is(err, query.ErrParams) {
		t.Errorf("writing an unknown objective: %v", err)
	}
}
