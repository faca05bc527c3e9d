package db

import (
	"context"

	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/txn"
)

// CompactOptions selects how DB.Compact numbers rows and runs.
type CompactOptions struct {
	// Reorder also gives near rows of dense collections near numbers (forest.Order): searches of a
	// million rows of 128 coordinates take two thirds of the time at equal recall. Indexes are rebuilt,
	// so it is cheapest before the first build.
	Reorder bool
	Run
}

// Compact rewrites the file without free pages and replaces the old file atomically. Readers do not
// wait, Update only at the end; builds, maintenance, Create and Drop wait. Collections of which
// deleted rows and former versions are a third lose them: the live rows get new numbers (Row.Row),
// and the indexes are rebuilt, unless one could not be. On Windows it fails. It reports the stages
// verify and copy, in MiB of the former file, then those of the builds. nil
// options are the defaults. Errors: ErrLinked.
func (d *DB) Compact(ctx context.Context, o *CompactOptions) (err error) {
	if o == nil {
		o = &CompactOptions{}
	}
	n := compact.DropDeleted
	if o.Reorder {
		n = compact.NearOrder
	}
	if err := d.manager().Writable(ctx); err != nil {
		return err
	}
	ctx, release, err := d.txn.Hold(o.in(ctx), txn.AllShares)
	if err != nil {
		return err
	}
	defer release(&err)
	_, err = d.compactor.Run(ctx, n)
	return err
}
