package lcifindex

import (
	"context"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// weighted is the data that a label model may be learned from, weighed in one way.
type weighted struct {
	weight string
	data   *labelled.Rows
	idf    []float32
	scale  *lcif.Scaling
	cv     lcif.CVOptions
}

// candidates returns the weightings to try: the given one, or WeightNone and another one.
func (o *options) candidates(other string) []string {
	if o.Weight != "" {
		return []string{o.Weight}
	}
	return []string{labelled.WeightNone, other}
}

// choose sets the parameters and returns the data that they apply to. The parameters
// are those given, or the tuner's choice by cross-validation on the live rows, with the
// weighting that is best by the objective; the first one wins a tie.
func (l *learned) choose(
	ctx context.Context, candidates []weighted, o options, timer *kind.Timer,
) (*weighted, error) {
	l.opts = o
	best := &candidates[0]
	if p := o.Params; p != nil && o.Cut == nil {
		l.params = *p
		l.params.Thresholds = namedThresholds(p.Thresholds, o.labels, l.names)
		l.opts.Weight = best.weight
		if err := l.params.Validate(len(l.names)); err != nil {
			return nil, kind.AsParameter(err)
		}
		return best, l.calibrate(ctx, best, timer)
	}
	err := timer.Run("tune", func(func(int, int)) error {
		for i := range candidates {
			if i > 0 && kind.Stopped(ctx) {
				break
			}
			c := &candidates[i]
			curve, err := c.tune(ctx, o, timer.Report)
			if err != nil {
				return err
			}
			if i == 0 || curve.Best.Better(&l.curve.Best.Measures, o.Objective) {
				best, l.curve, l.params, l.chance = c, curve, curve.Params, curve.Calibration
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p := o.Params; p != nil { // numbers that are irrelevant now stay
		l.params = *p
		l.params.Thresholds = l.curve.Params.Thresholds
	}
	l.opts.Weight = best.weight
	return best, nil
}

// tune chooses parameters by cross-validation on the live rows. If parameters are given,
// it computes only their thresholds.
func (c *weighted) tune(
	ctx context.Context, o options, report func(stage string, done, total int),
) (*lcif.Curve, error) {
	tune := lcif.TuneOptions{
		Calibrate: o.calibrate,
		Objective: o.Objective, Paper: o.Paper,
		FeatureShare: o.FeatureShares, Cuts: lcif.DefaultCuts(o.AllowEmpty),
		Workers: kind.WorkersOf(ctx), Stop: kind.StopOf(ctx), Progress: report,
	}
	tune.SecondOrders = o.SecondOrders
	if c.cv.Neighbors != nil && c.cv.Vector == nil {
		tune.FeatureShare = []float64{1}
	}
	if o.uses != "" && o.uses != kind.ScanName {
		tune.Ks = forestKs
	}
	data := c.heldOut(ctx, o)
	if p := o.Params; p != nil {
		data = fixed(&tune, p, o.Cut, data)
	}
	curve, err := lcif.Tune(ctx, data, tune)
	if err != nil {
		return nil, fail.Wrapf(kind.AsParameter(err), "tune")
	}
	return curve, nil
}

// heldOut returns the folds of the cross-validation.
func (c *weighted) heldOut(ctx context.Context, o options) lcif.Data {
	cv := c.cv
	cv.Folds, cv.Seed, cv.Rows, cv.Workers = o.Folds, o.Seed, o.TuneRows, kind.WorkersOf(ctx)
	return lcif.CrossValidation(c.data.Rows, c.data.Sets, c.data.Live, cv)
}

// calibrate computes the calibration of given parameters by cross-validation.
func (l *learned) calibrate(ctx context.Context, c *weighted, timer *kind.Timer) error {
	if l.opts.calibrate == nil || c.data.Labelled() < labels.LeastCalibrationRows {
		return nil
	}
	o := l.opts
	o.TuneRows = min(o.TuneRows, labelled.MostHeldOut)
	return timer.Run("calibrate", func(func(int, int)) (err error) {
		l.chance, err = lcif.Calibrate(ctx, c.heldOut(ctx, o), &l.params, l.opts.calibrate,
			kind.WorkersOf(ctx), timer.Report)
		if err != nil {
			err = fail.Wrapf(kind.AsParameter(err), "calibrate")
		}
		return err
	})
}

// fixed reduces the search space of the tuner to the one setting p, and returns data with
// the features of p.
func fixed(tune *lcif.TuneOptions, p *lcif.Params, cut *lcif.Cut, data lcif.Data) lcif.Data {
	one := func(x float64) []float64 {
		if x == 0 {
			x = 1
		}
		return []float64{x}
	}
	tune.Ks, tune.Alphas, tune.Betas = []int{max(1, p.K)}, one(p.Alpha), one(p.Beta)
	tune.Lambdas, tune.SecondOrders = []float64{p.Lambda}, []float64{p.SecondOrder}
	tune.FeatureShare, tune.Cuts = []float64{1}, []lcif.Cut{*cut}
	return func(ctx context.Context, _ int) (*lcif.HeldOut, error) { return data(ctx, p.Features) }
}
