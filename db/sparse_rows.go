package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// appendSparse encodes the vector of a sparse tail row: the number of features, features,
// values.
func appendSparse(dst []byte, s vector.Sparse) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.Len()))
	dst = append(dst, codec.Bytes(s.Index)...)
	return append(dst, codec.Bytes(s.Value)...)
}

// splitSparse maps the vector at the start of a sparse tail row's payload.
func splitSparse(p []byte) (s vector.Sparse, rest []byte, err error) {
	if len(p) < 4 {
		return s, nil, errors.New("sparse row is too short")
	}
	n := int(binary.LittleEndian.Uint32(p))
	if n > MaxFeatures || len(p)-4 < 8*n {
		return s, nil, fmt.Errorf("sparse row claims %d features in %d bytes", n, len(p))
	}
	if s.Index, err = codec.View[uint32](p[4:], n); err != nil {
		return s, nil, err
	}
	if s.Value, err = codec.View[float32](p[4+4*n:], n); err != nil {
		return s, nil, err
	}
	return s, p[4+8*n:], nil
}

// encodeSparseChunk returns the payload of a chunk of sparse rows: row offsets (uint64, one
// more than rows), features, values.
func encodeSparseChunk(rows []newRow) []byte {
	ptr := make([]uint64, 1, len(rows)+1)
	var idx []uint32
	var val []float32
	for i := range rows {
		idx = append(idx, rows[i].sparse.Index...)
		val = append(val, rows[i].sparse.Value...)
		ptr = append(ptr, uint64(len(idx)))
	}
	out := slices.Clone(codec.Bytes(ptr))
	out = append(out, codec.Bytes(idx)...)
	return append(out, codec.Bytes(val)...)
}

// viewSparseChunk maps a stored chunk of n rows. If check is set, it checks every offset,
// feature and value, so that readers need not.
func viewSparseChunk(p []byte, n, dim int, check bool) (c vector.CSR, err error) {
	if c.Ptr, err = codec.View[uint64](p, n+1); err != nil {
		return c, err
	}
	p = p[8*(n+1):]
	total := c.Ptr[n]
	if total > uint64(len(p))/8 {
		return c, fmt.Errorf("%d features in %d bytes", total, len(p))
	}
	if c.Index, err = codec.View[uint32](p, int(total)); err != nil {
		return c, err
	}
	if c.Value, err = codec.View[float32](p[4*total:], int(total)); err != nil {
		return c, err
	}
	if c.Value == nil {
		c.Value = []float32{}
	}
	c.Cols = dim
	if check {
		err = c.Validate()
	}
	return c, err
}

// sparseSet holds the sparse rows of a collection: sealed chunks, then the tail.
type sparseSet struct {
	n      int
	chunks []vector.CSR
	tail   vector.CSR
	dead   *roaring.Bitmap // nil if there are none
	live   int
}

// row returns a row as it was written, in the map.
func (s *sparseSet) row(i uint32) vector.Sparse {
	c, at := &s.tail, int(i)-len(s.chunks)<<sparseShift
	if at < 0 {
		c, at = &s.chunks[i>>sparseShift], int(i&(1<<sparseShift-1))
	}
	return c.Row(at)
}

// runs returns all rows in chunks; the last chunk is the tail.
func (s *sparseSet) runs() []vector.CSR { return append(slices.Clip(s.chunks), s.tail) }

// sparse loads the rows of a sparse collection.
func (st *collState) sparse(ctx context.Context) (*sparseSet, error) {
	if !st.c.Sparse {
		return nil, fmt.Errorf("%w: %q is dense", ErrKind, st.c.Name)
	}
	return &st.sparseRows, st.rowsLoad.do(ctx, st.loadSparse)
}

func (st *collState) loadSparse(ctx context.Context) (err error) {
	defer guard(st.g.store, setFaults(), &err)
	c, g := st.c, st.g
	vals, err := g.section(ctx, c.Name, c.ID, codec.KindSparse, int(c.chunks()))
	if err != nil {
		return err
	}
	set := sparseSet{n: int(c.Rows), live: int(c.Live)}
	// Chunks never change and Dim only grows, so a valid chunk stays valid.
	checked := g.store.checked.Section(c.ID, codec.KindSparse)
	for i, v := range vals {
		chunk, err := viewSparseChunk(v.payload, 1<<sparseShift, c.Dim, !checked.Has(uint32(i)))
		if err != nil {
			return blockError(c.Name, c.ID, codec.KindSparse, uint32(i), err)
		}
		checked.Set(uint32(i))
		set.chunks = append(set.chunks, chunk)
	}
	set.tail = vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: c.Dim}
	st.tailKeys = nil
	err = st.eachTail(func(row uint32, payload []byte) error {
		x, rest, err := splitSparse(payload)
		if err != nil {
			return err
		}
		key, _, err := splitKey(rest)
		if err != nil {
			return err
		}
		set.tail.Append(x)
		st.tailKeys = append(st.tailKeys, key)
		return nil
	})
	if err != nil {
		return err
	}
	if err := set.tail.Validate(); err != nil {
		return corruptf(c.Name, "rows not sealed yet: %w", err)
	}
	if set.tail.Cols > c.Dim {
		return corruptf(c.Name, "feature %d of %d", set.tail.Cols-1, c.Dim)
	}
	dead, err := st.tombstones()
	if err != nil {
		return err
	}
	set.dead = dead
	st.sparseRows = set
	return nil
}
