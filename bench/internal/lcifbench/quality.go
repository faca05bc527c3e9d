package lcifbench

import (
	"cmp"
	"context"
	"slices"

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
	// Objectives to tune for, each on its own; if there are none, those of Table 2 or, for eurlex57k, of Table 3.
	Objectives []lcif.Objective
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
	// Tuned is the objective on the TunedRows rows held out in tuning, Test on the test
	// rows: set measures with 0/0 counted as 1, as in Mulan.
	Tuned, Test float64
	TunedRows   int
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

// Predict predicts the labels of rows on so many goroutines, all processors if below 1.
func Predict(
	ctx context.Context, view *lcif.View, rows *vector.CSR, params *lcif.Params, workers int,
) ([][]labels.Ranked, error) {
	out := make([][]labels.Ranked, rows.Rows())
	err := par.Items(ctx, par.Work{N: len(out), Grain: 16, Workers: workers}, func() func(i int) error {
		p := lcif.NewPredictor()
		return func(i int) (err error) {
			out[i], _, err = p.Predict(ctx, view, valued(rows.Row(i)), params, nil)
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
func Evaluate(ctx context.Context, set *Set, o Options) ([]QualityRow, error) {
	if len(o.Objectives) == 0 {
		o.Objectives = Objectives
		if set.Name == eurlex {
			o.Objectives = ExtremeObjectives
		}
	}
	tune := o.Tune
	tune.Workers, tune.Progress = o.Workers, o.Progress
	cv := lcif.CVOptions{Folds: o.Folds, Seed: o.Seed, Workers: o.Workers}
	if s, err := find(set.Name); err == nil && s.large {
		cv.Rows = cmp.Or(o.TuneRows, 10_000)
	}
	data := lcif.CrossValidation(set.Train.Rows, set.Train.Labels, nil, cv)
	if set.Dev.Rows != nil {
		data = HoldOut(&set.Train, &set.Dev, o.Workers)
	}
	t := &tester{set: set, o: o, models: map[int]*model{}}
	var rows []QualityRow
	for _, objective := range o.Objectives {
		for _, v := range Variants {
			tune.Objective, tune.Lambdas = objective, v.lambdas(o.Tune.Lambdas)
			curve, err := lcif.Tune(ctx, data, tune)
			if err != nil {
				return nil, err
			}
			row, err := t.measure(ctx, objective, v, curve)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
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

// measure predicts the test part with what the tuner chose.
func (t *tester) measure(ctx context.Context, objective lcif.Objective, v Variant, c *lcif.Curve) (QualityRow, error) {
	best, p := c.Best, &c.Params
	r := QualityRow{Set: t.set.Name, Objective: objective, Variant: v, Tuned: best.Of(objective), TunedRows: c.Rows, Params: *p,
		Cut: best.Cut}
	if r.Paper, r.HasPaper = PaperTable2(t.set.Name, objective, v); t.set.Name == eurlex {
		r.Paper, r.HasPaper = PaperTable3(objective, v)
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
	r.Test = r.Measures.Of(objective)
	r.TestZero = r.Test
	if objective == lcif.MacroF1 {
		r.TestZero = r.Measures.MacroF1Zero
	}
	return r, nil
}

// Ranking makes scores of labels in order: k for the first of k, then k − 1.
func Ranking(best []uint32) vector.Sparse {
	s := vector.Sparse{Index: slices.Sorted(slices.Values(best)), Value: make([]float32, len(best))}
	for i, l := range best {
		at, _ := slices.BinarySearch(s.Index, l)
		s.Value[at] = float32(len(best) - i)
	}
	return s
}
