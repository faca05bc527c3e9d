package db

import (
	"context"

	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/txn"
)

// CompactStats is the length of the file before and after Compact, in bytes.
type CompactStats struct{ Before, After int64 }

// Compact rewrites the file without free pages and replaces the old file with the new one
// atomically: a crash leaves one or the other. Readers do not wait. Update waits only at the
// end, until the changes committed during the last round of copying are copied, too: about
// 4 MiB unless writers are faster than the copy. A compaction excludes builds, steps of
// maintenance, and the creation and removal of collections and indexes: each waits for the
// other to end; a build by maintenance is cancelled instead (Maintenance). Snapshots taken before keep the old file, whose space is freed when the last of
// them is released. If the database was opened through a symbolic link, the file that the link
// names is replaced.
//
// Deleted rows and the former versions of updated rows are also removed from collections where
// they are at least a third of the rows. The live rows then get new numbers (Row.Row), and the
// indexes of the collection are rebuilt, and only forests tuned, which takes as long as building them.
// Such rows are kept in a collection with a forest learned from training queries, with a forest
// written by a version that stored no label lists, or with an index that needs more rows
// than remain.
//
// On systems that do not allow replacing an open file, such as Windows, it fails and the old
// file stays.
func (d *DB) Compact(ctx context.Context) (st CompactStats, err error) {
	return d.compact(ctx, compact.DropDeleted)
}

// Reorder is Compact that also gives the rows of every dense collection new numbers such that
// near rows have near numbers (forest.Order), which makes searches in large collections faster.
// Keys and results stay the same; row numbers (Row.Row), and with them the order of ties,
// change. Indexes are rebuilt, so Reorder is cheapest before the first build.
// Rows written later are appended as usual.
//
// For a million rows of 128 coordinates, a search takes two thirds of the time at equal recall
// (bench/README.md).
//
// Errors: those of Compact, whose documentation lists the collections that stay unchanged.
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
