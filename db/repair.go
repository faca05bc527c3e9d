package db

import (
	"context"

	"github.com/anndb/anndb/db/index"
)

// Repair verifies the indexes and the tables that find rows by attribute, and rebuilds the damaged
// ones from the rows, with their stored settings. It does not repair rows; rescue.Salvage recovers them.
// Errors: ErrCorrupt if an index could not be rebuilt, or if pages are damaged so that the file must
// not be written to.
func (d *DB) Repair(ctx context.Context, run *Run) (found []index.Repaired, err error) {
	if err := d.manager().Writable(ctx); err != nil {
		return nil, err
	}
	ctx, release, err := d.txn.Hold(run.in(ctx), 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	return d.indexes.Repair(ctx)
}
