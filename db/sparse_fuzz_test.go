package db

import (
	"bytes"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// FuzzSparseTail reads any bytes as the vector of a sparse tail row: what is
// accepted must be written back as the same bytes.
func FuzzSparseTail(f *testing.F) {
	f.Add(appendSparse(nil, vector.Sparse{}))
	f.Add(appendSparse(nil, vector.Sparse{Index: []uint32{1, 9}, Value: []float32{0.6, 0.8}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		s, rest, err := splitSparse(p)
		if err != nil {
			return
		}
		if again := append(appendSparse(nil, s), rest...); !bytes.Equal(again, p) {
			t.Fatalf("%x comes back as %x", p, again)
		}
	})
}

// FuzzSparseChunk reads any bytes as a chunk of sparse rows: every row of an
// accepted one can be read, and features ascend below the dimension.
func FuzzSparseChunk(f *testing.F) {
	rows := []newRow{
		{sparse: vector.Sparse{Index: []uint32{1, 9}, Value: []float32{0.6, 0.8}}},
		{}, {sparse: vector.Sparse{Index: []uint32{3}, Value: []float32{1}}},
	}
	f.Add(encodeSparseChunk(rows), uint8(3), uint16(10))
	f.Add(encodeSparseChunk(rows), uint8(2), uint16(10))
	f.Add(encodeSparseChunk(nil), uint8(0), uint16(0))
	f.Fuzz(func(t *testing.T, p []byte, n uint8, dim uint16) {
		c, err := viewSparseChunk(p, int(n), int(dim), true)
		if err != nil {
			return
		}
		set := sparseSet{n: int(n), tail: c}
		for i := range uint32(n) {
			x := set.row(i)
			if err := x.Validate(); err != nil {
				t.Fatal(err)
			}
			if !slices.IsSorted(x.Index) || x.Len() > 0 && int(x.Index[x.Len()-1]) >= int(dim) {
				t.Fatalf("row %d has features %v of %d", i, x.Index, dim)
			}
		}
	})
}
