package db

import (
	"bytes"
	"context"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
)

// eachLabel calls f for each label that live rows have, in bytewise order, with their number. It
// must not be called by f, because the transaction is locked.
func (st *collState) eachLabel(f func(label string, n int)) error {
	if err := st.Load(context.Background()); err != nil {
		return err
	}
	if err := st.g.store.verifyPages(partLabels | partSets); err != nil {
		return err
	}
	st.g.state.Lock()
	defer st.g.state.Unlock()
	prefix := keyOf(st.c.ID, nil)
	c := st.g.tx.Bucket(bucketLabels).Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		label := string(k[8:])
		object, err := labelObject(st.c.Name, k, v)
		if err != nil {
			return err
		}
		rows, err := readSet(st.g.tx, st.c.Name, object, codec.KindLabelRows, st.c.Rows)
		if err != nil {
			return err
		}
		if deletedRows := st.DeletedSet(); deletedRows != nil {
			rows.AndNot(deletedRows)
		}
		if n := int(rows.GetCardinality()); n > 0 {
			f(label, n)
		}
	}
	return nil
}

// labelObject decodes an entry of the label dictionary.
func labelObject(coll string, key, v []byte) (uint64, error) {
	object, ok := entryNumber(string(bucketLabels), key, v)
	if !ok {
		return 0, fail.Corruptf(coll, "label %q: checksum of its entry does not match", key[8:])
	}
	return object, nil
}

// labelRows returns the set of rows that carry a label, including deleted ones; nil if no row
// ever had it.
func (st *collState) labelRows(label string) (*roaring.Bitmap, error) {
	if err := st.g.store.verifyPages(partLabels | partSets); err != nil {
		return nil, err
	}
	st.g.state.Lock()
	defer st.g.state.Unlock()
	k := keyOf(st.c.ID, []byte(label))
	v := st.g.tx.Bucket(bucketLabels).Get(k)
	if v == nil {
		return nil, nil
	}
	object, err := labelObject(st.c.Name, k, v)
	if err != nil {
		return nil, err
	}
	return readSet(st.g.tx, st.c.Name, object, codec.KindLabelRows, st.c.Rows)
}

// cachedLabel is like labelRows and caches the set for the following rows.
func (st *collState) cachedLabel(label string) (*roaring.Bitmap, error) {
	st.indexMu.Lock()
	defer st.indexMu.Unlock()
	if set, ok := st.labelSets[label]; ok {
		return set, nil
	}
	set, err := st.labelRows(label)
	if err != nil {
		return nil, err
	}
	if st.labelSets == nil {
		st.labelSets = map[string]*roaring.Bitmap{}
	}
	st.labelSets[label] = set
	return set, nil
}
