package db

import (
	"context"
)

// RepairedIndex is a damaged index, or damage in the tables of attributes of a collection; then
// Index is empty.
type RepairedIndex struct {
	Collection, Index string
	// Damage is the first error found, Err the reason why the index could not be rebuilt; nil if it was.
	Damage, Err error
}

// Repair verifies the indexes and the tables that find rows by attribute, and rebuilds the damaged
// ones from the rows, with their stored settings; forests are tuned again. An index stays as it is
// if both copies of its settings are lost. Repair does not repair rows; Salvage recovers them.
// Errors: ErrCorrupt if an index could not be rebuilt, or if pages are damaged so that the file
// must not be written to.
func (d *DB) Repair(ctx context.Context) (found []RepairedIndex, err error) {
	if err := d.txn.Writable(ctx); err != nil {
		return nil, err
	}
	ctx, release, err := d.txn.Hold(ctx, 1)
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
