package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
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
		return n, fail.Wrapf(asSystem(err), "backup")
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
	if err := d.writable(ctx); err != nil {
		return st, err
	}
	ctx, release, err := d.hold(ctx, allShares)
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
		return st, fail.Wrapf(asSystem(err), "compact")
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
		return CompactStats{}, fail.Wrapf(asSystem(err), "compact")
	}
	return st, nil
}

// replace writes the latest state to the empty file name, applies the changes committed during
// the copy, and replaces the database's file with it. It returns the length of the new file.
func (d *DB) replace(ctx context.Context, name string, n newNumbers) (size int64, err error) {
	changes, end := d.watches.Begin()
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
	select {
	case d.write <- struct{}{}:
		defer func() { <-d.write }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := d.writable(ctx); err != nil {
		return 0, err
	}
	_, last, err := f.follow(ctx)
	if err != nil {
		return 0, err
	}
	if err := next.Sync(); err != nil {
		return 0, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	next.KeepNumberings(d.store, f.kept())
	swapped, err = d.swap(name, next, moved, last)
	return info.Size(), err
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

// swap renames the compacted file, in which collections may have moved, to the database's name,
// and retires the old file, whose latest generation is last. If the rename cannot be made
// durable, no further writes are allowed. swap reports whether the file was replaced. The
// caller holds d.write.
func (d *DB) swap(name string, next *state.File, moved movedCollections,
	last uint64) (swapped bool, err error) {
	tx, err := next.Begin(false)
	if err != nil {
		return false, err
	}
	next.Before = last + 1 - uint64(tx.ID()) // may wrap around
	next.End(tx)
	if err := next.Replace(name, d.file, d.opts.Sync == Off); err != nil {
		return false, err
	}
	unsettled := store.SyncDir(filepath.Dir(d.file))
	if unsettled != nil {
		// A crash of the machine may bring the old file back. It is complete and holds the same
		// rows, but would lack those committed from here on.
		unsettled = fmt.Errorf("sync directory: %w", unsettled)
		d.poison.CompareAndSwap(nil, &unsettled)
	}
	d.snapMu.Lock()
	old, cur := d.store, d.cur
	d.store, d.cur = next, nil
	for _, m := range moved {
		d.renumbered.Store(m.from, m.to)
	}
	d.commits.Add(1)
	d.snapMu.Unlock()
	if cur != nil {
		cur.Release()
	}
	old.Retire()
	if unsettled != nil {
		return true, fmt.Errorf("%w: %s: %w", ErrUnknownState, d.path, unsettled)
	}
	return true, nil
}
