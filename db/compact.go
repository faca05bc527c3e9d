package db

import (
	"context"

	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/txn"
)

// CompactStats is the length of the file before and after Compact, in bytes.
type CompactStats struct{ Before, After int64 }

// Compact rewrites the file without free pages and replaces the old file with the new one
// atomically. Readers do not wait, Update only at the end; builds, maintenance and the creation and
// removal of collections wait. Snapshots taken before keep the old file, whose space is freed with
// the last.
//
// Deleted rows and former versions of updated rows are also removed from collections where they are
// a third of the rows: the live rows get new numbers (Row.Row), and the indexes are rebuilt, unless
// one could not be. On systems that do not allow replacing an open file, such as Windows, it fails
// and the old file stays.
func (d *DB) Compact(ctx context.Context) (st CompactStats, err error) {
	return d.compact(ctx, compact.DropDeleted)
}

// Reorder is Compact that also gives near rows of every dense collection near numbers
// (forest.Order), which makes searches of large collections faster: a million rows of 128
// coordinates take two thirds of the time at equal recall. Keys and results stay the same, except
// for the order of ties. Indexes are rebuilt, so Reorder is cheapest before the first build; rows
// written later are appended.
func (d *DB) Reorder(ctx context.Context) (CompactStats, error) {
	return d.compact(ctx, compact.NearOrder)
}

// compact implements Compact and Reorder.
func (d *DB) compact(ctx context.Context, n compact.Numbers) (st CompactStats, err error) {
	if err := d.txn.Writable(ctx); err != nil {
		return st, err
	}
	ctx, release, err := d.txn.Hold(ctx, txn.AllShares)
	if err != nil {
		return st, err
	}
	defer release(&err)
	sizes, err := d.compactor.Run(ctx, n)
	return CompactStats(sizes), err
}
