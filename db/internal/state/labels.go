package state

import (
	"bytes"
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
)

// EachLabel calls f for each label that live rows have, in bytewise order, with their number. f
// must not read the generation, which is locked.
func (st *Collection) EachLabel(f func(label string, n int)) error {
	if err := st.Load(context.Background()); err != nil {
		return err
	}
	if err := st.Gen.File.VerifyPages(layout.PartLabels | layout.PartSets); err != nil {
		return err
	}
	st.Gen.state.Lock()
	defer st.Gen.state.Unlock()
	prefix := layout.KeyOf(st.Entry.ID, nil)
	c := st.Gen.Tx.Bucket(layout.BucketLabels).Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		label := string(k[8:])
		object, err := layout.LabelObject(st.Entry.Name, k, v)
		if err != nil {
			return err
		}
		rows, err := layout.ReadSet(st.Gen.Tx, st.Entry.Name, object, codec.KindLabelRows, st.Entry.Rows)
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

// LabelRows returns the set of rows that carry a label, including deleted ones; nil if no row
// ever had it.
func (st *Collection) LabelRows(label string) (*roaring.Bitmap, error) {
	if err := st.Gen.File.VerifyPages(layout.PartLabels | layout.PartSets); err != nil {
		return nil, err
	}
	st.Gen.state.Lock()
	defer st.Gen.state.Unlock()
	k := layout.KeyOf(st.Entry.ID, []byte(label))
	v := st.Gen.Tx.Bucket(layout.BucketLabels).Get(k)
	if v == nil {
		return nil, nil
	}
	object, err := layout.LabelObject(st.Entry.Name, k, v)
	if err != nil {
		return nil, err
	}
	return layout.ReadSet(st.Gen.Tx, st.Entry.Name, object, codec.KindLabelRows, st.Entry.Rows)
}

// CachedLabel is like LabelRows and caches the set for the following rows.
func (st *Collection) CachedLabel(label string) (*roaring.Bitmap, error) {
	st.indexMu.Lock()
	defer st.indexMu.Unlock()
	if set, ok := st.labelSets[label]; ok {
		return set, nil
	}
	set, err := st.LabelRows(label)
	if err != nil {
		return nil, err
	}
	if st.labelSets == nil {
		st.labelSets = map[string]*roaring.Bitmap{}
	}
	st.labelSets[label] = set
	return set, nil
}
