package db

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// Limits of package db.
const (
	maxDim     = 1 << 16
	maxFeature = 1<<28 - 1
	maxNorm    = 0x1p64
)

// sparseSet holds the sparse rows of a collection: sealed chunks, then the tail.
type sparseSet struct {
	n           int
	chunks      []vector.CSR
	tail        vector.CSR
	deletedRows *roaring.Bitmap // nil if there are none
	live        int
}

// row returns a row as it was written, in the map.
func (s *sparseSet) row(i uint32) vector.Sparse {
	c, at := &s.tail, int(i)-len(s.chunks)<<rows.SparseShift
	if at < 0 {
		c, at = &s.chunks[i>>rows.SparseShift], int(i&(1<<rows.SparseShift-1))
	}
	return c.Row(at)
}

// runs returns all rows in chunks; the last chunk is the tail.
func (s *sparseSet) runs() []vector.CSR { return append(slices.Clip(s.chunks), s.tail) }

// entries returns the number of entries of the rows, including deleted ones.
func (s *sparseSet) entries() int {
	n := len(s.tail.Index)
	for i := range s.chunks {
		n += len(s.chunks[i].Index)
	}
	return n
}

// checkQuery checks a query vector.
func checkQuery(q []float32, dim int) error {
	if len(q) != dim {
		return fmt.Errorf("%w: %d coordinates, want %d", fail.Dimension, len(q), dim)
	}
	// A finite sum of squares has finite terms, so one pass usually is enough.
	if n := vector.Dot(q, q); n <= math.MaxFloat32 {
		return nil
	}
	if i := vector.IsFinite(q); i >= 0 {
		return fmt.Errorf("%w: coordinate %d is %g", fail.NotFinite, i, q[i])
	}
	return fmt.Errorf("%w: length %.3g, want less than %.3g", fail.Norm, math.Sqrt(squaredNorm(q)), maxNorm)
}

// unitSparse sets dst to s scaled to unit length, reusing its memory. Values that become zero
// are left out; a vector without a value above zero becomes empty. Searches with and without an
// index use the same bits.
func unitSparse(dst *vector.Sparse, s vector.Sparse) {
	dst.Index, dst.Value = dst.Index[:0], dst.Value[:0]
	norm := s.Norm()
	if norm == 0 {
		return
	}
	for i, f := range s.Index {
		if v := float32(float64(s.Value[i]) / norm); v > 0 {
			dst.Index = append(dst.Index, f)
			dst.Value = append(dst.Value, v)
		}
	}
}

// within returns the members of a set in [first, first+n), minus first; nil if there are none.
func within(set *roaring.Bitmap, first, n int) *roaring.Bitmap {
	if set == nil {
		return nil
	}
	out := set
	if first > 0 || !set.IsEmpty() && int(set.Maximum()) >= n {
		out = roaring.New()
		out.AddRange(uint64(first), uint64(first)+uint64(n))
		out.And(set)
		out = roaring.AddOffset64(out, -int64(first))
	}
	if out.IsEmpty() {
		return nil
	}
	return out
}

// bitsOf returns a set of rows below n as one bit per row, nil for a nil set.
func bitsOf(set *roaring.Bitmap, n int) []uint64 {
	if set == nil {
		return nil
	}
	bits := make([]uint64, (n+63)/64)
	for it := set.Iterator(); it.HasNext(); {
		row := it.Next()
		bits[row>>6] |= 1 << (row & 63)
	}
	return bits
}

// listed returns a dense vector as a sparse one.
func listed(x []float32) (s vector.Sparse) {
	for i, v := range x {
		if v != 0 {
			s.Index = append(s.Index, uint32(i))
			s.Value = append(s.Value, v)
		}
	}
	return s
}

func squaredNorm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// matrix copies rows [lo, hi) out of the map, scaled to unit length, and returns their
// original lengths. Deleted rows are empty, so that row numbers are kept and no query
// finds them.
func (s *sparseSet) matrix(
	ctx context.Context, lo, hi, dim int, report func(done, total int),
) (*vector.CSR, []float64, error) {
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: dim}
	lengths := make([]float64, hi-lo)
	var unit vector.Sparse
	for i := lo; i < hi; i++ {
		if (i-lo)%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, nil, fail.Wrapf(err, "build")
			}
			report(i-lo, hi-lo)
		}
		unit.Index, unit.Value = unit.Index[:0], unit.Value[:0]
		if row := uint32(i); s.deletedRows == nil || !s.deletedRows.Contains(row) {
			x := s.row(row)
			lengths[i-lo] = x.Norm()
			unitSparse(&unit, x)
		}
		m.Append(unit)
	}
	return m, lengths, nil
}
