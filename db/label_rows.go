package db

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
)

// labelReader reads the sets of rows of many labels, as lists and in memory of
// its own for all of them, which labelRows would make for each.
type labelReader struct {
	st     *collState
	dict   *bbolt.Bucket
	sets   *bbolt.Cursor
	set    *roaring.Bitmap
	object []byte // and kind, as in keys
}

// labelReader makes one, for a goroutine on which the map is guarded.
func (st *collState) labelReader() (r *labelReader, err error) {
	if err := st.g.store.sound(soundLabels | soundSets); err != nil {
		return nil, err
	}
	r = &labelReader{st: st, set: roaring.New()}
	st.g.locked(func() { r.dict, r.sets = st.g.tx.Bucket(bucketLabels), st.g.tx.Bucket(bucketSets).Cursor() })
	return r, nil
}

// appendRows appends the rows that carry a label, ascending and with deleted
// ones; none when no row ever did.
func (r *labelReader) appendRows(dst []uint32, label string) (out []uint32, err error) {
	r.st.g.locked(func() { out, err = r.append(dst, label) })
	return out, err
}

func (r *labelReader) append(dst []uint32, label string) ([]uint32, error) {
	st := r.st
	k := keyOf(st.c.ID, []byte(label))
	v := r.dict.Get(k)
	if v == nil {
		return dst, nil
	}
	object, err := labelObject(st.c.Name, k, v)
	if err != nil {
		return nil, err
	}
	first := codec.Key(object, codec.KindLabelRows, 0)
	r.object = append(r.object[:0], first[:12]...)
	for k, v := r.sets.Seek(first[:]); len(k) == codec.KeySize && bytes.HasPrefix(k, r.object); k, v = r.sets.Next() {
		payload, err := decodeBlock(st.c.Name, k, v, true)
		if err != nil {
			return nil, err
		}
		_, _, chunk := codec.ParseKey(k)
		// The set is only looked at while the block is in the map.
		_, err = r.set.FromBuffer(payload)
		if err == nil {
			err = checkSet(r.set)
		}
		if err == nil {
			err = checkSetEnd(r.set, chunk, st.c.Rows)
		}
		if err != nil {
			return nil, blockError(st.c.Name, object, codec.KindLabelRows, chunk, err)
		}
		at, n := len(dst), int(r.set.GetCardinality())
		dst = slices.Grow(dst, n)[:at+n]
		rows := dst[at:]
		r.set.ToExistingArray(&rows)
		for i := range rows {
			rows[i] += chunk << 16
		}
	}
	return dst, nil
}

// checkSet checks a set as it was read from a block.
func checkSet(set *roaring.Bitmap) error {
	if err := set.Validate(); err != nil {
		return err
	}
	if !set.IsEmpty() && set.Maximum() > 0xffff {
		return fmt.Errorf("set holds %d, want at most 65535", set.Maximum())
	}
	return nil
}

// checkSetEnd checks that a block's set is one of n rows.
func checkSetEnd(set *roaring.Bitmap, chunk, n uint32) error {
	if chunk > 0xffff || !set.IsEmpty() && uint64(chunk)<<16+uint64(set.Maximum()) >= uint64(n) {
		return fmt.Errorf("set names a row beyond %d", n)
	}
	return nil
}
