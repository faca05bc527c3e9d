package rows

import (
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// ColdRun is the largest number of bytes of encoded Colds in one compressed block; a
// block of a single row may be larger.
const ColdRun = 64 << 10

// Put receives a block to be written.
type Put func(key [codec.KeySize]byte, value []byte) error

// EncodeChunk writes the blocks of a chunk: vectors, keys, runs of Colds and, for
// Norms, inverse norms.
func (f Format) EncodeChunk(chunk uint32, all []Row, put Put) error {
	if f.Dim > 0 {
		elem, data := f.encodeVectors(all)
		h := codec.Header{Kind: codec.KindRows, Elem: elem, Rows: uint64(len(all)), Cols: uint32(f.Dim)}
		key := codec.Key(f.ID, codec.KindRows, chunk)
		if err := put(key, codec.Encode(key[:], h, data)); err != nil {
			return err
		}
	}
	if f.Sparse {
		h := codec.Header{Kind: codec.KindSparse, Elem: codec.BytesElem, Rows: uint64(len(all)),
			Cols: uint32(f.Features)}
		key := codec.Key(f.ID, codec.KindSparse, chunk)
		if err := put(key, codec.Encode(key[:], h, encodeSparse(all))); err != nil {
			return err
		}
	}
	keys := make([][]byte, len(all))
	for i := range all {
		keys[i] = all[i].Key
	}
	key := codec.Key(f.ID, codec.KindKeys, chunk)
	h := codec.Header{Kind: codec.KindKeys, Rows: uint64(len(all)), Cols: 1}
	if err := put(key, codec.Encode(key[:], h, codec.AppendStrings(nil, keys))); err != nil {
		return err
	}
	if f.Norms && f.Dim > 0 {
		inv := make([]float32, len(all))
		for i := range all {
			inv[i] = vector.InverseNorm(all[i].Vector) // 0 without a vector
		}
		key = codec.Key(f.ID, codec.KindNorms, chunk)
		h = codec.Header{Kind: codec.KindNorms, Elem: codec.F32, Rows: uint64(len(all)), Cols: 1}
		if err := put(key, codec.Encode(key[:], h, codec.Bytes(inv))); err != nil {
			return err
		}
	}
	return f.encodeCold(chunk<<f.Shift(), all, put)
}

// encodeVectors returns the vectors of dense rows in sequence, as bytes if Format.Bytes allows
// it and that is lossless.
func (f Format) encodeVectors(all []Row) (codec.Elem, []byte) {
	if f.Bytes {
		data := make([]byte, len(all)*f.Dim)
		whole := true
		for i := 0; i < len(all) && whole; i++ {
			whole = wholeBytes(data[i*f.Dim:][:f.Dim], all[i].Vector) // zeros without a vector
		}
		if whole {
			return codec.U8, data
		}
	}
	data := make([]byte, 0, 4*len(all)*f.Dim)
	for i := range all {
		data = append(data, codec.Bytes(all[i].Vector)...)
		if all[i].Vector == nil {
			data = append(data, make([]byte, 4*f.Dim)...)
		}
	}
	return codec.F32, data
}

// wholeBytes puts the coordinates into dst and reports whether every one is an integer from 0 to
// 255, so that bytes store it without loss. Minus zero is not, since its sign would be lost.
func wholeBytes(dst []byte, x []float32) bool {
	lost := uint32(0)
	for i, v := range x {
		dst[i] = uint8(v)
		lost |= math.Float32bits(float32(dst[i])) ^ math.Float32bits(v)
	}
	return lost == 0
}

// encodeCold writes Colds as runs of rows; a run's block number is its first row.
func (f Format) encodeCold(first uint32, all []Row, put Put) error {
	for lo := 0; lo < len(all); {
		var blobs [][]byte
		size := 0
		for i := lo; i < len(all) && (size < ColdRun || i == lo); i++ {
			b := AppendCold(nil, &all[i].Cold)
			if size += len(b); size > ColdRun && i > lo {
				break
			}
			blobs = append(blobs, b)
		}
		key := codec.Key(f.ID, codec.KindCold, first+uint32(lo))
		h := codec.Header{Kind: codec.KindCold, Rows: uint64(len(blobs)), Cols: 1}
		value, err := codec.EncodeCompressed(key[:], h, codec.AppendLengths(nil, blobs))
		if err != nil {
			return fmt.Errorf("labels, attributes and payload of row %d: %w", first+uint32(lo), err)
		}
		if err := put(key, value); err != nil {
			return err
		}
		lo += len(blobs)
	}
	return nil
}

// encodeSparse returns the payload of a chunk of sparse rows: row offsets (uint64, one more than
// rows), features, values.
func encodeSparse(all []Row) []byte {
	ptr := make([]uint64, 1, len(all)+1)
	var idx []uint32
	var val []float32
	for i := range all {
		idx = append(idx, all[i].Sparse.Index...)
		val = append(val, all[i].Sparse.Value...)
		ptr = append(ptr, uint64(len(idx)))
	}
	out := slices.Clone(codec.Bytes(ptr))
	out = append(out, codec.Bytes(idx)...)
	return append(out, codec.Bytes(val)...)
}

// ViewSparse maps the payload of a chunk of n sparse rows. If check is set, it checks every
// offset, feature and value, so that readers need not.
func ViewSparse(p []byte, n, dim int, check bool) (c vector.CSR, err error) {
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
