package state

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
)

// loadChanges reads the set of rows with changes.
func (st *Collection) loadChanges(context.Context) (err error) {
	c, g := st.Entry, st.Gen
	if c.Revision == 0 {
		return nil
	}
	if err := g.File.VerifyPages(layout.PartSets | layout.PartTail); err != nil {
		return err
	}
	var set *roaring.Bitmap
	g.Locked(func() { set, err = layout.ReadSet(g.Tx, c.Name, c.ID, codec.KindChanged, c.Rows) })
	if err == nil {
		st.changed = set
	}
	return err
}

// change returns the change of a row, nil if it has none.
func (st *Collection) change(row uint32) (x *layout.Change, err error) {
	if err := st.changesLoad.do(context.Background(), st.loadChanges); err != nil {
		return nil, err
	}
	if st.changed == nil || !st.changed.Contains(row) {
		return nil, nil
	}
	key := codec.Key(st.Entry.ID, codec.KindChange, row)
	var v []byte
	st.Gen.Locked(func() { v = st.Gen.Tx.Bucket(layout.BucketTail).Get(key[:]) })
	return layout.ReadChange(st.Entry, key[:], v)
}

// Revision returns the number of a row's latest change, 0 if it was never changed.
func (st *Collection) Revision(row uint32) (uint64, error) {
	x, err := st.change(row)
	if x == nil || err != nil {
		return 0, err
	}
	return x.Revision, nil
}

// Relabelled returns the rows whose labels were changed since an index with this main object was
// made; some of them may be deleted. It returns nil if there are none.
func (st *Collection) Relabelled(object uint64) (rows *roaring.Bitmap, err error) {
	if st.Entry.Revision == 0 {
		return nil, nil
	}
	if err := st.Gen.File.VerifyPages(layout.PartSets); err != nil {
		return nil, err
	}
	st.Gen.Locked(func() {
		rows, err = layout.ReadSet(st.Gen.Tx, st.Entry.Name, object, codec.KindRelabelled, st.Entry.Rows)
	})
	if err != nil || rows.IsEmpty() {
		return nil, err
	}
	return rows, nil
}

// Stale returns the number of live rows below n whose labels were changed since an index with
// this main object was made. Unlike DeletedSet, it does not need the tables of the rows.
func (st *Collection) Stale(object uint64, n int) (int, error) {
	rows, err := st.Relabelled(object)
	if rows == nil || err != nil {
		return 0, err
	}
	deletedRows, err := st.tombstones()
	if err != nil {
		return 0, err
	}
	if deletedRows != nil {
		rows.AndNot(deletedRows)
	}
	rows.RemoveRange(uint64(n), 1<<32)
	return int(rows.GetCardinality()), nil
}
