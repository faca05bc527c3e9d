package compact

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
)

// A compaction copies a state while transactions are committed to the file. Their changes are
// then applied to the copy, first without the write lock, in rounds that become shorter, and
// finally with it.

const (
	// catchUpBytes is the largest size of a round after which the write lock is taken for the
	// last one.
	catchUpBytes = 4 << 20
	// catchUpRounds bounds the number of rounds when writers are faster than the copy.
	catchUpRounds = 10
)

// Copy is an open copy of a file, which follows the transactions that are committed to it.
type Copy struct {
	File *state.File
	// Moved are the collections whose rows have other numbers in the copy.
	Moved   Moved
	txn     *txn.Manager // of the file copied
	copied  map[uint64]copiedRows
	changes *apply.Watch
	end     func()
}

// Copy writes the latest state, compacted, to the empty file name and opens that. The caller closes
// the file, and calls End when the copy need not follow any more.
func (c *Compactor) Copy(ctx context.Context, name string, n Numbers) (_ *Copy, err error) {
	f := &Copy{txn: c.Txn}
	f.changes, f.end = c.Txn.Watch()
	done := false
	defer func() {
		if !done {
			f.end()
		}
	}()
	g, err := c.Txn.Latest()
	if err != nil {
		return nil, err
	}
	defer g.Release()
	if f.copied, err = copiedOf(g); err != nil {
		return nil, err
	}
	if f.Moved, err = c.compacted(ctx, g, name, n); err != nil {
		return nil, err
	}
	if f.File, err = c.open(name); err != nil {
		return nil, err
	}
	if err := f.File.VerifyPages(layout.AllParts); err != nil {
		return nil, errors.Join(err, f.File.Close())
	}
	done = true
	return f, nil
}

// End ends the collection of changes to follow.
func (f *Copy) End() { f.end() }

// Follow applies the changes since the last call. It returns the number of bytes of rows applied and
// the number of the generation that the copy then holds.
func (f *Copy) Follow(ctx context.Context) (bytes int, last uint64, err error) {
	// The state is read afterwards, so it has all changes that are taken.
	changes := f.changes.Next()
	g, err := f.txn.Latest()
	if err != nil {
		return 0, 0, err
	}
	defer g.Release()
	bytes, f.copied, err = f.catchUp(ctx, g, changes)
	return bytes, g.Number(), err
}

// Kept returns the collections whose rows have the same numbers in the copy.
func (f *Copy) Kept() []uint64 {
	var out []uint64
	for id := range f.copied {
		if f.Moved.to(id) == id {
			out = append(out, id)
		}
	}
	return out
}

// copiedRows describes what the copy holds of a collection: the rows numbered below rows, of
// which those in deleted had been deleted.
type copiedRows struct {
	rows    uint32
	deleted *roaring.Bitmap
}

func (c copiedRows) same(d copiedRows) bool {
	return c.rows == d.rows && c.deleted.GetCardinality() == d.deleted.GetCardinality()
}

// copiedOf returns what a copy of a state holds, by collection.
func copiedOf(g *state.Generation) (_ map[uint64]copiedRows, err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	out := map[uint64]copiedRows{}
	g.Locked(func() {
		for _, c := range g.Catalog.Collections {
			var deleted *roaring.Bitmap
			if deleted, err = layout.ReadSet(g.Tx, c.Name, c.ID, codec.KindTombstones, c.Rows); err != nil {
				return
			}
			out[c.ID] = copiedRows{c.Rows, deleted}
		}
	})
	return out, err
}

// catchUp applies the changes in a state since the one copied; changes are the rows whose labels or
// payloads have changed since. It returns the number of bytes of rows applied and what is copied then.
func (f *Copy) catchUp(
	ctx context.Context, g *state.Generation, changes map[uint64]apply.Changes,
) (bytes int, _ map[uint64]copiedRows, err error) {
	after, err := copiedOf(g)
	if err != nil {
		return 0, nil, err
	}
	for _, c := range g.Catalog.Collections {
		before, ok := f.copied[c.ID]
		if !ok {
			return bytes, nil, fmt.Errorf("%w: collection %q is not the one that the compaction copied",
				fail.Changing, c.Name)
		}
		if before.same(after[c.ID]) && changes[c.ID].All == nil {
			continue
		}
		n, err := f.catchUpRows(ctx, g.Collections[c.Name], before, changes[c.ID].All)
		if bytes += n; err != nil {
			return bytes, nil, err
		}
	}
	return bytes, after, nil
}

// catchUpRows is catchUp for one collection. It commits transactions of about txn.StageBytes.
func (f *Copy) catchUpRows(
	ctx context.Context, st *state.Collection, before copiedRows, changed *roaring.Bitmap,
) (bytes int, err error) {
	id := f.Moved.to(st.Entry.ID)
	var ops []apply.Op
	size := 0
	add := func(o apply.Op, n int) error {
		o.ID, o.Collection = id, st.Entry.Name
		ops, size, bytes = append(ops, o), size+n, bytes+n
		if size < txn.StageBytes {
			return nil
		}
		err := errors.Join(ctx.Err(), txn.Apply(f.File, ops))
		ops, size = ops[:0], 0
		return err
	}
	if err := deletedKeys(ctx, st, before, func(key []byte) error {
		return add(apply.Op{What: apply.Delete, Row: rows.Row{Key: key}}, apply.RowBytes+len(key))
	}); err != nil {
		return bytes, err
	}
	if err := f.changedRows(st, before, changed, add); err != nil {
		return bytes, err
	}
	var run *state.ColdRun
	for row := before.rows; row < st.Entry.Rows; row++ {
		r, live, err := readRow(st, row, &run)
		if err != nil {
			return bytes, err
		}
		o := apply.Op{What: apply.Put}
		if !live {
			if id != st.Entry.ID {
				continue // the rows have other numbers in the copy
			}
			o.What = apply.PutDeleted
			if r, err = deletedRow(st, row); err != nil {
				return bytes, err
			}
		}
		o.Row = r
		if err := add(o, apply.RowBytes+r.Size()); err != nil {
			return bytes, err
		}
	}
	return bytes, errors.Join(ctx.Err(), txn.Apply(f.File, ops))
}

// deletedKeys yields copies of the keys that rows had when they were copied and that no row has
// now.
func deletedKeys(ctx context.Context, st *state.Collection, before copiedRows,
	yield func(key []byte) error) (err error) {
	defer state.Guard(st.Gen.File, state.CatchFaults(), &err)
	if err := st.Load(ctx); err != nil {
		return err
	}
	now := st.DeletedSet()
	if now == nil {
		return nil
	}
	newlyDeleted := roaring.AndNot(now, before.deleted)
	newlyDeleted.RemoveRange(uint64(before.rows), math.MaxUint32+1)
	for it := newlyDeleted.Iterator(); it.HasNext(); {
		key, err := st.Key(it.Next())
		if err != nil {
			return err
		}
		k := layout.KeyOf(st.Entry.ID, key)
		live := false
		st.Gen.Locked(func() { live = st.Gen.Tx.Bucket(layout.BucketKeys).Get(k) != nil })
		if live {
			continue // replaced by a later row
		}
		if err := yield(k[8:]); err != nil {
			return err
		}
	}
	return nil
}

// changedRows yields the changes of labels and payloads of rows that were copied and still exist.
func (f *Copy) changedRows(st *state.Collection, before copiedRows, changed *roaring.Bitmap,
	yield func(o apply.Op, n int) error) error {
	if changed == nil {
		return nil
	}
	// Other rows are copied with their present labels and payload.
	changed.RemoveRange(uint64(before.rows), math.MaxUint32+1)
	for it := changed.Iterator(); it.HasNext(); {
		// yield may write to the copy, which must not have a reader then: bbolt may have to remap it.
		ops, err := f.readChanges(st, it)
		if err != nil {
			return err
		}
		for _, o := range ops {
			if err := yield(o, o.Bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// readChanges reads changes of about txn.StageBytes. What the copy has of a changed row is of the
// previous round: a row that is changed in this round is neither deleted nor added in it.
func (f *Copy) readChanges(
	st *state.Collection, changed roaring.IntPeekable,
) (ops []apply.Op, err error) {
	g, err := state.OpenGeneration(f.File, 0)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	defer state.Guard(f.File, state.CatchFaults(), &err)
	copied := g.Collections[st.Entry.Name]
	var run, old *state.ColdRun
	for size := 0; changed.HasNext() && size < txn.StageBytes; {
		r, live, err := readRow(st, changed.Next(), &run)
		if err != nil {
			return nil, err
		}
		if !live {
			continue
		}
		to, ok, err := copied.Find(r.Key)
		if err == nil && !ok {
			err = fail.Corruptf(st.Entry.Name, "the copy lacks key %q", r.Key)
		}
		if err != nil {
			return nil, err
		}
		before, err := copied.Cold(to, &old)
		if err != nil {
			return nil, err
		}
		if before.Equal(&r.Cold) {
			continue // the row was changed before it was copied
		}
		o := apply.Op{
			What: apply.Change, Before: before, Row: rows.Row{Key: r.Key, Cold: r.Cold},
		}
		o.Bytes = apply.RowBytes + len(r.Key) + o.Row.Cold.Size()
		ops, size = append(ops, o), size+o.Bytes
	}
	return ops, nil
}
