package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/db/internal/expire"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/maintenance"
)

// Maintain deletes expired rows, and makes the indexes cover the rows written since, forget deleted
// ones, and learn changed labels: those indexes in which the changed rows are at least that share of
// the rows of the large segment, 0 for any change. It works in steps until nothing is left to do, and
// returns them; completed steps are kept if it is cancelled. Reads and writes run concurrently. An
// index that could not be built from the present rows (ErrUnsuitable) stays as it is, which is no
// error: index.Info.Error has the reason.
func (d *DB) Maintain(ctx context.Context, share float64, run *Run) (steps []maintenance.Step, err error) {
	if !(share >= 0) {
		return nil, fmt.Errorf("%w: maintenance by share %g, want 0 or more", fail.Option, share)
	}
	if err := d.manager().Writable(ctx); err != nil {
		return nil, err
	}
	for {
		step, err := expire.Step(ctx, d.txn)
		if err != nil {
			return steps, err
		}
		if step == nil {
			break
		}
		steps = append(steps, *step)
	}
	made, err := d.indexes.Maintain(run.in(ctx), segment.Effort{Share: share, Exact: true})
	return append(steps, made...), err
}
