package db

import (
	"context"
)

// RepairedIndex is a damaged index that Repair has found.
type RepairedIndex struct {
	Collection, Index string
	// Damage is the first error found in the index.
	Damage error
	// Err is the reason why it could not be rebuilt; nil if it was.
	Err error
}

// Repair verifies every block and cross-reference of the indexes and rebuilds the damaged ones
// from their rows, with their stored settings and without tuning. The file holds two copies of
// these settings. An index stays as it is if both copies are lost, or the only copy in files of
// earlier versions: drop or build it. Repair does not repair rows; Salvage recovers what can be
// read of them.
//
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
