package kind

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// The limits of rows, with the names that they have in package db.
const (
	MaxDim     = 1 << 16
	MaxFeature = 1<<28 - 1
	MaxNorm    = 0x1p64

	// MinNorm is the minimum length of a row, MinCosineNorm that of a row under vector.Cosine.
	MinNorm       = 0x1p-62
	MinCosineNorm = 0x1p-126
)

// SparseSet holds the sparse rows of a collection: sealed chunks, then the tail.
type SparseSet struct {
	N           int
	Shift       uint // log2 of the number of rows of a chunk
	Chunks      []vector.CSR
	Tail        vector.CSR
	DeletedRows *roaring.Bitmap // nil if there are none
	Live        int
}

// Row returns a row as it was written, in the map.
func (s *SparseSet) Row(i uint32) vector.Sparse {
	c, at := &s.Tail, int(i)-len(s.Chunks)<<s.Shift
	if at < 0 {
		c, at = &s.Chunks[i>>s.Shift], int(i&(1<<s.Shift-1))
	}
	return c.Row(at)
}

// IsDeleted reports whether a row is deleted.
func (s *SparseSet) IsDeleted(row uint32) bool {
	return s.DeletedRows != nil && s.DeletedRows.Contains(row)
}

// scanWork is the number of features read between two checks of the context. A row counts as 16 features.
const scanWork = 1 << 12

// EachLive calls f for the live rows from the given one on. Errors: the context's.
func (s *SparseSet) EachLive(ctx context.Context, from int, f func(row uint32, x vector.Sparse)) error {
	work := 0 // since the last check of the context
	for i := from; i < s.N; i++ {
		if work >= scanWork {
			if err := ctx.Err(); err != nil {
				return err
			}
			work = 0
		}
		row := uint32(i)
		if s.IsDeleted(row) {
			work++
			continue
		}
		x := s.Row(row)
		work += x.Len() + 16
		f(row, x)
	}
	return nil
}

// Runs returns all rows in chunks; the last chunk is the tail.
func (s *SparseSet) Runs() []vector.CSR { return append(slices.Clip(s.Chunks), s.Tail) }

// Entries returns the number of entries of the rows, including deleted ones.
func (s *SparseSet) Entries() int {
	n := len(s.Tail.Index)
	for i := range s.Chunks {
		n += len(s.Chunks[i].Index)
	}
	return n
}

// Rows are all rows of a collection.
type Rows struct {
	View    *query.View     // of a dense collection, nil otherwise
	Set     *SparseSet      // of a sparse one, nil otherwise
	Deleted *roaring.Bitmap // nil if there are none
}

// ReadRows returns the rows of a collection.
func ReadRows(ctx context.Context, st Source) (r Rows, err error) {
	if st.Collection().Sparse {
		if r.Set, err = st.Sparse(ctx); err == nil {
			r.Deleted = r.Set.DeletedRows
		}
		return r, err
	}
	if r.View, err = st.Rows(ctx); err == nil {
		r.Deleted = r.View.Deleted
	}
	return r, err
}

// Row returns the features of a row, those of a sparse one in the map.
func (r *Rows) Row(row uint32) vector.Sparse {
	if r.Set != nil {
		return r.Set.Row(row)
	}
	return Listed(r.View.Rows.Vector(int(row), make([]float32, r.View.Dim)))
}

// IsDeleted reports whether a row is deleted.
func (r *Rows) IsDeleted(row uint32) bool { return r.Deleted != nil && r.Deleted.Contains(row) }

// CheckQuery checks a query vector.
func CheckQuery(q []float32, dim int) error {
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
	return fmt.Errorf("%w: length %.3g, want less than %.3g", fail.Norm, math.Sqrt(SquaredNorm(q)), MaxNorm)
}

// UnitSparse sets dst to s scaled to unit length, reusing its memory. Values that become zero
// are left out; a vector without a value above zero becomes empty. Searches with and without an
// index use the same bits.
func UnitSparse(dst *vector.Sparse, s vector.Sparse) {
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

// Within returns the members of a set in [first, first+n), minus first; nil if there are none.
func Within(set *roaring.Bitmap, first, n int) *roaring.Bitmap {
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

// BitsOf returns a set of rows below n as one bit per row, nil for a nil set.
func BitsOf(set *roaring.Bitmap, n int) []uint64 {
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

// Listed returns a dense vector as a sparse one.
func Listed(x []float32) (s vector.Sparse) {
	for i, v := range x {
		if v != 0 {
			s.Index = append(s.Index, uint32(i))
			s.Value = append(s.Value, v)
		}
	}
	return s
}

// SquaredNorm returns the squared length of x.
func SquaredNorm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// Matrix copies rows [lo, hi) out of the map, scaled to unit length, and returns their
// original lengths. Deleted rows are empty, so that row numbers are kept and no query
// finds them.
func (s *SparseSet) Matrix(
	ctx context.Context, lo, hi, dim int, report func(done, total int),
) (*vector.CSR, []float64, error) {
	lengths := make([]float64, hi-lo)
	m, err := s.matrix(ctx, lo, hi, dim, report, func(dst *vector.Sparse, i int, x vector.Sparse) {
		lengths[i] = x.Norm()
		UnitSparse(dst, x)
	})
	return m, lengths, err
}

// Saturated copies rows [lo, hi) of counts out of the map, as the values that BM25 gives them with the
// mean length of these rows, which it sets, and returns their lengths. Deleted rows are empty.
func (s *SparseSet) Saturated(
	ctx context.Context, lo, hi, dim int, p *postings.BM25, report func(done, total int),
) (*vector.CSR, []float64, error) {
	lengths := make([]float64, hi-lo)
	var of Corpus
	for i := range lengths {
		if row := uint32(lo + i); !s.IsDeleted(row) {
			lengths[i] = Length(s.Row(row))
			of.Add(lengths[i])
		}
	}
	p.Mean = of.Mean()
	m, err := s.matrix(ctx, lo, hi, dim, report, func(dst *vector.Sparse, i int, x vector.Sparse) {
		for e, f := range x.Index {
			dst.Index = append(dst.Index, f)
			dst.Value = append(dst.Value, float32(p.Value(x.Value[e], lengths[i])))
		}
	})
	return m, lengths, err
}

// Length returns the number of terms of a row of counts.
func Length(x vector.Sparse) (n float64) {
	for _, v := range x.Value {
		n += float64(v)
	}
	return n
}

// Corpus counts the rows that have terms, and their lengths.
type Corpus struct {
	Rows   int
	Length float64
}

// Add counts a row of a length.
func (c *Corpus) Add(length float64) {
	if length > 0 {
		c.Rows++
		c.Length += length
	}
}

// Mean returns the mean length, 1 if there are no rows.
func (c *Corpus) Mean() float64 {
	if c.Rows == 0 {
		return 1
	}
	return c.Length / float64(c.Rows)
}

// matrix copies what edit makes of the rows [lo, hi) that are not deleted; the others are empty.
func (s *SparseSet) matrix(ctx context.Context, lo, hi, dim int, report func(done, total int),
	edit func(dst *vector.Sparse, i int, x vector.Sparse)) (*vector.CSR, error) {
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: dim}
	var row vector.Sparse
	for i := lo; i < hi; i++ {
		if (i-lo)%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fail.Wrapf(err, "build")
			}
			report(i-lo, hi-lo)
		}
		row.Index, row.Value = row.Index[:0], row.Value[:0]
		if !s.IsDeleted(uint32(i)) {
			edit(&row, i-lo, s.Row(uint32(i)))
		}
		m.Append(row)
	}
	return m, nil
}

// DeletedWithin returns the number of rows in [first, first+n) that are in DeletedRows.
func DeletedWithin(deletedRows *roaring.Bitmap, first, n int) int {
	if b := Within(deletedRows, first, n); b != nil {
		return int(b.GetCardinality())
	}
	return 0
}
