package lcif

import (
	"context"

	"github.com/anndb/anndb/labels"
)

// Calibrate computes the calibration of given parameters on held-out rows. It returns nil if these are too
// few (labels.Calibrate). progress is that of TuneOptions. Errors: those of Tune.
func Calibrate(ctx context.Context, data Data, p *Params, o *labels.CalibrateOptions, workers int,
	progress func(stage string, done, total int)) (*labels.Calibration, error) {
	held, err := data(ctx, p.Features)
	if err != nil {
		return nil, err
	}
	t, err := newTrials(held, workers)
	if err != nil {
		return nil, err
	}
	if p.Lambda > 0 {
		err = t.neighbors(ctx, p.K, func(done, total int) { progress("neighbours", done, total) })
		if err != nil {
			return nil, err
		}
	}
	return t.calibrate(ctx, p, o)
}

// calibrate computes the calibration of parameters, for whose K neighbors are known.
func (t *trials) calibrate(
	ctx context.Context, p *Params, o *labels.CalibrateOptions,
) (*labels.Calibration, error) {
	filled := p.filled()
	list, err := t.bestRows(ctx, Setting{
		K: p.K, Alpha: filled.Alpha, Beta: filled.Beta, Lambda: p.Lambda, SecondOrder: p.SecondOrder,
	})
	if err != nil {
		return nil, err
	}
	scores := list.matrix(t.truth.Labels())
	return labels.Calibrate(t.truth, t.strengths(scores, p.Thresholds), t.rows, *o)
}

// Strength returns what calibrations of models with these thresholds, nil for none, map to probabilities: the
// score of a label or, if each label has its own threshold, the score divided by it, as in the order of
// labels.
func Strength(t *labels.Thresholds, r labels.Ranked) float32 {
	if t == nil || t.PerLabel == nil {
		return r.Score
	}
	for _, limit := range [...]float64{t.PerLabel[r.Label], t.Single} {
		if s := float32(float64(r.Score) / limit); limit > 0 && s-s == 0 {
			return s
		}
	}
	return r.Score
}

// SetsBy returns how a calibration selects sets for an objective: by one cut, or for macro F1 by one for each
// label, since one cut leaves out rare labels, which count as much as others there. The order of
// labels is by probability, or for PropensityAt5 also by inverse propensity, in so many training rows.
func SetsBy(o Objective, rows int, allowEmpty bool) labels.CalibrateOptions {
	by := labels.CalibrateOptions{Measure: o.OfSets, ByLabel: o == MacroF1, AllowEmpty: allowEmpty}
	if o == PropensityAt5 {
		by.Propensity = rows
	}
	return by
}
