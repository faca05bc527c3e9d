package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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

// copiedRows describes what the copy holds of a collection: the rows numbered below rows, of
// which those in deleted had been deleted.
type copiedRows struct {
	rows    uint32
	deleted *roaring.Bitmap
}

func (c copiedRows) same(d copiedRows) bool {
	return c.rows == d.rows && c.deleted.GetCardinality() == d.deleted.GetCardinality()
}

// copiedRows returns what a copy of the snapshot's state holds, by collection.
func (s *Snapshot) copiedRows() (_ map[uint64]copiedRows, err error) {
	defer state.Guard(s.gen.File, state.CatchFaults(), &err)
	out := map[uint64]copiedRows{}
	s.gen.Locked(func() {
		for _, c := range s.gen.Catalog.Collections {
			var deleted *roaring.Bitmap
			if deleted, err = layout.ReadSet(s.gen.Tx, c.Name, c.ID, codec.KindTombstones, c.Rows); err != nil {
				return
			}
			out[c.ID] = copiedRows{c.Rows, deleted}
		}
	})
	return out, err
}

// catchUp applies to next the changes in the snapshot's state since copied; changes are the rows
// whose labels or payloads have changed since. It returns the number of bytes of rows applied and
// what is copied then. to returns the number of a collection in next.
func (s *Snapshot) catchUp(ctx context.Context, next *state.File, copied map[uint64]copiedRows,
	changes map[uint64]apply.Changes, to func(uint64) uint64,
) (bytes int, _ map[uint64]copiedRows, err error) {
	after, err := s.copiedRows()
	if err != nil {
		return 0, nil, err
	}
	for _, c := range s.gen.Catalog.Collections {
		before, ok := copied[c.ID]
		if !ok {
			return bytes, nil, fmt.Errorf("%w: collection %q is not the one that the compaction copied",
				fail.Changing, c.Name)
		}
		if before.same(after[c.ID]) && changes[c.ID].All == nil {
			continue
		}
		n, err := s.catchUpRows(ctx, next, s.gen.Collections[c.Name], before, to(c.ID), changes[c.ID].All)
		if bytes += n; err != nil {
			return bytes, nil, err
		}
	}
	return bytes, after, nil
}

// catchUpRows is catchUp for one collection. It commits transactions of about txn.StageBytes.
func (s *Snapshot) catchUpRows(ctx context.Context, next *state.File, st *state.Collection, before copiedRows,
	id uint64, changed *roaring.Bitmap) (bytes int, err error) {
	var ops []apply.Op
	size := 0
	add := func(o apply.Op, n int) error {
		o.ID, o.Collection = id, st.Entry.Name
		ops, size, bytes = append(ops, o), size+n, bytes+n
		if size < txn.StageBytes {
			return nil
		}
		err := errors.Join(ctx.Err(), txn.Apply(next, ops))
		ops, size = ops[:0], 0
		return err
	}
	if err := s.deletedKeys(ctx, st, before, func(key []byte) error {
		return add(apply.Op{What: apply.Delete, Row: apply.Row{Row: rows.Row{Key: key}}}, loadRow+len(key))
	}); err != nil {
		return bytes, err
	}
	if err := s.changedRows(st, before, changed, next, add); err != nil {
		return bytes, err
	}
	var run *state.ColdRun
	for row := before.rows; row < st.Entry.Rows; row++ {
		r, ok, err := s.nextRow(st, row, &run)
		if err != nil {
			return bytes, err
		}
		o := apply.Op{What: apply.Put}
		if !ok {
			if id != st.Entry.ID {
				continue // the rows have other numbers in the copy
			}
			o.What = apply.PutDeleted
			if r, err = s.deletedRow(st, row); err != nil {
				return bytes, err
			}
		}
		o.Row = copyRow(&r)
		if err := add(o, loadRow+r.size()); err != nil {
			return bytes, err
		}
	}
	return bytes, errors.Join(ctx.Err(), txn.Apply(next, ops))
}

// deletedRow copies the key and the vector of a deleted row.
func (s *Snapshot) deletedRow(st *state.Collection, row uint32) (r Row, err error) {
	defer state.Guard(s.gen.File, state.CatchFaults(), &err)
	x, err := st.ReadVector(row)
	if err != nil {
		return r, err
	}
	return publicRow(st, row, x)
}

// deletedKeys yields copies of the keys that rows had when they were copied and that no row has
// now.
func (s *Snapshot) deletedKeys(ctx context.Context, st *state.Collection, before copiedRows,
	yield func(key []byte) error) (err error) {
	defer state.Guard(s.gen.File, state.CatchFaults(), &err)
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
		s.gen.Locked(func() { live = s.gen.Tx.Bucket(layout.BucketKeys).Get(k) != nil })
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
func (s *Snapshot) changedRows(st *state.Collection, before copiedRows, changed *roaring.Bitmap,
	next *state.File, yield func(o apply.Op, n int) error) error {
	if changed == nil {
		return nil
	}
	// Other rows are copied with their present labels and payload.
	changed.RemoveRange(uint64(before.rows), math.MaxUint32+1)
	for it := changed.Iterator(); it.HasNext(); {
		// yield may write to next, which must not have a reader then: bbolt may have to remap it.
		ops, err := s.readChanges(st, it, next)
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
func (s *Snapshot) readChanges(
	st *state.Collection, changed roaring.IntPeekable, next *state.File,
) (ops []apply.Op, err error) {
	g, err := state.OpenGeneration(next, 0)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	defer state.Guard(next, state.CatchFaults(), &err)
	copied := g.Collections[st.Entry.Name]
	var run, old *state.ColdRun
	for size := 0; changed.HasNext() && size < txn.StageBytes; {
		r, live, err := s.nextRow(st, changed.Next(), &run)
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
		labels, payload, err := copied.Cold(to, &old)
		if err != nil {
			return nil, err
		}
		if slices.Equal(labels, r.Labels) && bytes.Equal(payload, r.Payload) {
			continue // the row was changed before it was copied
		}
		o := apply.Op{
			What: apply.Change, Before: labels,
			Row: apply.Row{Row: rows.Row{Key: r.Key, Labels: r.Labels, Payload: r.Payload}},
		}
		o.Bytes = loadRow + len(r.Key) + o.Row.ColdSize()
		ops, size = append(ops, o), size+o.Bytes
	}
	return ops, nil
}
