// Package apply applies the changes of transactions to the stored form, within a write transaction:
// keys, rows and chunks, changes, labels and names of features.
package apply

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
)

// Applier applies operations within a transaction. It keeps new rows in memory until Finish
// determines which chunks they complete.
type Applier struct {
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
	vectorless  *roaring.Bitmap // new rows without a vector, where others have one
	labels      map[string]labelChange
	// changes are those of rows below first, by row; relabelled are the
	// rows of those that change labels.
	changes    map[uint32]*layout.Change
	relabelled *roaring.Bitmap
	attributes attributesTx
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

// New returns an applier for a transaction and its catalog.
func New(tx *bbolt.Tx, cat *layout.Catalog) *Applier {
	return &Applier{tx: tx, cat: cat, keys: tx.Bucket(layout.BucketKeys), colls: map[uint64]*collTx{},
		names: map[uint64]*names{}}
}

// Check reports an error if the operations cannot be applied. Their collections may have been
// dropped, or dropped and created again, since the operations were added.
func (a *Applier) Check(ops []Op) error {
	puts := map[uint64]uint64{}
	names := NewNames{}
	for i := range ops {
		o := &ops[i]
		c := a.cat.ByID(o.ID)
		if c == nil {
			return fmt.Errorf("%w: %q", fail.NoCollection, o.Collection)
		}
		if o.What == Put {
			puts[o.ID]++
		}
		if o.Insert {
			if err := a.insertable(o); err != nil {
				return err
			}
		}
		if uint64(c.Rows)+puts[o.ID] > layout.MaxRows {
			return fmt.Errorf("%w: %q", fail.Full, o.Collection)
		}
		if err := names.Check(c, o.Row.Key, o.Row.Attributes); err != nil {
			return err
		}
	}
	return nil
}

// Unchanged checks that the keys that a transaction has read still refer to the same rows, whose
// other parts (rows.Cold) have not changed.
func (a *Applier) Unchanged(reads map[Key]Found) error {
	for read, was := range reads {
		same, err := a.same(read, was)
		if err != nil {
			return err
		}
		if !same {
			return ErrConflict
		}
	}
	return nil
}

// same reports whether a read of a key has the same result as before.
func (a *Applier) same(read Key, was Found) (bool, error) {
	k := layout.KeyOf(read.Collection, []byte(read.Key))
	v := a.keys.Get(k)
	row, ok := uint64(0), true
	if v != nil {
		row, ok = layout.EntryNumber(string(layout.BucketKeys), k, v)
	}
	if !ok || (v != nil) != was.Exists || was.Exists && row != uint64(was.Row) {
		return false, nil
	}
	if !was.Exists {
		return true, nil
	}
	revision, err := a.revision(read.Collection, was.Row)
	return revision == was.Revision, err
}

// insertable refuses the insertion of a key that a row has, unless that is still the row that had expired
// when the transaction was filled.
func (a *Applier) insertable(o *Op) error {
	if a.keys.Get(layout.KeyOf(o.ID, o.Row.Key)) == nil {
		return nil
	}
	if o.Expired != nil {
		same, err := a.same(Key{Collection: o.ID, Key: string(o.Row.Key)}, *o.Expired)
		if same || err != nil {
			return err
		}
	}
	return Exists(o.Collection, o.Row.Key)
}

// revision returns the number of a row's latest change, 0 if it was never changed.
func (a *Applier) revision(coll uint64, row uint32) (uint64, error) {
	c := a.cat.ByID(coll)
	if c == nil || c.Revision == 0 {
		return 0, nil
	}
	x, err := a.change(c, row)
	if x == nil || err != nil {
		return 0, err
	}
	return x.Revision, nil
}

// change returns a row's latest change, nil if it has none.
func (a *Applier) change(c *layout.Collection, row uint32) (*layout.Change, error) {
	if t := a.colls[c.ID]; t != nil && t.changes[row] != nil {
		return t.changes[row], nil
	}
	key := codec.Key(c.ID, codec.KindChange, row)
	v := a.tx.Bucket(layout.BucketTail).Get(key[:])
	if v == nil {
		return nil, nil
	}
	return layout.ReadChange(c, key[:], v)
}

// entry is a key to be put, and its value.
type entry struct{ key, value []byte }

// Apply applies operations that Check accepts.
func (a *Applier) Apply(ops []Op) error {
	var fresh []entry
	for i := range ops {
		o := &ops[i]
		t := a.changesOf(o.ID)
		if o.What == PutDeleted {
			if err := a.vectorise(t.c, &o.Row); err != nil {
				return err
			}
			t.deletedRows.Add(t.c.Rows)
			t.add(&o.Row)
			continue
		}
		k := layout.KeyOf(o.ID, o.Row.Key)
		old := a.keys.Get(k)
		row, ok := uint64(0), true
		if old != nil {
			row, ok = layout.EntryNumber(string(layout.BucketKeys), k, old)
		}
		if !ok || old != nil && (row >= uint64(t.c.Rows) || t.c.Live == 0) || old == nil && o.What == Change {
			return fail.Corruptf(o.Collection, "key %q points to no row", o.Row.Key)
		}
		if o.What == Change {
			a.nameAttributes(t, o.Row.Attributes)
			t.change(uint32(row), o)
			continue
		}
		if old != nil {
			t.deletedRows.Add(uint32(row))
			t.c.Live--
			if o.What == Delete {
				if err := a.keys.Delete(k); err != nil {
					return fmt.Errorf("db: delete key: %w", err)
				}
			}
		}
		if o.What == Delete {
			continue
		}
		if err := a.vectorise(t.c, &o.Row); err != nil {
			return err
		}
		fresh = append(fresh, entry{k, layout.EntryValue(string(layout.BucketKeys), k, uint64(t.c.Rows))})
		for _, l := range o.Row.Labels {
			t.label(l).add.Add(t.c.Rows)
		}
		a.nameAttributes(t, o.Row.Attributes)
		t.add(&o.Row)
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

// add adds a row.
func (t *collTx) add(r *rows.Row) {
	if t.c.Dim > 0 && r.Vector == nil {
		t.vectorless.Add(t.c.Rows)
	}
	t.rows = append(t.rows, *r)
	t.c.Rows++
}

// changesOf returns the changes of a collection.
func (a *Applier) changesOf(id uint64) *collTx {
	t := a.colls[id]
	if t == nil {
		c := a.cat.ByID(id)
		t = &collTx{
			c: c, first: c.Rows, deletedRows: roaring.New(), vectorless: roaring.New(),
			labels:  map[string]labelChange{},
			changes: map[uint32]*layout.Change{}, relabelled: roaring.New(), attributes: newAttributesTx(),
		}
		a.colls[id] = t
	}
	return t
}

// change changes labels, attributes and payload of a row.
func (t *collTx) change(row uint32, o *Op) {
	t.c.Revision++
	t.changes[row] = &layout.Change{Revision: t.c.Revision, Cold: o.Row.Cold}
	if !attribute.Same(o.Before.Attributes, o.Row.Attributes) {
		t.attributes.stale.Add(row)
	}
	if slices.Equal(o.Before.Labels, o.Row.Labels) {
		return
	}
	t.relabelled.Add(row)
	for _, l := range o.Before.Labels {
		if _, kept := slices.BinarySearch(o.Row.Labels, l); !kept {
			t.label(l).remove.Add(row)
		}
	}
	for _, l := range o.Row.Labels {
		if _, kept := slices.BinarySearch(o.Before.Labels, l); !kept {
			t.label(l).add.Add(row)
		}
	}
}

// vectorise converts a sparse row to its final form and updates the number of features in use.
func (a *Applier) vectorise(c *layout.Collection, r *rows.Row) error {
	if !c.Sparse {
		return nil
	}
	if c.Named {
		s, err := a.number(c, r.Features)
		if err != nil {
			return err
		}
		r.Sparse, r.Features = NonZero(s), nil
	}
	if n := r.Sparse.Len(); n > 0 {
		c.Features = max(c.Features, int(r.Sparse.Index[n-1])+1)
	}
	return nil
}

// Finish writes complete chunks and the remaining rows.
func (a *Applier) Finish() error {
	for id, dict := range a.names {
		if err := writeNew(a.tx, id, dict); err != nil {
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
		if err := layout.EditSets(a.tx, t.c.ID, codec.KindVectorless, t.vectorless, nil); err != nil {
			return err
		}
		if err := a.writeChanges(t); err != nil {
			return err
		}
		if err := a.editLabels(t); err != nil {
			return err
		}
		if err := a.writeAttributes(t); err != nil {
			return err
		}
	}
	return nil
}

// sealAndTail writes the new rows: those that complete a chunk as chunks, together with the
// earlier tail rows of the chunk, the others as tail rows.
func (a *Applier) sealAndTail(t *collTx) error {
	blocks, tail := a.tx.Bucket(layout.BucketBlocks), a.tx.Bucket(layout.BucketTail)
	blocks.FillPercent = 1 // chunks are written in order
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
		for i := range chunk {
			t.attributes.seal(lo+uint32(i), chunk[i].Attributes)
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
func (a *Applier) takeTail(tail *bbolt.Bucket, c *layout.Collection, row uint32) (rows.Row, error) {
	key := codec.Key(c.ID, codec.KindTail, row)
	r, err := layout.ReadTail(c, key[:], tail.Get(key[:]))
	if err != nil {
		return rows.Row{}, err
	}
	if err := tail.Delete(key[:]); err != nil {
		return rows.Row{}, fmt.Errorf("db: delete row: %w", err)
	}
	return r, nil
}

// writeChanges writes the changes of rows.Cold, deletes those of deleted rows, and
// records the relabelled rows for the indexes that learn from labels.
func (a *Applier) writeChanges(t *collTx) error {
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
func (a *Applier) editLabels(t *collTx) error {
	dict := a.tx.Bucket(layout.BucketLabels)
	// In the order of the keys: bbolt moves all that follow a new one within a page, which has no bound before
	// the commit.
	for _, label := range slices.Sorted(maps.Keys(t.labels)) {
		x := t.labels[label]
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
