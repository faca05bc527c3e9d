package lcifbench

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Objectives are the measures of Table 2, in its order.
var Objectives = []lcif.Objective{lcif.Accuracy, lcif.MicroF1, lcif.MacroF1, lcif.HammingLoss}

// ExtremeObjectives are the measures of Table 3, in its order.
var ExtremeObjectives = []lcif.Objective{lcif.MicroF1, lcif.MacroF1, lcif.PrecisionAt1, lcif.PrecisionAt3, lcif.PrecisionAt5}

// Variants are the columns of Tables 2 and 3, in their order.
var Variants = []Variant{InstanceOnly, FeatureOnly, Combined}

// Options say how a set is evaluated.
type Options struct {
	// Objectives and Variants to tune, each on its own.
	Objectives []lcif.Objective
	Variants   []Variant
	// Folds of the cross-validation; zero means 10.
	Folds int
	Seed  uint64
	// TuneRows is how many training rows are tried at most in tuning a large
	// set without a development part; zero means 10,000, as in the paper for
	// extreme sets.
	TuneRows int
	// Tune has the space of settings; the objective, the λ of a variant, workers and
	// progress are set from here.
	Tune     lcif.TuneOptions
	Workers  int
	Progress func(stage string, done, total int)
}

// eurlex is the set that stands for the extreme ones.
const eurlex = "eurlex57k"

// QualityRow is one cell of Table 2 or 3.
type QualityRow struct {
	Set       string
	Objective lcif.Objective
	Variant   Variant
	// Tuned is the objective on the rows held out in tuning, Test on the test
	// rows: set measures with 0/0 counted as 1, as in Mulan.
	Tuned, Test float64
	// TestZero is Test with 0/0 counted as 0; it differs for MacroF1 only.
	TestZero float64
	// Paper is the paper's figure; HasPaper is false if it has none. For
	// eurlex57k it is that of Eurlex, an older and smaller set of its kind.
	Paper    float64
	HasPaper bool
	// Params is the chosen setting, Cut how its thresholds were made.
	Params lcif.Params
	Cut    lcif.Cut
	// Measures are all measures on the test rows with this setting.
	Measures lcif.Measures
}

// Gap is by how much Test falls short of the paper's figure: below zero where
// it is better.
func (r *QualityRow) Gap() float64 {
	if r.Objective == lcif.HammingLoss {
		return r.Test - r.Paper
	}
	return r.Paper - r.Test
}

// Times are the seconds of an evaluation, wall time: Tables 6 and 7.
type Times struct {
	Set     string
	Workers int
	// Tune is the search for all asked objectives and variants, data prepared
	// for it included.
	Tune float64
	// Train is building the model: features chosen, rows normalised and
	// indexed, S counted. Similarities is the counting and powers of S alone.
	Train, Similarities float64
	// Neighbors is finding the neighbours of all test rows, Predict predicting
	// them all by the combined variant, neighbours included; K is its k.
	Neighbors, Predict float64
	K                  int
	TrainRows          int
	TestRows           int
}

// Result is the evaluation of one set.
type Result struct {
	Set   string
	Note  string
	Rows  []QualityRow
	Times Times
	// Choice is what Times are of.
	Choice Choice
}

// Choice is what the tuner found for an objective and a variant.
type Choice struct {
	Objective lcif.Objective
	Variant   Variant
	Curve     *lcif.Curve
}

// Predict predicts the labels of rows on so many goroutines, all processors if below 1.
func Predict(
	ctx context.Context, view *lcif.View, rows *vector.CSR, params *lcif.Params, workers int,
) ([][]labels.Ranked, error) {
	out := make([][]labels.Ranked, rows.Rows())
	err := par.Ranges(ctx, par.Work{N: len(out), Grain: 16, Workers: workers}, func() func(lo, hi int) error {
		p := lcif.NewPredictor()
		return func(lo, hi int) (err error) {
			for i := lo; i < hi && err == nil; i++ {
				out[i], _, err = p.Predict(ctx, view, valued(rows.Row(i)), params, nil)
			}
			return err
		}
	})
	return out, err
}

// Scores returns the scores of all labels for rows.
func Scores(
	ctx context.Context, view *lcif.View, rows *vector.CSR, params *lcif.Params,
) (*vector.CSR, error) {
	p, out := lcif.NewPredictor(), &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range rows.Rows() {
		if _, _, err := p.Predict(ctx, view, valued(rows.Row(i)), params, nil); err != nil {
			return nil, err
		}
		out.Append(p.Scores())
	}
	out.Cols = view.Labels.Labels()
	return out, nil
}

// valued returns a row whose features have the value one if it has none.
func valued(x vector.Sparse) vector.Sparse {
	if x.Value == nil {
		x.Value = slices.Repeat([]float32{1}, len(x.Index))
	}
	return x
}

// HoldOut returns data to tune on rows that are not training rows.
func HoldOut(train, dev *Part, workers int) lcif.Data {
	return func(ctx context.Context, features int) (*lcif.HeldOut, error) {
		view, counts, err := lcif.Build(ctx, train.Rows, train.Labels, features, workers)
		part := lcif.Part{View: view, Queries: dev.Rows, Truth: dev.Labels}
		part.Counts = func(context.Context) (*labels.FeatureLabels, error) { return counts, nil }
		return &lcif.HeldOut{Parts: []lcif.Part{part}, Train: train.Labels}, err
	}
}

// Evaluate tunes on the set's development part, or by cross-validation on its
// training part, and measures the chosen settings on its test part. Errors:
// those of package query, the context's.
func Evaluate(ctx context.Context, set *Set, o Options) (*Result, error) {
	if len(o.Objectives) == 0 {
		o.Objectives = Objectives
	}
	if len(o.Variants) == 0 {
		o.Variants = Variants
	}
	if o.TuneRows == 0 {
		o.TuneRows = 10_000
	}
	tune := o.Tune
	tune.Workers, tune.Progress = o.Workers, o.Progress
	cv := lcif.CVOptions{Folds: o.Folds, Seed: o.Seed, Workers: o.Workers}
	if s, err := find(set.Name); err == nil && s.large {
		cv.Rows = o.TuneRows
	}
	data := lcif.CrossValidation(set.Train.Rows, set.Train.Labels, nil, cv)
	if set.Dev.Rows != nil {
		data = HoldOut(&set.Train, &set.Dev, o.Workers)
	}
	res := &Result{Set: set.Name, Note: set.Note}
	start := time.Now()
	var choices []Choice
	for _, objective := range o.Objectives {
		for _, v := range o.Variants {
			tune.Objective, tune.Lambdas = objective, v.lambdas(o.Tune.Lambdas)
			curve, err := lcif.Tune(ctx, data, tune)
			if err != nil {
				return nil, err
			}
			choices = append(choices, Choice{objective, v, curve})
		}
	}
	res.Times = Times{Set: set.Name, Workers: o.Workers, Tune: time.Since(start).Seconds(), TrainRows: set.Train.Rows.Rows(), TestRows: set.Test.Rows.Rows()}
	t := &tester{set: set, o: o, models: map[int]*model{}, times: &res.Times}
	for _, c := range choices {
		row, err := t.measure(ctx, c)
		if err != nil {
			return nil, err
		}
		res.Rows = append(res.Rows, row)
	}
	res.Choice = choices[len(choices)-1]
	for _, c := range choices {
		if c.Objective == o.Objectives[0] && c.Variant == Combined {
			res.Choice = c
		}
	}
	return res, t.clock(ctx, &res.Choice.Curve.Params)
}

// model is a trained view.
type model struct {
	view   *lcif.View
	counts *labels.FeatureLabels
}

// tester measures settings on the test part.
type tester struct {
	set    *Set
	o      Options
	models map[int]*model // by number of features
	times  *Times
}

func (t *tester) model(ctx context.Context, features int) (*model, error) {
	if m := t.models[features]; m != nil {
		return m, nil
	}
	m := new(model)
	var err error
	m.view, m.counts, err = lcif.Build(ctx, t.set.Train.Rows, t.set.Train.Labels, features, t.o.Workers)
	t.models[features] = m
	return m, err
}

// measure predicts the test part with a choice.
func (t *tester) measure(ctx context.Context, c Choice) (QualityRow, error) {
	best, p := c.Curve.Best, &c.Curve.Params
	r := QualityRow{Set: t.set.Name, Objective: c.Objective, Variant: c.Variant, Tuned: best.Of(c.Objective), Params: *p, Cut: best.Cut}
	if r.Paper, r.HasPaper = PaperTable2(t.set.Name, c.Objective, c.Variant); t.set.Name == eurlex {
		r.Paper, r.HasPaper = PaperTable3(c.Objective, c.Variant)
	}
	m, err := t.model(ctx, p.Features)
	if err != nil {
		return r, err
	}
	if p.Lambda < 1 {
		if err := m.view.SetPower(m.counts, p.Beta); err != nil {
			return r, err
		}
	}
	scores, err := Scores(ctx, m.view, t.set.Test.Rows, p)
	if err != nil {
		return r, err
	}
	predicted, err := p.Thresholds.Predict(scores)
	if err != nil {
		return r, err
	}
	report, err := labels.Evaluate(t.set.Test.Labels, predicted)
	if err != nil {
		return r, err
	}
	ranking, err := labels.EvaluateRanking(t.set.Test.Labels, scores, []int{1, 3, 5})
	if err != nil {
		return r, err
	}
	r.Measures = lcif.Measures{
		Accuracy: report.Mulan.Accuracy, MicroF1: report.Mulan.Micro.F1, MacroF1: report.Mulan.Macro.F1,
		MacroF1Zero: report.Zero.Macro.F1, HammingLoss: report.HammingLoss, Precision: [3]float64(ranking.Precision),
	}
	r.Test = r.Measures.Of(c.Objective)
	r.TestZero = r.Test
	if c.Objective == lcif.MacroF1 {
		r.TestZero = r.Measures.MacroF1Zero
	}
	return r, nil
}

// clock takes the times of training and predicting with a choice.
func (t *tester) clock(ctx context.Context, p *lcif.Params) error {
	seconds := func(into *float64, do func() error) error {
		start := time.Now()
		err := do()
		*into = time.Since(start).Seconds()
		return err
	}
	var view *lcif.View
	var counts *labels.FeatureLabels
	power := func() error {
		if p.Lambda == 1 {
			return nil
		}
		return view.SetPower(counts, p.Beta)
	}
	t.times.K = p.K
	err := seconds(&t.times.Train, func() (err error) {
		if view, counts, err = lcif.Build(ctx, t.set.Train.Rows, t.set.Train.Labels, p.Features, t.o.Workers); err != nil {
			return err
		}
		return power()
	})
	if err != nil {
		return err
	}
	units := lcif.UnitRows(t.set.Train.Rows, view)
	err = seconds(&t.times.Similarities, func() (err error) {
		if counts, err = labels.CountFeatureLabels(ctx, units, t.set.Train.Labels, t.o.Workers); err != nil {
			return err
		}
		_, err = counts.Powers(cmp.Or(p.Beta, 1))
		return err
	})
	if err != nil {
		return err
	}
	if p.K > 0 {
		// The instance scores of a single label cost next to nothing, so this
		// is the searches.
		bare := *view
		bare.Labels = noLabels{t.set.Train.Labels}
		bareParams := lcif.Params{K: p.K, Lambda: 1}
		err = seconds(&t.times.Neighbors, func() error {
			_, err := Predict(ctx, &bare, t.set.Test.Rows, &bareParams, t.o.Workers)
			return err
		})
		if err != nil {
			return err
		}
	}
	return seconds(&t.times.Predict, func() error {
		_, err := Predict(ctx, view, t.set.Test.Rows, p, t.o.Workers)
		return err
	})
}

// noLabels has the rows of a label matrix and none of their labels.
type noLabels struct{ *labels.Matrix }

// Row is empty.
func (noLabels) Row(int) []uint32 { return nil }

// Ranking makes scores of labels in order: k for the first of k, then k − 1.
func Ranking(best []uint32) vector.Sparse {
	s := vector.Sparse{Index: slices.Sorted(slices.Values(best)), Value: make([]float32, len(best))}
	for i, l := range best {
		at, _ := slices.BinarySearch(s.Index, l)
		s.Value[at] = float32(len(best) - i)
	}
	return s
}
