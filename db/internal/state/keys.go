package state

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
)

// Find returns the number of the row with the key, if there is one.
func (st *Collection) Find(key []byte) (row uint32, exists bool, err error) {
	if err := layout.CheckKey(key); err != nil {
		return 0, false, err
	}
	if err := st.Gen.File.VerifyPages(layout.PartKeys); err != nil {
		return 0, false, err
	}
	k := layout.KeyOf(st.Entry.ID, key)
	var v []byte
	st.Gen.Locked(func() { v = st.Gen.Tx.Bucket(layout.BucketKeys).Get(k) })
	if v == nil {
		return 0, false, nil
	}
	n, ok := layout.EntryNumber(string(layout.BucketKeys), k, v)
	if !ok || n >= uint64(st.Entry.Rows) {
		return 0, false, fail.Corruptf(st.Entry.Name, "key %q points to no row", key)
	}
	return uint32(n), true, nil
}

// FindUnexpired is Find for rows that have not expired.
func (st *Collection) FindUnexpired(key []byte) (row uint32, exists bool, err error) {
	row, exists, err = st.Find(key)
	if !exists || err != nil || st.Entry.Attribute(attribute.Expiry) == nil {
		return row, exists, err
	}
	var run *ColdRun
	cold, err := st.Cold(row, &run)
	return row, err == nil && !cold.Expired(time.Now()), err
}

// KeyPage copies the next keys with a prefix, except for those of rows in skip, which may be nil, and
// returns the key to continue with, nil at the end. Keys are copied in pages so that no cursor is held
// while the caller works.
func (g *Generation) KeyPage(
	prefix, from []byte, skip *roaring.Bitmap, page [][]byte,
) (_ [][]byte, next []byte, err error) {
	defer Guard(g.File, CatchFaults(), &err)
	if err := g.File.VerifyPages(layout.PartKeys); err != nil {
		return nil, nil, err
	}
	g.state.Lock()
	defer g.state.Unlock()
	c := g.Tx.Bucket(layout.BucketKeys).Cursor()
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if len(page) == 1024 {
			return page, slices.Clone(k), nil
		}
		if skip != nil {
			n, ok := layout.EntryNumber(string(layout.BucketKeys), k, v)
			if !ok {
				return nil, nil, fail.Corruptf("", "key %q points to no row", k[8:])
			}
			if n <= math.MaxUint32 && skip.Contains(uint32(n)) {
				continue
			}
		}
		page = append(page, slices.Clone(k[8:]))
	}
	return page, nil, nil
}

// Key returns the user key of a row, aliasing the map. The row must exist.
func (st *Collection) Key(row uint32) ([]byte, error) {
	if err := st.keysLoad.do(context.Background(), st.loadKeys); err != nil {
		return nil, err
	}
	shift := st.Entry.Shift()
	chunk := int(row >> shift)
	if chunk >= len(st.keyRaw) {
		return st.tailKeys[row-st.Entry.Sealed()], nil
	}
	tab := st.keyTabs[chunk].Load()
	if tab == nil {
		t, err := codec.NewStrings(st.keyRaw[chunk])
		if err == nil && t.Len() != 1<<shift {
			err = fmt.Errorf("%d keys, want %d", t.Len(), 1<<shift)
		}
		if err != nil {
			return nil, st.damaged(codec.KindKeys, uint32(chunk), err)
		}
		tab = &t
		st.keyTabs[chunk].Store(tab)
	}
	return tab.At(int(row & (1<<shift - 1))), nil
}

func (st *Collection) loadKeys(ctx context.Context) error {
	vals, err := st.Gen.section(ctx, st.Entry.Name, st.Entry.ID, codec.KindKeys, int(st.Entry.ChunkCount()))
	if err != nil {
		return err
	}
	st.keyRaw = make([][]byte, 0, len(vals))
	for _, v := range vals {
		st.keyRaw = append(st.keyRaw, v.payload)
	}
	st.keyTabs = make([]atomic.Pointer[codec.Strings], len(vals))
	return nil
}
