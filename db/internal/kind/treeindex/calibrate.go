package treeindex

import (
	"context"
	"errors"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// calibrate computes the calibration of trees with the parameters chosen.
func (l *learned) calibrate(
	ctx context.Context, job budget.Job, data *labelled.Rows, timer *kind.Timer,
) (err error) {
	o := &l.opts
	sets := lcif.SetsBy(o.Objective, len(data.Live), o.AllowEmpty)
	sets.OwnSets = l.kind == budget.SBT || l.given.Params.Threshold != 0
	first := data.Rows.Cols
	if l.idf != nil && l.unit {
		first = 0 // a query's features without a weight are left out
	}
	score := func(train []int, test []vector.Sparse) (*vector.CSR, error) {
		job.Rows = train
		s, err := budget.HeldOutScores(ctx, l.kind, job, test)
		if errors.Is(err, budget.ErrOneClass) || errors.Is(err, budget.ErrConstant) ||
			errors.Is(err, budget.ErrNoLabels) {
			err = labelled.ErrUntrainable
		}
		return s, err
	}
	l.chance, err = data.Calibrate(timer, o.Params.Seed, sets, first, score)
	return err
}
