package db

import (
	"context"
)

// RepairedIndex is a damaged index, or with an empty Index damage in the tables of attributes.
type RepairedIndex struct {
	Collection, Index string
	Damage, Err       error // the first error found; why it could not be rebuilt, nil if it was
}

// Repair verifies the indexes and the tables that find rows by attribute, and rebuilds the damaged
// ones from the rows, with their stored settings. It does not repair rows; rescue.Salvage recovers them.
// Errors: ErrCorrupt if an index could not be rebuilt, or if pages are damaged so that the file must
// not be written to.
func (d *DB) Repair(ctx context.Context, run *Run) (found []RepairedIndex, err error) {
	if err := d.manager().Writable(ctx); err != nil {
		return nil, err
	}
	ctx, release, err := d.txn.Hold(run.in(ctx), 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	repaired, err := d.indexes.Repair(ctx)
	for _, x := range repaired {
		found = append(found, RepairedIndex(x))
	}
	return found, err
}
