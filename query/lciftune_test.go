package query

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
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
	if err != nil {
		t.Fatal(err)
	}
	return x, y
}

// A part of a cross-validation is what training on the other rows makes.
func TestFoldsAreTrainedOnOtherRows(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 60, 1)
	for _, features := range []int{0, 15} {
		held, err := CrossValidation(x, y, CVOptions{Folds: 4, Seed: 2, Graph: 3})(ctx, features)
		if err != nil {
			t.Fatal(err)
		}
		folds, err := labels.KFold(60, 4, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range held.Parts {
			rest := folds[i].Train
			units := unitRows(x, x.Cols, part.View.Keep)
			counts, err := labels.CountFeatureLabels(ctx, labels.SelectRows(units, rest), y.Select(rest), 1)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(part.Counts, counts) {
				t.Fatalf("fold %d: counts are not those of the other rows", i)
			}
			ix, err := postings.Build(ctx, labels.SelectRows(units, rest), postings.Params{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var s NeighborScratch
			for r := range part.Queries.Rows() {
				u := unitRows(part.Queries, x.Cols, part.View.Keep).Row(r)
				got, err := part.View.Neighbors.Neighbors(ctx, &s, NeighborQuery{u, u}, 7, nil)
				if err != nil {
					t.Fatal(err)
				}
				want, _, err := s.Postings.Search(ctx, ix, u, 7, postings.SearchParams{}, nil)
				if err != nil {
					t.Fatal(err)
				}
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
	if err != nil {
		t.Fatal(err)
	}
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
func plain(t testing.TB, held *LCIFHeldOut, s LCIFSetting) (LCIFMeasures, *labels.Thresholds) {
	t.Helper()
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	var sets [][]uint32
	for _, part := range held.Parts {
		v := *part.View
		v.Powers = nil
		if s.Beta > 0 {
			check(v.AddPower(part.Counts, s.Beta))
		}
		m, err := ScoreBatch(ctx, &v, part.Queries, &LCIFParams{K: s.K, Alpha: s.Alpha, Beta: s.Beta, Lambda: s.Lambda, SecondOrder: s.SecondOrder}, 1, nil)
		check(err)
		for i := range m.Rows() {
			scores.Append(m.Row(i))
			sets = append(sets, part.Truth.Row(i))
		}
	}
	scores.Cols = held.Train.Labels()
	truth, err := labels.FromSets(sets, scores.Cols)
	check(err)
	th := &labels.Thresholds{KeepTop: !s.Cut.NoTop}
	switch {
	case len(scores.Index) == 0:
	case s.Cut.PerLabel:
		th, err = labels.LabelThresholds(scores, held.Train, !s.Cut.NoTop)
	default:
		th, err = labels.SingleThreshold(scores, s.Cut.Share*held.Train.Cardinality(), !s.Cut.NoTop)
	}
	check(err)
	predicted, err := th.Predict(scores)
	check(err)
	r, err := labels.Evaluate(truth, predicted)
	check(err)
	ranking, err := labels.EvaluateRanking(truth, scores, []int{1, 3, 5}, nil)
	check(err)
	m := LCIFMeasures{
		Accuracy: r.Mulan.Accuracy, MicroF1: r.Mulan.Micro.F1, MacroF1: r.Mulan.Macro.F1,
		MacroF1Zero: r.Zero.Macro.F1, HammingLoss: r.HammingLoss, Precision: [3]float64(ranking.Precision),
	}
	return m, th
}

// equalMeasures compares with room for another order of sums.
func equalMeasures(a, b LCIFMeasures) bool {
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
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTrials(held, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.neighbors(ctx, 30, func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		powers := rapid.SampledFrom([]float64{0.5, 1, 1.5, 2, 0.7})
		s := LCIFSetting{
			K: rapid.IntRange(1, 30).Draw(rt, "k"), Alpha: powers.Draw(rt, "alpha"), Beta: powers.Draw(rt, "beta"),
			Lambda:      rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(rt, "lambda"),
			SecondOrder: rapid.SampledFrom([]float64{0, 0.5}).Draw(rt, "second"),
		}.canonical()
		draw := rapid.Custom(func(rt *rapid.T) LCIFCut {
			return LCIFCut{
				PerLabel: rapid.IntRange(0, 5).Draw(rt, "per label") == 0,
				Share:    rapid.SampledFrom([]float64{0.1, 0.5, 1, 2, 50}).Draw(rt, "share"),
				NoTop:    rapid.Bool().Draw(rt, "no top"),
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

// Macro averages of a cross-validation are means over folds, or over as many of
// them together as have enough rows.
func TestMacroAveragesByFold(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		rows, folds int
		groups      []int // folds that go together
	}{{300, 5, []int{5}}, {900, 3, []int{1, 1, 1}}, {900, 9, []int{3, 3, 3}}, {800, 8, []int{3, 5}}} {
		x, y := topicSet(t, c.rows, 4)
		held, err := CrossValidation(x, y, CVOptions{Folds: c.folds})(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := newTrials(held, 1)
		if err != nil {
			t.Fatal(err)
		}
		s := LCIFSetting{Beta: 1, Cut: LCIFCut{Share: 1}}
		got, thresholds, err := tr.measure(ctx, s, []LCIFCut{s.Cut}, func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		var want LCIFMeasures
		parts := held.Parts
		for _, n := range c.groups {
			var sets, predicted [][]uint32
			for _, part := range parts[:n] {
				v := *part.View
				if err := v.AddPower(part.Counts, 1); err != nil {
					t.Fatal(err)
				}
				found, err := PredictBatch(ctx, &v, part.Queries, &LCIFParams{Thresholds: thresholds[0]}, 1, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, ranked := range found {
					var set []uint32
					for _, r := range ranked {
						set = append(set, r.Label)
					}
					predicted, sets = append(predicted, set), append(sets, part.Truth.Row(i))
				}
			}
			parts = parts[n:]
			a, err := labels.FromSets(sets, 9)
			if err != nil {
				t.Fatal(err)
			}
			b, err := labels.FromSets(predicted, 9)
			if err != nil {
				t.Fatal(err)
			}
			r, err := labels.Evaluate(a, b)
			if err != nil {
				t.Fatal(err)
			}
			want.MacroF1 += r.Mulan.Macro.F1 * float64(len(sets)) / float64(c.rows)
			want.MacroF1Zero += r.Zero.Macro.F1 * float64(len(sets)) / float64(c.rows)
		}
		if math.Abs(got[0].MacroF1-want.MacroF1)+math.Abs(got[0].MacroF1Zero-want.MacroF1Zero) > 1e-12 {
			t.Errorf("%d folds of %d rows: macro F1 %v and %v, want %v and %v", c.folds, c.rows, got[0].MacroF1, got[0].MacroF1Zero, want.MacroF1, want.MacroF1Zero)
		}
	}
}

func TestTuneLCIF(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 240, 7)
	queries, truth := topicSet(t, 80, 8)
	data := HoldOut(x, y, queries, truth, 2)
	all := []LCIFObjective{MicroF1, MacroF1, Accuracy, HammingLoss, PrecisionAt1, PrecisionAt3, PrecisionAt5}
	variants := []LCIFVariant{Combined, InstanceOnly, FeatureOnly}
	stages := map[string]bool{}
	o := LCIFTuneOptions{
		Objectives: all, Variants: variants, Workers: 2,
		Ks: []int{1, 5, 20, 400}, Alphas: []float64{1, 2}, Betas: []float64{1, 2}, Lambdas: []float64{0, 0.3, 0.6, 1},
		Progress: func(stage string, done, total int) {
			stages[stage] = true
			if done > total {
				t.Errorf("%s: %d of %d", stage, done, total)
			}
		},
	}
	held, err := data(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	curves := map[LCIFSearch]*LCIFCurve{}
	for _, search := range []LCIFSearch{FullGrid, Coordinates} {
		o.Search = search
		c, err := TuneLCIF(ctx, data, o)
		if err != nil {
			t.Fatal(err)
		}
		curves[search] = c
		if c.Grid != (search == FullGrid) || c.Rows != 80 || c.Labels != 9 || len(c.Choices) != len(all)*len(variants) || !stages["settings"] || !stages["neighbours"] {
			t.Fatalf("grid %v, %d rows, %d labels, %d choices, stages %v", c.Grid, c.Rows, c.Labels, len(c.Choices), stages)
		}
		seen := map[LCIFSetting]bool{}
		for _, p := range c.Points {
			if seen[p.LCIFSetting] || p.LCIFSetting != p.canonical() {
				t.Fatalf("%+v stands twice on the curve or says what does not matter", p)
			}
			seen[p.LCIFSetting] = true
		}
		for _, choice := range c.Choices {
			v, objective := choice.Variant, choice.Objective
			if v == InstanceOnly && choice.Params.Lambda != 1 || v == FeatureOnly && choice.Params.Lambda != 0 {
				t.Errorf("%v tuned to λ %g", v, choice.Params.Lambda)
			}
			m, th := plain(t, held, choice.Point.LCIFSetting)
			if !equalMeasures(m, choice.Point.LCIFMeasures) || !reflect.DeepEqual(th, choice.Params.Thresholds) {
				t.Errorf("%v %v: chosen for %+v, predictions do %+v", v, objective, choice.Point, m)
			}
			for _, p := range c.Points {
				if c.Grid && p.Cut == DefaultLCIFCuts()[0] && p.better(&choice.Point.LCIFMeasures, objective) &&
					(v == Combined || v == InstanceOnly && p.Lambda == 1 || v == FeatureOnly && p.Lambda == 0) {
					t.Errorf("%v %v: %+v is better than the choice %+v", v, objective, p, choice.Point)
				}
			}
			if got, ok := c.Choice(objective, v); !ok || !reflect.DeepEqual(got, choice) {
				t.Errorf("%v %v: looked up %+v", v, objective, got)
			}
		}
		o.Workers = 1
		again, err := TuneLCIF(ctx, data, o)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("another number of workers gives another curve, %v", err)
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back LCIFCurve
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(&back, c) {
			t.Errorf("the curve does not survive JSON, %v", err)
		}
	}
	for _, objective := range all {
		both, _ := curves[Coordinates].Choice(objective, Combined)
		for _, v := range variants[1:] {
			one, _ := curves[Coordinates].Choice(objective, v)
			if p := one.Point; p.Cut == both.Point.Cut && p.better(&both.Point.LCIFMeasures, objective) {
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
	c, err := TuneLCIF(ctx, CrossValidation(x, y, CVOptions{Folds: 4, Graph: 5}), LCIFTuneOptions{
		FeatureShare: []float64{0.1, 0.5, 1}, Ks: []int{5, 20}, SecondOrders: []float64{0, 0.3}, Search: Coordinates, Passes: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
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
	if !slices.ContainsFunc(c.Points, func(p LCIFPoint) bool { return p.SecondOrder == 0.3 }) {
		t.Error("second order was not tried")
	}
}

// Degenerate data is measured, not refused.
func TestTuneLCIFDegenerate(t *testing.T) {
	ctx := context.Background()
	x, y := topicSet(t, 40, 3)
	empty := &vector.CSR{Ptr: make([]uint64, 41), Value: []float32{}, Cols: 40}
	none, err := labels.FromSets(make([][]uint32, 40), 9)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]LCIFData{
		"rows without features": CrossValidation(empty, y, CVOptions{Folds: 2}),
		"rows without labels":   CrossValidation(x, none, CVOptions{Folds: 2}),
		"unlike queries":        HoldOut(x, y, empty, none, 1),
		"no queries":            HoldOut(x, y, labels.SelectRows(x, nil), y.Select(nil), 1),
	} {
		for _, search := range []LCIFSearch{FullGrid, Coordinates} {
			c, err := TuneLCIF(ctx, data, LCIFTuneOptions{Ks: []int{1, 50}, Search: search})
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
	noCounts := func(ctx context.Context, features int) (*LCIFHeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[1].Counts = nil
		return held, err
	}
	noNeighbors := func(ctx context.Context, features int) (*LCIFHeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[0].View.Neighbors = nil
		return held, err
	}
	misfit := func(ctx context.Context, features int) (*LCIFHeldOut, error) {
		held, err := data(ctx, features)
		held.Parts[0].Truth = y
		return held, err
	}
	negative := labels.SelectRows(x, []int{0, 1, 2})
	negative.Value[0] = -1
	short := []int{5}
	for name, c := range map[string]struct {
		data LCIFData
		o    LCIFTuneOptions
		want error
	}{
		"objective":       {data, LCIFTuneOptions{Objectives: []LCIFObjective{99}}, ErrParams},
		"variant":         {data, LCIFTuneOptions{Variants: []LCIFVariant{99}}, ErrParams},
		"search":          {data, LCIFTuneOptions{Search: 9}, ErrParams},
		"k":               {data, LCIFTuneOptions{Ks: []int{0}}, ErrParams},
		"alpha":           {data, LCIFTuneOptions{Alphas: []float64{0}}, ErrParams},
		"beta":            {data, LCIFTuneOptions{Betas: []float64{-1}}, ErrParams},
		"lambda":          {data, LCIFTuneOptions{Lambdas: []float64{1.5}}, ErrParams},
		"second order":    {data, LCIFTuneOptions{SecondOrders: []float64{2}}, ErrParams},
		"share":           {data, LCIFTuneOptions{FeatureShare: []float64{0}}, ErrParams},
		"cut":             {data, LCIFTuneOptions{Cuts: []LCIFCut{{}}}, ErrParams},
		"folds":           {CrossValidation(x, y, CVOptions{Folds: 1}), LCIFTuneOptions{}, labels.ErrInput},
		"no counts":       {noCounts, LCIFTuneOptions{Ks: short}, ErrMethod},
		"no neighbours":   {noNeighbors, LCIFTuneOptions{Ks: short}, ErrMethod},
		"no graph":        {data, LCIFTuneOptions{Ks: short, SecondOrders: []float64{0.5}, Search: FullGrid}, ErrMethod},
		"misfit":          {misfit, LCIFTuneOptions{Ks: short}, ErrParams},
		"held out misfit": {HoldOut(x, y, negative, y, 1), LCIFTuneOptions{}, ErrParams},
		"negative":        {HoldOut(x, y, negative, y.Select([]int{0, 1, 2}), 1), LCIFTuneOptions{Variants: []LCIFVariant{FeatureOnly}}, ErrParams},
		"nothing":         {func(context.Context, int) (*LCIFHeldOut, error) { return &LCIFHeldOut{}, nil }, LCIFTuneOptions{}, ErrParams},
	} {
		if curve, err := TuneLCIF(ctx, c.data, c.o); curve != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	stop, cancel := context.WithCancel(ctx)
	settings := 0
	_, err := TuneLCIF(stop, data, LCIFTuneOptions{Progress: func(stage string, _, _ int) {
		if stage == "settings" {
			if settings++; settings == 3 {
				cancel()
			}
		}
	}})
	// Settings that go together are measured before any is told of.
	if !errors.Is(err, context.Canceled) || settings > sweepJobs {
		t.Errorf("cancelled after %d settings: %v", settings, err)
	}
	var o LCIFObjective
	var v LCIFVariant
	if o.UnmarshalText([]byte("x")) == nil || v.UnmarshalText([]byte("x")) == nil {
		t.Error("unknown names are read")
	}
	if _, err := LCIFObjective(99).MarshalText(); !errors.Is(err, ErrParams) {
		t.Errorf("writing an unknown objective: %v", err)
	}
	if _, err := LCIFVariant(99).MarshalText(); !errors.Is(err, ErrParams) {
		t.Errorf("writing an unknown variant: %v", err)
	}
}
