package db

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/postings"
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

// FuzzPostings overwrites part of a block of an inverted index with a partition and
// gives it the checksum it then should have: by every strategy hits are rows at
// their true distances, or the search reports damage. The lengths of rows stay:
// distances are made of them.
func FuzzPostings(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "seed.anndb")
	if err := rowlessGolden(seed); err != nil {
		f.Fatal(err)
	}
	pristine, err := os.ReadFile(seed)
	if err != nil {
		f.Fatal(err)
	}
	var blocks []storedBlock
	for _, b := range storedBlocks(f, seed) {
		if _, kind, n := codec.ParseKey(b.key); kind == codec.KindPostings && n != arrayNorm {
			blocks = append(blocks, b)
		}
	}
	for i := range blocks {
		f.Add(uint16(i), uint32(0), []byte{0xff, 0xff, 0xff, 0xff})
		f.Add(uint16(i), uint32(9), []byte{1})
		f.Add(uint16(i), uint32(len(blocks[i].payload)/2), []byte{0, 0, 0xc0, 0x7f})
	}
	q := rowlessRow("counts", 3).Sparse
	fuzzBlocks(f, pristine, blocks, func(t *testing.T, s *Snapshot) {
		for _, strategy := range []postings.Strategy{postings.Partitioned, postings.Compact, postings.Union} {
			hits, _, err := nearest(t.Context(), s.Collection("counts"), Query{Sparse: q}, 9, &SearchOptions{Index: "rows", Strategy: strategy})
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%v: untyped error %v", strategy, err)
				}
				continue
			}
			for _, h := range hits {
				r, err := s.Collection("counts").GetRow(h.Row)
				if err != nil {
					t.Fatalf("%v: a hit that is no row: %v", strategy, err)
				}
				want := 1 - vector.DotSparse(q, r.Sparse)/q.Norm()/r.Sparse.Norm()
				if math.Abs(float64(h.Distance)-want) > 1e-5 {
					t.Fatalf("%v: distance %g of row %d, want %g", strategy, h.Distance, h.Row, want)
				}
			}
		}
	})
}
