package db

import (
	"context"
	"errors"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
)

// loadChanges reads the set of rows with changes.
func (st *collState) loadChanges(context.Context) (err error) {
	c, g := st.c, st.g
	if c.Revision == 0 {
		return nil
	}
	if err := g.store.verifyPages(partSets | partTail); err != nil {
		return err
	}
	var set *roaring.Bitmap
	g.locked(func() { set, err = readSet(g.tx, c.Name, c.ID, codec.KindChanged, c.Rows) })
	if err == nil {
		st.changed = set
	}
	return err
}

// change returns the change of a row, nil if it has none.
func (st *collState) change(row uint32) (x *change, err error) {
	if err := st.changesLoad.do(context.Background(), st.loadChanges); err != nil {
		return nil, err
	}
	if st.changed == nil || !st.changed.Contains(row) {
		return nil, nil
	}
	key := codec.Key(st.c.ID, codec.KindChange, row)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucketTail).Get(key[:]) })
	if v == nil {
		return nil, blockError(st.c.Name, st.c.ID, codec.KindChange, row, errors.New("block is missing"))
	}
	return readChange(st.c, key[:], v)
}

// revision returns the number of a row's latest change, 0 if it was never changed.
func (st *collState) revision(row uint32) (uint64, error) {
	x, err := st.change(row)
	if x == nil || err != nil {
		return 0, err
	}
	return x.revision, nil
}

// Relabelled returns the rows whose labels were changed since an index with this main object was
// made; some of them may be deleted. It returns nil if there are none.
func (st *collState) Relabelled(object uint64) (rows *roaring.Bitmap, err error) {
	if st.c.Revision == 0 {
		return nil, nil
	}
	if err := st.g.store.verifyPages(partSets); err != nil {
		return nil, err
	}
	st.g.locked(func() {
		rows, err = readSet(st.g.tx, st.c.Name, object, codec.KindRelabelled, st.c.Rows)
	})
	if err != nil || rows.IsEmpty() {
		return nil, err
	}
	return rows, nil
}

// stale returns the number of live rows below n whose labels were changed since an index with
// this main object was made. Unlike DeletedSet, it does not need the tables of the rows.
func (st *collState) stale(object uint64, n int) (int, error) {
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
