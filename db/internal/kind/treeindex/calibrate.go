package treeindex

import (
	"context"
	"errors"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Trees of up to smallRows rows are calibrated by the rows of smallFolds folds, each by trees of the others, and
// larger ones by a tenth of the rows, at most mostHeldOut of them.
const (
	smallRows, smallFolds = 3_000, 3
	mostHeldOut           = 5_000
)

// calibrate computes the calibration of trees with the parameters chosen.
func (l *learned) calibrate(ctx context.Context, job budget.Job, timer *kind.Timer) error {
	n, parts := smallFolds, smallFolds
	if len(job.Rows) > smallRows {
		n, parts = 10, 1
	}
	folds, err := labels.KFold(len(job.Rows), n, job.Params.Seed)
	if err != nil {
		return err
	}
	scores, tested := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}, []int(nil)
	err = timer.Run("calibrate", func(report func(int, int)) error {
		for i, f := range folds[:parts] {
			own, test := job, f.Test[:min(len(f.Test), mostHeldOut)]
			own.Rows = placed(job.Rows, f.Train)
			report(i, parts)
			s, err := budget.HeldOutScores(ctx, l.kind, own, placed(job.Rows, test))
			if err != nil {
				return err
			}
			for r := range s.Rows() {
				scores.Append(s.Row(r))
			}
			scores.Cols = s.Cols
			tested = append(tested, placed(job.Rows, test)...)
		}
		return nil
	})
	switch {
	case errors.Is(err, budget.ErrOneClass), errors.Is(err, budget.ErrConstant), errors.Is(err, budget.ErrNoLabels):
		return nil // what the other rows have says nothing
	case err != nil:
		return err
	}
	l.chance, err = labels.Calibrate(l.sets.Select(tested), scores, l.rows(), l.calibrateOptions())
	return err
}

// placed returns the rows at some places of a list.
func placed(rows, places []int) []int {
	out := make([]int, len(places))
	for i, at := range places {
		out[i] = rows[at]
	}
	return out
}

// calibrateOptions returns how sets are selected: by the given threshold, or by probability.
func (l *learned) calibrateOptions() labels.CalibrateOptions {
	o := &l.opts
	return labels.CalibrateOptions{
		Measure: o.Objective.OfSets, Apart: o.Objective == lcif.MacroF1, AllowEmpty: o.AllowEmpty,
		OwnSets: l.kind == budget.SBT || l.given.Params.Threshold != 0,
	}
}

// rows returns the number of rows that have each label.
func (l *learned) rows() []int {
	out := make([]int, l.sets.Labels())
	for label := range out {
		out[label] = len(l.sets.Column(label))
	}
	return out
}
