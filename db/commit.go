package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
)

// update runs f in a write transaction, commits it, and publishes the new state. The caller
// holds d.write.
func (d *DB) update(f func(tx *bbolt.Tx, cat *layout.Catalog) error) (err error) {
	if p := d.poison.Load(); p != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknownState, d.path, fail.Inner{Err: *p})
	}
	d.snapMu.Lock()
	s := d.store
	d.snapMu.Unlock()
	tx, err := s.Begin(true)
	if err != nil {
		return err
	}
	if err := fill(s, tx, f); err != nil {
		_ = tx.Rollback() // nothing was written; err is the reason
		return asSystem(err)
	}
	if err := s.Commit(tx); err != nil {
		err = asSystem(err)
		if errors.Is(err, berrors.ErrMaxSizeReached) {
			// bbolt detects this while it allocates pages, before it writes any.
			return fail.Wrapf(err, "%s would grow beyond MaxSize, %d bytes", d.path, d.opts.MaxSize)
		}
		d.poison.CompareAndSwap(nil, &err)
		return fmt.Errorf("%w: %s: %w", ErrUnknownState, d.path, fail.Inner{Err: err})
	}
	d.commits.Add(1)
	d.publish()
	s.Advise()
	return nil
}

// fill runs f on the transaction's catalog and writes the catalog back.
func fill(s *state.File, tx *bbolt.Tx, f func(tx *bbolt.Tx, cat *layout.Catalog) error) (err error) {
	defer state.Guard(s, state.CatchFaults(), &err)
	if err := s.VerifyPages(layout.AllParts); err != nil {
		return err
	}
	cat, err := layout.ReadCatalog(tx)
	if err != nil {
		return err
	}
	if err := f(tx, cat); err != nil {
		return err
	}
	return layout.WriteCatalog(tx, cat)
}

// exclusive runs f in a separate write transaction.
func (d *DB) exclusive(ctx context.Context, f func(tx *bbolt.Tx, cat *layout.Catalog) error) error {
	if err := d.writable(ctx); err != nil {
		return err
	}
	select {
	case d.write <- struct{}{}:
		defer func() { <-d.write }()
	case <-ctx.Done():
		return fmt.Errorf("db: %w", ctx.Err())
	}
	if err := d.writable(ctx); err != nil {
		return err
	}
	return d.update(f)
}

// commitRequests applies requests in one transaction and answers each of them. A request that
// cannot be applied fails alone, before it changes anything.
func (d *DB) commitRequests(reqs []*request) {
	if len(reqs) == 0 {
		return
	}
	var err error
	if d.closing.Load() {
		err = fmt.Errorf("%w: %s", ErrClosed, d.path)
	}
	bytes := 0
	for _, r := range reqs {
		bytes += r.bytes
	}
	defer d.makeRoom(bytes)()
	failed := make([]error, len(reqs))
	if err == nil {
		var a *applier
		err = d.update(func(tx *bbolt.Tx, cat *layout.Catalog) error {
			a = newApplier(tx, cat)
			for i, r := range reqs {
				for j := range r.ops {
					r.ops[j].id = d.currentID(r.ops[j].id)
				}
				if failed[i] = errors.Join(a.unchanged(r, d.store), a.check(r.ops)); failed[i] != nil {
					continue
				}
				if err := a.apply(r.ops); err != nil {
					return err
				}
			}
			return a.finish()
		})
		if err == nil {
			d.watches.add(a)
		}
	}
	for i, r := range reqs {
		r.done <- errors.Join(failed[i], err)
	}
}

// applier applies operations within a transaction. It keeps new rows in memory until finish
// determines which chunks they complete.
type applier struct {
	tx    *bbolt.Tx
	cat   *layout.Catalog
	keys  *bbolt.Bucket
	colls map[uint64]*collTx
	names map[uint64]*names // by collection
}

// collTx holds the changes of a transaction to one collection.
type collTx struct {
	c           *layout.Collection
	first       uint32 // number of rows[0]
	rows        []rows.Row
	deletedRows *roaring.Bitmap // rows that this transaction deletes
	labels      map[string]labelChange
	// changes are those of labels and payloads of rows below first, by row; relabelled are the
	// rows of those that change labels.
	changes    map[uint32]*layout.Change
	relabelled *roaring.Bitmap
}

// labelChange holds the rows that get or lose a label.
type labelChange struct{ add, remove *roaring.Bitmap }

// label returns the change of a label's rows.
func (t *collTx) label(name string) labelChange {
	x, ok := t.labels[name]
	if !ok {
		x = labelChange{roaring.New(), roaring.New()}
		t.labels[name] = x
	}
	return x
}

func newApplier(tx *bbolt.Tx, cat *layout.Catalog) *applier {
	return &applier{tx: tx, cat: cat, keys: tx.Bucket(layout.BucketKeys), colls: map[uint64]*collTx{},
		names: map[uint64]*names{}}
}

// check reports an error if the operations cannot be applied. Their collections may have been
// dropped, or dropped and created again, since the operations were added.
func (a *applier) check(ops []op) error {
	puts := map[uint64]uint64{}
	for i := range ops {
		o := &ops[i]
		c := a.cat.ByID(o.id)
		if c == nil {
			return fmt.Errorf("%w: %q", fail.NoCollection, o.coll)
		}
		if o.what == opPut {
			puts[o.id]++
		}
		if o.insert && a.keys.Get(layout.KeyOf(o.id, o.row.Key)) != nil {
			return exists(o.coll, o.row.Key)
		}
		if uint64(c.Rows)+puts[o.id] > layout.MaxRows {
			return fmt.Errorf("%w: %q", fail.Full, o.coll)
		}
	}
	return nil
}

// unchanged checks that the keys that a transaction has read still refer to the same rows, whose
// labels and payloads have not changed. A compaction renumbers rows, so reads from the file
// before a compaction conflict.
func (a *applier) unchanged(r *request, now *state.File) error {
	if len(r.reads) > 0 && r.store != now {
		return errConflict
	}
	for read, was := range r.reads {
		k := layout.KeyOf(read.coll, []byte(read.key))
		v := a.keys.Get(k)
		row, ok := uint64(0), true
		if v != nil {
			row, ok = layout.EntryNumber(string(layout.BucketKeys), k, v)
		}
		if !ok || (v != nil) != was.exists || was.exists && row != uint64(was.row) {
			return errConflict
		}
		if !was.exists {
			continue
		}
		revision, err := a.revision(read.coll, was.row)
		if err != nil {
			return err
		}
		if revision != was.revision {
			return errConflict
		}
	}
	return nil
}

// revision returns the number of a row's latest change, 0 if it was never changed.
func (a *applier) revision(coll uint64, row uint32) (uint64, error) {
	if t := a.colls[coll]; t != nil && t.changes[row] != nil {
		return t.changes[row].Revision, nil
	}
	c := a.cat.ByID(coll)
	if c == nil || c.Revision == 0 {
		return 0, nil
	}
	key := codec.Key(coll, codec.KindChange, row)
	v := a.tx.Bucket(layout.BucketTail).Get(key[:])
	if v == nil {
		return 0, nil
	}
	x, err := layout.ReadChange(c, key[:], v)
	if err != nil {
		return 0, err
	}
	return x.Revision, nil
}

func (a *applier) apply(ops []op) error {
	type entry struct{ key, value []byte }
	var fresh []entry
	for i := range ops {
		o := &ops[i]
		t := a.colls[o.id]
		if t == nil {
			c := a.cat.ByID(o.id)
			t = &collTx{
				c: c, first: c.Rows, deletedRows: roaring.New(), labels: map[string]labelChange{},
				changes: map[uint32]*layout.Change{}, relabelled: roaring.New(),
			}
			a.colls[o.id] = t
		}
		if o.what == opDeleted {
			if err := a.vectorise(t.c, &o.row); err != nil {
				return err
			}
			t.deletedRows.Add(t.c.Rows)
			t.rows = append(t.rows, o.row.Row)
			t.c.Rows++
			continue
		}
		k := layout.KeyOf(o.id, o.row.Key)
		old := a.keys.Get(k)
		row, ok := uint64(0), true
		if old != nil {
			row, ok = layout.EntryNumber(string(layout.BucketKeys), k, old)
		}
		if !ok || old != nil && (row >= uint64(t.c.Rows) || t.c.Live == 0) || old == nil && o.what == opChange {
			return fail.Corruptf(o.coll, "key %q points to no row", o.row.Key)
		}
		if o.what == opChange {
			t.change(uint32(row), o)
			continue
		}
		if old != nil {
			t.deletedRows.Add(uint32(row))
			t.c.Live--
			if o.what == opDelete {
				if err := a.keys.Delete(k); err != nil {
					return fmt.Errorf("db: delete key: %w", err)
				}
			}
		}
		if o.what == opDelete {
			continue
		}
		if err := a.vectorise(t.c, &o.row); err != nil {
			return err
		}
		fresh = append(fresh, entry{k, layout.EntryValue(string(layout.BucketKeys), k, uint64(t.c.Rows))})
		for _, l := range o.row.Labels {
			t.label(l).add.Add(t.c.Rows)
		}
		t.rows = append(t.rows, o.row.Row)
		t.c.Rows++
		t.c.Live++
	}
	// Keys are unique within a transaction's operations, so they can be put at the end, in
	// order: bbolt moves the entries after a key that it puts into a leaf, and splits leaves
	// only when the transaction ends.
	slices.SortFunc(fresh, func(x, y entry) int { return bytes.Compare(x.key, y.key) })
	for _, e := range fresh {
		if err := a.keys.Put(e.key, e.value); err != nil {
			return fmt.Errorf("db: put key: %w", err)
		}
	}
	return nil
}

// change changes labels and payload of a row.
func (t *collTx) change(row uint32, o *op) {
	t.c.Revision++
	t.changes[row] = &layout.Change{Revision: t.c.Revision, Labels: o.row.Labels, Payload: o.row.Payload}
	if slices.Equal(o.had, o.row.Labels) {
		return
	}
	t.relabelled.Add(row)
	for _, l := range o.had {
		if _, kept := slices.BinarySearch(o.row.Labels, l); !kept {
			t.label(l).remove.Add(row)
		}
	}
	for _, l := range o.row.Labels {
		if _, kept := slices.BinarySearch(o.had, l); !kept {
			t.label(l).add.Add(row)
		}
	}
}

// vectorise converts a sparse row to its final form and updates the number of features in use.
func (a *applier) vectorise(c *layout.Collection, r *newRow) error {
	if !c.Sparse {
		return nil
	}
	if c.Named {
		s, err := a.number(c, r.features)
		if err != nil {
			return err
		}
		r.Sparse = nonZero(s)
	}
	if n := r.Sparse.Len(); n > 0 {
		c.Dim = max(c.Dim, int(r.Sparse.Index[n-1])+1)
	}
	return nil
}

// finish writes complete chunks and the remaining rows.
func (a *applier) finish() error {
	for id, dict := range a.names {
		if err := a.writeNames(id, dict); err != nil {
			return err
		}
	}
	for _, t := range a.colls {
		if err := a.sealAndTail(t); err != nil {
			return err
		}
		if err := layout.EditSets(a.tx, t.c.ID, codec.KindTombstones, t.deletedRows, nil); err != nil {
			return err
		}
		if err := a.writeChanges(t); err != nil {
			return err
		}
		if err := a.editLabels(t); err != nil {
			return err
		}
	}
	return nil
}

// sealAndTail writes the new rows: those that complete a chunk as chunks, together with the
// earlier tail rows of the chunk, the others as tail rows.
func (a *applier) sealAndTail(t *collTx) error {
	blocks, tail := a.tx.Bucket(layout.BucketBlocks), a.tx.Bucket(layout.BucketTail)
	put := func(key [codec.KeySize]byte, value []byte) error {
		if err := blocks.Put(key[:], value); err != nil {
			return fmt.Errorf("db: put block: %w", err)
		}
		return nil
	}
	format := t.c.RowFormat()
	per := uint32(1) << format.Shift()
	done := uint32(0) // written rows of t.rows
	for lo := t.first &^ (per - 1); lo+per <= t.c.Rows && lo+per > t.first; lo += per {
		chunk := make([]rows.Row, 0, per)
		for row := lo; row < t.first; row++ {
			r, err := a.takeTail(tail, t.c, row)
			if err != nil {
				return err
			}
			chunk = append(chunk, r)
		}
		n := per - uint32(len(chunk))
		chunk = append(chunk, t.rows[done:done+n]...)
		if err := format.EncodeChunk(lo>>format.Shift(), chunk, put); err != nil {
			return fail.Wrapf(err, "write a chunk")
		}
		done += n
	}
	for i := range t.rows[done:] {
		row := t.first + done + uint32(i)
		key := codec.Key(t.c.ID, codec.KindTail, row)
		if err := tail.Put(key[:], format.EncodeOne(key[:], &t.rows[done+uint32(i)])); err != nil {
			return fmt.Errorf("db: put row: %w", err)
		}
	}
	return nil
}

// takeTail reads a tail row for a chunk and deletes it from the tail.
func (a *applier) takeTail(tail *bbolt.Bucket, c *layout.Collection, row uint32) (rows.Row, error) {
	key := codec.Key(c.ID, codec.KindTail, row)
	value := tail.Get(key[:])
	if value == nil {
		return rows.Row{}, layout.BlockError(c.Name, c.ID, codec.KindTail, row, errors.New("row is missing"))
	}
	r, err := layout.ReadTail(c, key[:], value)
	if err != nil {
		return rows.Row{}, err
	}
	if err := tail.Delete(key[:]); err != nil {
		return rows.Row{}, fmt.Errorf("db: delete row: %w", err)
	}
	return r, nil
}

// writeChanges writes the changes of labels and payloads, deletes those of deleted rows, and
// records the relabelled rows for the indexes that learn from labels.
func (a *applier) writeChanges(t *collTx) error {
	if t.c.Revision == 0 {
		return nil
	}
	tail := a.tx.Bucket(layout.BucketTail)
	deleted := roaring.New()
	if !t.deletedRows.IsEmpty() {
		var err error
		if deleted, err = layout.ReadSet(a.tx, t.c.Name, t.c.ID, codec.KindChanged, t.c.Rows); err != nil {
			return err
		}
		deleted.And(t.deletedRows)
	}
	for it := deleted.Iterator(); it.HasNext(); {
		key := codec.Key(t.c.ID, codec.KindChange, it.Next())
		if err := tail.Delete(key[:]); err != nil {
			return fail.Wrapf(err, "delete change")
		}
	}
	changed := roaring.New()
	for row := range t.changes {
		changed.Add(row)
	}
	changed.AndNot(t.deletedRows) // a later transaction of the group has deleted the row
	for it := changed.Iterator(); it.HasNext(); {
		row := it.Next()
		key := codec.Key(t.c.ID, codec.KindChange, row)
		if err := tail.Put(key[:], layout.EncodeChange(key[:], t.changes[row])); err != nil {
			return fail.Wrapf(err, "put change")
		}
	}
	if err := layout.EditSets(a.tx, t.c.ID, codec.KindChanged, changed, deleted); err != nil {
		return err
	}
	for _, r := range t.c.Indexes {
		if !r.Labels {
			continue
		}
		if err := layout.EditSets(a.tx, r.Object, codec.KindRelabelled, t.relabelled, nil); err != nil {
			return err
		}
	}
	return nil
}

// editLabels creates objects for new labels, adds rows to the labels' sets and removes others. A
// label is deleted with its last row; a deleted row keeps its labels.
func (a *applier) editLabels(t *collTx) error {
	dict := a.tx.Bucket(layout.BucketLabels)
	for label, x := range t.labels {
		k := layout.KeyOf(t.c.ID, []byte(label))
		var object uint64
		if v := dict.Get(k); v != nil {
			var err error
			if object, err = layout.LabelObject(t.c.Name, k, v); err != nil {
				return err
			}
		} else {
			a.cat.Object++
			object = a.cat.Object
			if err := dict.Put(k, layout.EntryValue(string(layout.BucketLabels), k, object)); err != nil {
				return fmt.Errorf("db: put label: %w", err)
			}
		}
		if err := layout.EditSets(a.tx, object, codec.KindLabelRows, x.add, x.remove); err != nil {
			return err
		}
		if layout.HasBlocks(a.tx.Bucket(layout.BucketSets), object, codec.KindLabelRows) {
			continue
		}
		if err := dict.Delete(k); err != nil {
			return fail.Wrapf(err, "delete label")
		}
	}
	return nil
}
