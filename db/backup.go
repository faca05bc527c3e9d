package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
)

// Backup writes a copy of the latest state to w and returns its length in bytes. The copy is a
// complete database. Writers run concurrently; the pages of the copied state are not reused
// until the backup ends.
//
// Errors: those of w.
func (d *DB) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	s, err := d.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Release()
	return backup(ctx, s.gen, w)
}

func backup(ctx context.Context, g *state.Generation, w io.Writer) (n int64, err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	n, err = g.Tx.WriteTo(&contextWriter{ctx, w})
	if stop := ctx.Err(); err != nil && stop != nil {
		return n, fmt.Errorf("db: backup: %w", stop) // bbolt's error does not wrap it
	}
	if err != nil {
		return n, fail.Wrapf(fail.System(err), "backup")
	}
	return n, nil
}

// contextWriter is a writer that fails once its context is cancelled.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// CompactStats is the length of the file before and after Compact, in bytes.
type CompactStats struct{ Before, After int64 }

// compactBytes is the number of bytes that one transaction of a compaction copies.
const compactBytes = 32 << 20

// Compact rewrites the file without free pages and replaces the old file with the new one
// atomically: a crash leaves one or the other. Readers do not wait. Update waits only at the
// end, until the changes committed during the last round of copying are copied, too: about
// catchUpBytes unless writers are faster than the copy. A compaction excludes builds, steps of
// maintenance, and the creation and removal of collections and indexes: each waits for the
// other to end; a build by maintenance is cancelled instead (Maintenance). Snapshots taken before keep the old file, whose space is freed when the last of
// them is released. If the database was opened through a symbolic link, the file that the link
// names is replaced.
//
// Deleted rows and the former versions of updated rows are also removed from collections where
// they are at least a third of the rows. The live rows then get new numbers (Row.Row), and the
// indexes of the collection are rebuilt without tuning, which takes as long as building them.
// Such rows are kept in a collection with a forest learned from training queries, with a forest
// written by a version that stored no label lists, or with an index that needs more rows
// than remain.
//
// On systems that do not allow replacing an open file, such as Windows, it fails and the old
// file stays.
func (d *DB) Compact(ctx context.Context) (st CompactStats, err error) {
	return d.compact(ctx, dropDeleted)
}

// compact implements Compact and Reorder.
func (d *DB) compact(ctx context.Context, n newNumbers) (st CompactStats, err error) {
	if err := d.txn.Writable(ctx); err != nil {
		return st, err
	}
	ctx, release, err := d.txn.Hold(ctx, txn.AllShares)
	if err != nil {
		return st, err
	}
	defer release(&err)
	return d.rewrite(ctx, n)
}

// rewrite is compact for a caller that holds all shares of d.numbering.
func (d *DB) rewrite(ctx context.Context, n newNumbers) (st CompactStats, err error) {
	name, err := store.Temp(d.file)
	if err != nil {
		return st, fail.Wrapf(fail.System(err), "compact")
	}
	defer os.Remove(name) // fails after the rename, as intended
	before, err := os.Stat(d.file)
	if err != nil {
		return st, fmt.Errorf("db: compact: %w", err)
	}
	if err := os.Chmod(name, before.Mode().Perm()); err != nil {
		return st, fmt.Errorf("db: compact: %w", err)
	}
	st.Before = before.Size()
	if st.After, err = d.replace(ctx, name, n); err != nil {
		return CompactStats{}, fail.Wrapf(fail.System(err), "compact")
	}
	return st, nil
}

// replace writes the latest state to the empty file name, applies the changes committed during
// the copy, and replaces the database's file with it. It returns the length of the new file.
func (d *DB) replace(ctx context.Context, name string, n newNumbers) (size int64, err error) {
	changes, end := d.txn.Watch()
	defer end()
	moved, copied, err := d.copyTo(ctx, name, n)
	if err != nil {
		return 0, err
	}
	o := d.opts
	o.Sync = Off // until it is the database's file
	next, err := openValid(name, o)
	if err != nil {
		return 0, err
	}
	swapped := false
	defer func() {
		if !swapped {
			err = errors.Join(err, next.Close())
		}
	}()
	f := follower{d: d, next: next, moved: moved, copied: copied, changes: changes}
	if err := next.VerifyPages(layout.AllParts); err != nil {
		return 0, err
	}
	for round, n := 0, catchUpBytes+1; n > catchUpBytes && round < catchUpRounds; round++ {
		if n, _, err = f.follow(ctx); err != nil {
			return 0, err
		}
		if err := next.Sync(); err != nil {
			return 0, err
		}
	}
	err = d.txn.Locked(ctx, func() error {
		_, last, err := f.follow(ctx)
		if err != nil {
			return err
		}
		if err := next.Sync(); err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		size = info.Size()
		next.KeepNumberings(d.txn.File(), f.kept())
		swapped, err = d.txn.Replace(txn.Replacement{
			File: next, Name: name, Target: d.file, NoSync: d.opts.Sync == Off, Renumbered: moved.numbers(), Last: last,
		})
		return err
	})
	return size, err
}

// follower applies changes to a copy that are committed to the database while the copy is made.
type follower struct {
	d       *DB
	next    *state.File
	moved   movedCollections
	copied  map[uint64]copiedRows
	changes *apply.Watch
}

// follow applies the changes since the last call. It returns the number of bytes of rows
// applied and the generation that next then holds.
func (f *follower) follow(ctx context.Context) (bytes int, last uint64, err error) {
	// The snapshot is taken afterwards, so it has all changes that are taken.
	changes := f.changes.Next()
	s, err := f.d.Snapshot()
	if err != nil {
		return 0, 0, err
	}
	defer s.Release()
	bytes, f.copied, err = s.catchUp(ctx, f.next, f.copied, changes, f.moved.to)
	return bytes, s.Generation(), err
}

// kept returns the collections whose rows have the same numbers in the copy.
func (f *follower) kept() []uint64 {
	var out []uint64
	for id := range f.copied {
		if f.moved.to(id) == id {
			out = append(out, id)
		}
	}
	return out
}

// copyTo writes the latest state, compacted, to the empty file name. It returns the renumbered
// collections and what has been copied.
func (d *DB) copyTo(ctx context.Context, name string,
	n newNumbers) (movedCollections, map[uint64]copiedRows, error) {
	s, err := d.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	defer s.Release()
	copied, err := s.copiedRows()
	if err != nil {
		return nil, nil, err
	}
	moved, err := s.compacted(ctx, name, d.opts, n)
	return moved, copied, err
}

// copyState writes all pairs of a state to the empty file at path, in key order; the caller
// syncs it. The moving collections have no rows in the copy, and new numbers.
func copyState(ctx context.Context, g *state.Generation, path string, o Options,
	moved []moving) (err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	if err := g.File.VerifyPages(layout.AllParts); err != nil {
		return err
	}
	var cat []byte
	skip := map[uint64]bool{}
	if len(moved) > 0 {
		if cat, err = layout.EncodeCatalog(withoutMoved(g.Catalog, moved)); err != nil {
			return err
		}
		for _, m := range moved {
			for _, object := range m.objects {
				skip[object] = true
			}
		}
	}
	dst, err := store.New(path, store.Options{Timeout: o.Timeout, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	var tx *bbolt.Tx
	defer func() {
		if tx != nil {
			_ = tx.Rollback() // the error returned is the reason for the rollback
		}
	}()
	size := 0
	begin := func() (err error) {
		tx, err = dst.Begin(true)
		size = 0
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	for _, name := range append(slices.Clone(layout.RootBuckets), layout.BucketFeatures) {
		if g.Tx.Bucket(name) == nil {
			continue // the dictionary of features is created on first use
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
		err := copyable(g.Tx.Bucket(name), skip, cat, func(k, v []byte) error {
			if size += len(k) + len(v); size > compactBytes {
				if err := errors.Join(ctx.Err(), tx.Commit()); err != nil {
					return err
				}
				if err := begin(); err != nil {
					return err
				}
				size = len(k) + len(v)
			}
			b := tx.Bucket(name)
			// Pairs arrive in key order, so pages can be filled completely.
			b.FillPercent = 1
			return b.Put(k, v)
		})
		if err != nil {
			return err
		}
	}
	err = tx.Commit()
	tx = nil
	return errors.Join(err, ctx.Err())
}
