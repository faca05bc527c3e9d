package db

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
)

// find returns the number of the row with the key, if there is one.
func (st *collState) find(key []byte) (row uint32, exists bool, err error) {
	if err := validKey(key); err != nil {
		return 0, false, err
	}
	if err := st.g.store.verifyPages(partKeys); err != nil {
		return 0, false, err
	}
	k := keyOf(st.c.ID, key)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucketKeys).Get(k) })
	if v == nil {
		return 0, false, nil
	}
	n, ok := entryNumber(string(bucketKeys), k, v)
	if !ok || n >= uint64(st.c.Rows) {
		return 0, false, fail.Corruptf(st.c.Name, "key %q points to no row", key)
	}
	return uint32(n), true, nil
}

// keyPage copies the next keys with a prefix and returns the key to continue with, nil at the
// end. Keys are copied in pages so that no cursor is held while the caller works.
func (g *generation) keyPage(
	prefix, from []byte, page [][]byte,
) (_ [][]byte, next []byte, err error) {
	defer guard(g.store, setFaults(), &err)
	if err := g.store.verifyPages(partKeys); err != nil {
		return nil, nil, err
	}
	g.state.Lock()
	defer g.state.Unlock()
	c := g.tx.Bucket(bucketKeys).Cursor()
	for k, _ := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if len(page) == 1024 {
			return page, slices.Clone(k), nil
		}
		page = append(page, slices.Clone(k[8:]))
	}
	return page, nil, nil
}

// Key returns the user key of a row, aliasing the map. The row must exist.
func (st *collState) Key(row uint32) ([]byte, error) {
	if err := st.keysLoad.do(context.Background(), st.loadKeys); err != nil {
		return nil, err
	}
	shift := st.c.shift()
	chunk := int(row >> shift)
	if chunk >= len(st.keyRaw) {
		return st.tailKeys[row-st.c.sealed()], nil
	}
	tab := st.keyTabs[chunk].Load()
	if tab == nil {
		t, err := codec.NewStrings(st.keyRaw[chunk])
		if err == nil && t.Len() != 1<<shift {
			err = fmt.Errorf("%d keys, want %d", t.Len(), 1<<shift)
		}
		if err != nil {
			return nil, blockError(st.c.Name, st.c.ID, codec.KindKeys, uint32(chunk), err)
		}
		tab = &t
		st.keyTabs[chunk].Store(tab)
	}
	return tab.At(int(row & (1<<shift - 1))), nil
}

func (st *collState) loadKeys(ctx context.Context) error {
	vals, err := st.g.section(ctx, st.c.Name, st.c.ID, codec.KindKeys, int(st.c.chunks()))
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
