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

// A part of a cross-validation is what training on the other rows makes.
func TestFoldsAreTrainedOnOtherRows(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 60, 1)
	for _, features := range []int{0, 15} {
		held, err := CrossValidation(x, y, CVOptions{Folds: 4, Seed: 2, Graph: 3})(ctx, features)
		must(t, err)
		folds, err := labels.KFold(60, 4, 2)
		must(t, err)
		for i, part := range held.Parts {
			rest := folds[i].Train
			units := unitRows(x, x.Cols, part.View.Keep)
			counts, err := labels.CountFeatureLabels(ctx, labels.SelectRows(units, rest), y.Select(rest), 1)
			must(t, err)
			got, err := part.Counts(ctx)
			must(t, err)
			if !reflect.DeepEqual(got, counts) {
				t.Fatalf("fold %d: counts are not those of the other rows", i)
			}
			ix, err := postings.Build(ctx, labels.SelectRows(units, rest), postings.Params{}, nil)
			must(t, err)
			var s NeighborScratch
			for r := range part.Queries.Rows() {
				u := unitRows(part.Queries, x.Cols, part.View.Keep).Row(r)
				got, err := part.View.Neighbors.Neighbors(ctx, &s, NeighborQuery{u, u}, 7, nil)
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
			for r := range 60 {
				for _, n := range part.View.Graph.Row(r).Index {
					if slices.Contains(folds[i].Test, int(n)) {
						t.Fatalf("fold %d: the graph leads to row %d of the fold", i, n)
					}
				}
			}
		}
	}
	held, err := CrossValidation(x, y, CVOptions{Folds: 7, Rows: 20})(ctx, 0)
	must(t, err)
	n := 0
	for _, p := range held.Parts {
		n += p.Queries.Rows()
	}
	if n != 20 {
		t.Errorf("%d rows tried, want 20", n)
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
			must(t, v.AddPower(counts, s.Beta))
		}
		m, err := ScoreBatch(ctx, &v, part.Queries, &Params{K: s.K, Alpha: s.Alpha, Beta: s.Beta, Lambda: s.Lambda, SecondOrder: s.SecondOrder}, 1, nil)
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
	}
	return m, th
}

func scoreAt(s vector.Sparse, l uint32) float32 {
	i, _ := slices.BinarySearch(s.Index, l)
	return s.Value[i]
}

// equalMeasures compares with room for another order of sums.
func equalMeasures(a, b Measures) bool {
	for o := MicroF1; o <= PrecisionAt5; o++ {
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
	held, err := CrossValidation(x, y, CVOptions{Folds: 3, Graph: 4})(ctx, 0)
	must(t, err)
	tr, err := newTrials(held, 2)
	must(t, err)
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
		cuts := rapid.SliceOfN(draw, 1, 3).Draw(rt, "cuts")
		got, thresholds, err := tr.measure(ctx, s, cuts, func(int, int) {})
		if err != nil {
			rt.Fatal(err)
		}
		for i, c := range cuts {
			s.Cut = c
			want, th := plain(t, held, s)
			if !equalMeasures(got[i], want) || !reflect.DeepEqual(thresholds[i], th) {
				rt.Fatalf("%+v: measured %+v by %+v, want %+v by %+v", s, got[i], thresholds[i], want, th)
			}
		}
	})
}

// All measures of a cross-validation are over all rows and labels at once, macro
// averages too, however many the folds are: as package labels evaluates a test part.
func TestMacroAveragesOverAllRows(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 900, 4)
	held, err := CrossValidation(x, y, CVOptions{Folds: 3})(ctx, 0)
	must(t, err)
	tr, err := newTrials(held, 1)
	must(t, err)
	s := Setting{Beta: 1, Cut: Cut{Share: 1}}
	got, _, err := tr.measure(ctx, s, []Cut{s.Cut}, func(int, int) {})
	must(t, err)
	if want, _ := plain(t, held, s); !equalMeasures(got[0], want) {
		t.Errorf("measured %+v, package labels %+v", got[0], want)
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
	data := HoldOut(x, y, queries, truth, 2)
	held, err := data(ctx, 0)
	must(t, err)
	o := TuneOptions{
		Ks: []int{5, 20, 100}, Alphas: []float64{0.5, 1, 2, 4}, Betas: []float64{0.25, 0.5, 1, 2, 3},
		Lambdas: []float64{0.2, 0.5, 0.8}, Cuts: []Cut{{Share: 1}, {Share: 1.5}}, Search: Coordinates, Passes: 20,
	}
	moved := map[string]bool{}
	for _, o.Objectives = range [][]Objective{{MicroF1}, {MacroF1}, {Accuracy}} {
		objective := o.Objectives[0]
		c, err := Tune(ctx, data, o)
		must(t, err)
		best := c.Choices[0].Point
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

// sharp is rows of one frequent topic and 20 rare ones, five rows each. The
// nearest 300 rows of a rare one are mostly of the frequent topic, so its label
// comes first only with a large α: the larger, the weaker its own feature is.
func sharp(t testing.TB, rare, frequent int) (*vector.CSR, *labels.Matrix) {
	t.Helper()
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	var sets [][]uint32
	add := func(topic uint32, own float32) {
		x.Append(vector.Sparse{Index: []uint32{0, 1 + topic}, Value: []float32{1, own}})
		sets = append(sets, []uint32{topic})
	}
	for range frequent {
		add(0, 2)
	}
	for topic := range uint32(20) {
		for range rare {
			add(1+topic, 1.5+0.25*float32(topic))
		}
	}
	x.Cols = 22
	y, err := labels.FromSets(sets, 21)
	must(t, err)
	return x, y
}

// decoyed is clusters of rows, and a query for each: its nearest rows, 0, 100, …,
// 400 of them, have other labels than the query and the 500 rows behind them.
func decoyed(t testing.TB) (rows, queries *vector.CSR, sets, truth *labels.Matrix) {
	t.Helper()
	rows, queries = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}, &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	var y, z [][]uint32
	for c := range uint32(5) {
		for range 100 * c {
			rows.Append(vector.Sparse{Index: []uint32{2 * c}, Value: []float32{1}})
			y = append(y, []uint32{2 * c})
		}
		for range 500 {
			rows.Append(vector.Sparse{Index: []uint32{2 * c, 2*c + 1}, Value: []float32{1, 0.5}})
			y = append(y, []uint32{2*c + 1})
		}
		queries.Append(vector.Sparse{Index: []uint32{2 * c}, Value: []float32{1}})
		z = append(z, []uint32{2*c + 1})
	}
	rows.Cols, queries.Cols = 10, 10
	var err error
	if sets, err = labels.FromSets(y, 10); err == nil {
		truth, err = labels.FromSets(z, 10)
	}
	must(t, err)
	return rows, queries, sets, truth
}

// Where the best default value is the last one, the search goes on past it;
// values that are given are not left.
func TestTuningGoesPastTheGrid(t *testing.T) {
	ctx := context.Background()
	x, y := sharp(t, 5, 1400)
	queries, truth := sharp(t, 1, 10)
	for _, search := range []Search{FullGrid, Coordinates} {
		o := TuneOptions{
			Variants: []Variant{InstanceOnly}, Objectives: []Objective{PrecisionAt1}, Search: search, Ks: []int{300},
		}
		c, err := Tune(ctx, HoldOut(x, y, queries, truth, 2), o)
		must(t, err)
		if p := c.Choices[0].Params; !(p.Alpha > 2) {
			t.Errorf("search %d: α %g is chosen, a larger one is better", search, p.Alpha)
		}
		o.Alphas = []float64{1, 2}
		if c, err = Tune(ctx, HoldOut(x, y, queries, truth, 2), o); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Points {
			if p.Alpha > 2 || p.K != 300 && p.K != startK {
				t.Errorf("search %d: %+v is not among the values given", search, p.Setting)
			}
		}
		rows, queries, sets, truth := decoyed(t)
		o = TuneOptions{
			Variants: []Variant{InstanceOnly}, Objectives: []Objective{PrecisionAt3}, Search: search,
		}
		if c, err = Tune(ctx, HoldOut(rows, sets, queries, truth, 2), o); err != nil {
			t.Fatal(err)
		}
		if k := c.Choices[0].Params.K; k <= 400 {
			t.Errorf("search %d: k %d is chosen, a larger one is better", search, k)
		}
	}
}

// Finalists of a grid are different models: with one neighbor every α is the same.
func TestFinalistsDiffer(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 200, 9)
	tune := func(ks []int) *Curve {
		c, err := Tune(ctx, CrossValidation(x, y, CVOptions{Folds: 4}), TuneOptions{
			Variants: []Variant{InstanceOnly}, Ks: ks, Search: FullGrid,
		})
		must(t, err)
		return c
	}
	one := 0
	for _, p := range tune([]int{1}).Points {
		if p.Cut == DefaultCuts(false)[0] {
			one++
		}
	}
	if one != 1 {
		t.Errorf("%d settings with one neighbor were measured, all of them one model", one)
	}
	taken := map[Setting]Measures{}
	first := DefaultCuts(false)[0]
	c := tune([]int{1, 2, 5, 20})
	for _, p := range c.Points {
		if s := p.Setting; p.Cut != first {
			s.Cut = first
			i := slices.IndexFunc(c.Points, func(p Point) bool { return p.Setting == s })
			taken[s] = c.Points[i].Measures
		}
	}
	if len(taken) < gridFinalists {
		t.Fatalf("%d settings were tried with all cuts, want at least %d", len(taken), gridFinalists)
	}
	for s, m := range taken {
		for r, n := range taken {
			if s != r && m == n {
				t.Errorf("finalists %+v and %+v have equal measures", s, r)
			}
		}
	}
}

// Macro F1 wants many labels a row: the choice is the best of all settings with
// all cuts of the grid, and cuts of more than twice the mean are tried.
func TestMacroF1IsTunedOverAllCuts(t *testing.T) {
	ctx := context.Background()
	x, y := uneven(t, 400, 7)
	o := TuneOptions{
		Objectives: []Objective{MacroF1}, Ks: []int{1, 10, 50, 200}, Alphas: []float64{0.5, 1, 2},
		Betas: []float64{1}, Lambdas: []float64{0, 0.5, 1}, Search: FullGrid,
	}
	data := CrossValidation(x, y, CVOptions{Folds: 5})
	c, err := Tune(ctx, data, o)
	must(t, err)
	best := c.Choices[0].Point
	held, err := data(ctx, 0)
	must(t, err)
	tr, err := newTrials(held, 2)
	must(t, err)
	must(t, tr.neighbors(ctx, 200, func(int, int) {}))
	cuts := DefaultCuts(false)
	if last := cuts[len(cuts)-1]; last.Share < 4 {
		t.Errorf("cuts end at %g times the mean number of labels", last.Share)
	}
	most := 0.0
	for _, k := range o.Ks {
		for _, alpha := range o.Alphas {
			for _, lambda := range o.Lambdas {
				s := Setting{K: k, Alpha: alpha, Beta: 1, Lambda: lambda}.canonical()
				all, _, err := tr.measure(ctx, s, cuts, func(int, int) {})
				must(t, err)
				for _, m := range all {
					most = max(most, m.MacroF1)
				}
			}
		}
	}
	if best.MacroF1 < most-1e-12 {
		t.Errorf("macro F1 %v by %+v, the best of all settings and cuts has %v", best.MacroF1, best.Setting, most)
	}
}

// The paper's protocol is one pass over the parameters with its values.
func TestPaperProtocol(t *testing.T) {
	ctx := context.Background()
	x, y := uneven(t, 500, 5)
	c, err := Tune(ctx, CrossValidation(x, y, CVOptions{Folds: 5}), TuneOptions{Search: PaperProtocol})
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
		if p.Features != c.Choices[0].Params.Features {
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
	if th := c.Choices[0].Params.Thresholds; th.PerLabel != nil || !th.KeepTop || math.Abs(th.Single*100-math.Round(th.Single*100)) > 1e-9 {
		t.Errorf("thresholds %+v, want hundredths", th)
	}
}

func TestTuneLCIF(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 240, 7)
	queries, truth := topicSet(t, 80, 8)
	data := HoldOut(x, y, queries, truth, 2)
	all := []Objective{MicroF1, MacroF1, Accuracy, HammingLoss, PrecisionAt1, PrecisionAt3, PrecisionAt5}
	variants := []Variant{Combined, InstanceOnly, FeatureOnly}
	stages := map[string]bool{}
	o := TuneOptions{
		Objectives: all, Variants: variants, Workers: 2,
		Ks: []int{1, 5, 20, 400}, Alphas: []float64{1, 2}, Betas: []float64{1, 2}, Lambdas: []float64{0, 0.3, 0.6, 1},
		Progress: func(stage string, done, total int) {
			name, _, _ := strings.Cut(stage, ",")
			stages[name] = true
			if done > total {
				t.Errorf("%s: %d of %d", stage, done, total)
			}
		},
	}
	held, err := data(ctx, 0)
	must(t, err)
	curves := map[Search]*Curve{}
	for _, search := range []Search{FullGrid, Coordinates} {
		o.Search = search
		c, err := Tune(ctx, data, o)
		must(t, err)
		curves[search] = c
		if c.Grid != (search == FullGrid) || c.Rows != 80 || c.Labels != 9 || len(c.Choices) != len(all)*len(variants) || !stages["settings"] || !stages["neighbours"] {
			t.Fatalf("grid %v, %d rows, %d labels, %d choices, stages %v", c.Grid, c.Rows, c.Labels, len(c.Choices), stages)
		}
		seen := map[Setting]bool{}
		for _, p := range c.Points {
			if seen[p.Setting] || p.Setting != p.canonical() {
				t.Fatalf("%+v stands twice on the curve or says what does not matter", p)
			}
			seen[p.Setting] = true
		}
		for _, choice := range c.Choices {
			v, objective := choice.Variant, choice.Objective
			if v == InstanceOnly && choice.Params.Lambda != 1 || v == FeatureOnly && choice.Params.Lambda != 0 {
				t.Errorf("%v tuned to λ %g", v, choice.Params.Lambda)
			}
			m, th := plain(t, held, choice.Point.Setting)
			if !equalMeasures(m, choice.Point.Measures) || !reflect.DeepEqual(th, choice.Params.Thresholds) {
				t.Errorf("%v %v: chosen for %+v, predictions do %+v", v, objective, choice.Point, m)
			}
			for _, p := range c.Points {
				if c.Grid && p.Cut == DefaultCuts(false)[0] && p.Better(&choice.Point.Measures, objective) &&
					(v == Combined || v == InstanceOnly && p.Lambda == 1 || v == FeatureOnly && p.Lambda == 0) {
					t.Errorf("%v %v: %+v is better than the choice %+v", v, objective, p, choice.Point)
				}
			}
			if got, ok := c.Choice(objective, v); !ok || !reflect.DeepEqual(got, choice) {
				t.Errorf("%v %v: looked up %+v", v, objective, got)
			}
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
	for _, objective := range all {
		both, _ := curves[Coordinates].Choice(objective, Combined)
		for _, v := range variants[1:] {
			one, _ := curves[Coordinates].Choice(objective, v)
			if p := one.Point; p.Cut == both.Point.Cut && p.Better(&both.Point.Measures, objective) {
				t.Errorf("%v: %v alone is better than the combination", objective, v)
			}
		}
		a, _ := curves[FullGrid].Choice(objective, Combined)
		b, _ := curves[Coordinates].Choice(objective, Combined)
		if objective != HammingLoss && b.Point.Of(objective) < a.Point.Of(objective)-0.05 {
			t.Errorf("%v: coordinate search finds %v, the grid %v", objective, b.Point.Of(objective), a.Point.Of(objective))
		}
	}
	if _, ok := curves[FullGrid].Choice(MicroF1, 7); ok {
		t.Error("a choice for a variant that was not asked for")
	}
}

func TestTuneLCIFFeatures(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 200, 9)
	c, err := Tune(ctx, CrossValidation(x, y, CVOptions{Folds: 4, Graph: 5}), TuneOptions{
		FeatureShare: []float64{0.1, 0.5, 1}, Ks: []int{5, 20}, SecondOrders: []float64{0, 0.3}, Search: Coordinates, Passes: 1,
	})
	must(t, err)
	tried := map[int]float64{}
	for _, p := range c.Points {
		if _, ok := tried[p.Features]; !ok {
			tried[p.Features] = p.MicroF1
		}
	}
	if len(tried) != 3 || c.Grid {
		t.Fatalf("numbers of features tried: %v", tried)
	}
	choice := c.Choices[0]
	for features, f1 := range tried {
		if f1 > tried[choice.Params.Features] {
			t.Errorf("%d features give %v, chosen are %d with %v", features, f1, choice.Params.Features, tried[choice.Params.Features])
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
		"rows without features": CrossValidation(empty, y, CVOptions{Folds: 2}),
		"rows without labels":   CrossValidation(x, none, CVOptions{Folds: 2}),
		"unlike queries":        HoldOut(x, y, empty, none, 1),
		"no queries":            HoldOut(x, y, labels.SelectRows(x, nil), y.Select(nil), 1),
	} {
		for _, search := range []Search{FullGrid, Coordinates} {
			c, err := Tune(ctx, data, TuneOptions{Ks: []int{1, 50}, Search: search})
			if err != nil || len(c.Choices) != 1 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTuneLCIFErrors(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 40, 3)
	data := CrossValidation(x, y, CVOptions{Folds: 4})
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
	misfit := func(ctx context.Context, features int) (*HeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[0].Truth = y
		return held, err
	}
	negative := labels.SelectRows(x, []int{0, 1, 2})
	negative.Value[0] = -1
	short := []int{5}
	for name, c := range map[string]struct {
		data Data
		o    TuneOptions
		want error
	}{
		"objective":       {data, TuneOptions{Objectives: []Objective{99}}, query.ErrParams},
		"variant":         {data, TuneOptions{Variants: []Variant{99}}, query.ErrParams},
		"search":          {data, TuneOptions{Search: 9}, query.ErrParams},
		"k":               {data, TuneOptions{Ks: []int{0}}, query.ErrParams},
		"alpha":           {data, TuneOptions{Alphas: []float64{0}}, query.ErrParams},
		"beta":            {data, TuneOptions{Betas: []float64{-1}}, query.ErrParams},
		"lambda":          {data, TuneOptions{Lambdas: []float64{1.5}}, query.ErrParams},
		"second order":    {data, TuneOptions{SecondOrders: []float64{2}}, query.ErrParams},
		"share":           {data, TuneOptions{FeatureShare: []float64{0}}, query.ErrParams},
		"cut":             {data, TuneOptions{Cuts: []Cut{{}}}, query.ErrParams},
		"folds":           {CrossValidation(x, y, CVOptions{Folds: 1}), TuneOptions{}, labels.ErrInput},
		"no counts":       {noCounts, TuneOptions{Ks: short}, query.ErrMethod},
		"no neighbours":   {noNeighbors, TuneOptions{Ks: short}, query.ErrMethod},
		"no graph":        {data, TuneOptions{Ks: short, SecondOrders: []float64{0.5}, Search: FullGrid}, query.ErrMethod},
		"misfit":          {misfit, TuneOptions{Ks: short}, query.ErrParams},
		"held out misfit": {HoldOut(x, y, negative, y, 1), TuneOptions{}, query.ErrParams},
		"negative":        {HoldOut(x, y, negative, y.Select([]int{0, 1, 2}), 1), TuneOptions{Ks: short}, postings.ErrParams},
		"nothing":         {func(context.Context, int) (*HeldOut, error) { return &HeldOut{}, nil }, TuneOptions{}, query.ErrParams},
	} {
		if curve, err := Tune(ctx, c.data, c.o); curve != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
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
	if !errors.Is(err, context.Canceled) || settings > sweepJobs {
		t.Errorf("cancelled after %d settings: %v", settings, err)
	}
	var o Objective
	var v Variant
	if o.UnmarshalText([]byte("x")) == nil || v.UnmarshalText([]byte("x")) == nil {
		t.Error("unknown names are read")
	}
	if _, err := Objective(99).MarshalText(); !errors.Is(err, query.ErrParams) {
		t.Errorf("writing an unknown objective: %v", err)
	}
	if _, err := Variant(99).MarshalText(); !errors.Is(err, query.ErrParams) {
		t.Errorf("writing an unknown variant: %v", err)
	}
}
