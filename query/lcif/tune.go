package lcif

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/internal/descent"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
)

// TuneOptions select what is tuned and over which values. Zero values select the defaults
// stated below.
type TuneOptions struct {
	// Objective is the measure to choose settings by: MicroF1 by default.
	Objective Objective
	// The values to choose from. Defaults: k 1, 3, 5, 10, 20, 30, 50, 100, 150, …, 350; α 0.5, 1, 1.5,
	// 2, 3, 4; β 0.5, 1, 1.5, 2; λ 0, 0.1, …, 1; no second order; all features (FeatureShare has the
	// shares s that are kept).
	Ks                         []int
	Alphas, Betas, Lambdas     []float64
	SecondOrders, FeatureShare []float64
	// Cuts are the ways to derive thresholds; DefaultCuts by default. Precision@k uses only the first
	// and those by label, which change the order of labels.
	Cuts []Cut
	// Paper searches as the paper does (section 5.1): one pass over s, k, α, β, λ with its values of k
	// (1, 5, 50, 100, …, 350), its 7 shares of the features and a single threshold from 21 values in
	// two passes. Cuts and Passes are not read.
	Paper bool
	// Passes is the maximum number of passes over the parameters: 3 by default.
	Passes int
	// Calibrate, if not nil, are the options of Curve.Calibration.
	Calibrate *labels.CalibrateOptions
	// Workers is the number of goroutines; fewer than 1: all processors. The
	// result does not depend on it.
	Workers int
	// Stop ends the search when it is closed, once a setting has been measured: the best so far is the
	// result.
	Stop <-chan struct{}
	// Progress, which may be nil, is called with the stage, "neighbours" or, with the best value
	// of the objective so far, "settings, best 0.46", and its progress; total grows with the settings
	// that are found to be tried.
	Progress func(stage string, done, total int)
}

// DefaultCuts returns the ways to derive thresholds that a tuner tries: the single
// threshold that meets the label cardinality, single thresholds that aim at fewer or more labels, and
// thresholds by label. All keep the best label of a row; allowEmpty adds some that do not.
func DefaultCuts(allowEmpty bool) []Cut {
	var cuts []Cut
	for _, share := range []float64{1, 0.4, 0.6, 0.8, 1.25, 1.5, 2, 2.5, 3, 4} {
		cuts = append(cuts, Cut{Share: share})
	}
	if allowEmpty {
		for _, share := range []float64{0.2, 0.4, 0.6, 0.8, 1} {
			cuts = append(cuts, Cut{Share: share, NoTop: true})
		}
	}
	return append(cuts, Cut{PerLabel: true, Share: 1})
}

// startK is the k that the search starts with, as in the paper.
const startK = 100

// PaperFeatureShares returns the shares of the features that the paper tries.
func PaperFeatureShares() []float64 { return []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.99, 1} }

// paperKs are the numbers of neighbours that the paper tries.
var paperKs = []int{1, 5, 50, 100, 150, 200, 250, 300, 350}

func (o *TuneOptions) fill() error {
	defaults := func(p *[]float64, values ...float64) {
		if len(*p) == 0 {
			*p = values
		}
	}
	if o.Paper {
		if len(o.Ks) == 0 {
			o.Ks = paperKs
		}
		defaults(&o.Alphas, 0.5, 1, 1.5, 2)
		defaults(&o.FeatureShare, PaperFeatureShares()...)
		o.Cuts, o.Passes = []Cut{{Share: 1, Steps: true}}, 1
	}
	if len(o.Ks) == 0 {
		o.Ks = []int{1, 3, 5, 10, 20, 30, 50, 100, 150, 200, 250, 300, 350}
	}
	defaults(&o.Alphas, 0.5, 1, 1.5, 2, 3, 4, 6, 8)
	defaults(&o.Betas, 0.5, 1, 1.5, 2)
	defaults(&o.Lambdas, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
	defaults(&o.SecondOrders, 0)
	defaults(&o.FeatureShare, 1)
	if len(o.Cuts) == 0 {
		o.Cuts = DefaultCuts(false)
	}
	if first := o.Cuts[0]; o.Objective >= PrecisionAt1 {
		o.Cuts = slices.DeleteFunc(slices.Clone(o.Cuts), func(c Cut) bool { return c != first && !c.PerLabel })
	}
	if o.Passes < 1 {
		o.Passes = 3
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	return o.check()
}

// check returns an error for values outside their ranges.
func (o *TuneOptions) check() error {
	if int(o.Objective) >= len(objectiveNames) {
		return fmt.Errorf("%w: %v", query.ErrParams, o.Objective)
	}
	inside := func(what string, values []float64, hi float64, open bool) error {
		for _, x := range values {
			if !(x >= 0 && x <= hi) || open && x == 0 {
				return fmt.Errorf("%w: %s %g", query.ErrParams, what, x)
			}
		}
		return nil
	}
	for _, k := range o.Ks {
		if k < 1 {
			return fmt.Errorf("%w: k is %d, want at least 1", query.ErrParams, k)
		}
	}
	for _, c := range o.Cuts {
		if err := c.check(); err != nil {
			return err
		}
	}
	return cmp.Or(
		inside("alpha", o.Alphas, math.MaxFloat64, true),
		inside("beta", o.Betas, math.MaxFloat64, true),
		inside("lambda", o.Lambdas, 1, false),
		inside("second order", o.SecondOrders, 1, false),
		inside("share of features", o.FeatureShare, 1, true),
	)
}

// lcifTuner is one run of Tune.
type lcifTuner struct {
	o        TuneOptions
	data     Data
	trials   *trials // nil before the first
	features int     // of trials
	search   descent.Search[Setting, Setting]
	curve    *Curve
}

// Tune chooses the parameters of LCIF on held-out rows (Feremans et al.
// 2020, section 5.1) and returns all that it measured, with the best setting and its thresholds.
//
// It is a coordinate descent from k = 100, λ = 0.5, α = β = 1 and the first of the cuts. If more than
// one share s of features is given, s is chosen first. Then k, α, β, λ, the weight of the second order
// and the cut are chosen one after the other, repeatedly while that improves the objective. Of equally
// good settings the first one tried is chosen. The result depends on the data and the options alone,
// not on Workers.
//
// k needs no search of its own: neighbors are found once, for the largest k. Thresholds are derived
// from the scores of the best labels of a row: 64, and 8 times the mean number of labels more.
//
// All measures, including macro averages, are over all held-out rows together and over all
// labels of the training rows.
//
// Memory: the neighbors of all held-out rows, and their scores of several settings, about 128 MB.
//
// Errors: ErrParams for invalid options or data, ErrMethod for settings that need parts
// missing from the data, those of the data and of Predict, the context's.
func Tune(ctx context.Context, data Data, o TuneOptions) (*Curve, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	t := &lcifTuner{o: o, data: data, curve: &Curve{}}
	t.search.Key, t.search.Measure = Setting.canonical, t.measure
	shares, err := t.featureShares(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.search.Try(ctx, shares...); err != nil {
		return nil, err
	}
	if err := t.search.Descend(ctx, o.Passes, t.coordinates()...); err != nil || o.Calibrate == nil {
		return t.curve, err
	}
	if err := t.load(ctx, t.curve.Best.Setting); err != nil {
		return nil, err
	}
	t.curve.Calibration, err = t.trials.calibrate(ctx, &t.curve.Params, o.Calibrate)
	return t.curve, err
}

// start returns the setting that the search starts with: of the values to choose from, those nearest
// to the paper's start.
func (t *lcifTuner) start() Setting {
	k := slices.MinFunc(t.o.Ks, func(a, b int) int {
		return cmp.Compare(max(a-startK, startK-a), max(b-startK, startK-b))
	})
	nearest := func(values []float64, x float64) float64 {
		return slices.MinFunc(values, func(a, b float64) int { return cmp.Compare(math.Abs(a-x), math.Abs(b-x)) })
	}
	return Setting{
		K: k, Alpha: nearest(t.o.Alphas, 1), Beta: nearest(t.o.Betas, 1),
		Lambda: nearest(t.o.Lambdas, 0.5), SecondOrder: nearest(t.o.SecondOrders, 0), Cut: t.o.Cuts[0],
	}
}

// featureShares returns settings with the numbers of features to choose from, the largest first.
func (t *lcifTuner) featureShares(ctx context.Context) (out []Setting, err error) {
	if err := t.load(ctx, Setting{}); err != nil { // all features, which determines their number
		return nil, err
	}
	t.curve.Rows, t.curve.Labels = t.trials.truth.Rows(), t.trials.truth.Labels()
	at, all := t.start(), float64(t.trials.data.Parts[0].View.Features)
	for _, share := range slices.Backward(slices.Sorted(slices.Values(t.o.FeatureShare))) {
		if share < 1 {
			at.Features = max(1, int(math.Round(share*all)))
		}
		out = append(out, at)
	}
	return out, nil
}

// load prepares trials with the features of a setting and, if it needs them, neighbors for the largest k.
func (t *lcifTuner) load(ctx context.Context, s Setting) error {
	if t.trials == nil || s.Features != t.features {
		held, err := t.data(ctx, s.Features)
		if err != nil {
			return err
		}
		if t.trials, err = newTrials(held, t.o.Workers); err != nil {
			return err
		}
		t.features, t.trials.propensity = s.Features, t.o.Objective == PropensityAt5
	}
	if s.Lambda == 0 {
		return nil
	}
	progress := func(done, total int) { t.o.Progress("neighbours", done, total) }
	return t.trials.neighbors(ctx, slices.Max(t.o.Ks), progress)
}

// coordinates returns functions that vary a setting in one parameter each.
func (t *lcifTuner) coordinates() []func(Setting) []Setting {
	return []func(Setting) []Setting{
		descent.Along(t.o.Ks, func(s *Setting, k int) { s.K = k }),
		descent.Along(t.o.Alphas, func(s *Setting, x float64) { s.Alpha = x }),
		descent.Along(t.o.Betas, func(s *Setting, x float64) { s.Beta = x }),
		descent.Along(t.o.Lambdas, func(s *Setting, x float64) { s.Lambda = x }),
		descent.Along(t.o.SecondOrders, func(s *Setting, x float64) { s.SecondOrder = x }),
		descent.Along(t.o.Cuts, func(s *Setting, c Cut) { s.Cut = c }),
	}
}

// measure measures a setting and appends it to the curve, unless the search is stopped.
func (t *lcifTuner) measure(ctx context.Context, s Setting) (value float64, more bool, err error) {
	c := t.curve
	if len(c.Points) > 0 && descent.Stopped(t.o.Stop) {
		return 0, false, nil
	}
	if err := t.load(ctx, s); err != nil {
		return 0, false, err
	}
	m, err := t.trials.measure(ctx, s)
	if err != nil {
		return 0, false, err
	}
	p := Point{s.canonical(), m.Measures}
	c.Points = append(c.Points, p)
	if len(c.Points) == 1 || p.Better(&c.Best.Measures, t.o.Objective) {
		c.Best, c.Params = p, Params{
			K: p.K, Alpha: p.Alpha, Beta: p.Beta, Lambda: p.Lambda, SecondOrder: p.SecondOrder,
			Features: p.Features, Thresholds: m.thresholds,
		}
	}
	t.o.Progress(fmt.Sprintf("settings, best %.3g", c.Best.Of(t.o.Objective)), len(c.Points), t.search.Total)
	if value = m.Of(t.o.Objective); t.o.Objective == HammingLoss {
		value = -value
	}
	return value, true, nil
}
