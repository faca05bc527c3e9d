package vector

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrSparse is returned for an inconsistent sparse vector or matrix.
var ErrSparse = errors.New("vector: bad sparse vector")

// Feature is a named feature and its value.
type Feature struct {
	Name  string
	Value float32
}

// Sparse is a sparse vector: feature numbers, strictly ascending, and their
// values. A feature that is not listed has the value zero.
type Sparse struct {
	Index []uint32
	Value []float32
}

// Len returns the number of listed features.
func (s Sparse) Len() int { return len(s.Index) }

// Validate checks that there are as many values as features, that features
// ascend strictly, and that values are finite. O(Len). Errors: ErrSparse, which names
// the first bad feature.
func (s Sparse) Validate() error {
	if len(s.Index) != len(s.Value) {
		return fmt.Errorf("%w: %d features with %d values", ErrSparse, len(s.Index), len(s.Value))
	}
	if ascend(s.Index) && allFinite(s.Value) {
		return nil
	}
	for i, f := range s.Index {
		if i > 0 && f <= s.Index[i-1] {
			return fmt.Errorf("%w: feature %d follows %d", ErrSparse, f, s.Index[i-1])
		}
		if v := float64(s.Value[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: feature %d has the value %g", ErrSparse, f, v)
		}
	}
	return nil
}

// ascend reports whether features ascend strictly. It does not stop early, since that
// would cost a branch for each feature.
func ascend(index []uint32) bool {
	if len(index) < 2 {
		return true
	}
	var bad int64
	rest := index[1:]
	before := index[:len(rest)]
	for i, f := range rest {
		bad |= int64(f) - int64(before[i]) - 1 // negative if f does not exceed the one before
	}
	return bad >= 0
}

// At returns the value of a feature.
func (s Sparse) At(feature uint32) float32 {
	if i, ok := slices.BinarySearch(s.Index, feature); ok {
		return s.Value[i]
	}
	return 0
}

// Norm returns the Euclidean length, summed in float64. O(Len).
func (s Sparse) Norm() float64 {
	var sum float64
	for _, v := range s.Value {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// DotSparse returns the dot product of two sparse vectors. It sums in float64 in the
// order of the features, so every caller gets the same bits. O(a.Len + b.Len).
func DotSparse(a, b Sparse) float64 {
	var sum float64
	for i, j := 0, 0; i < len(a.Index) && j < len(b.Index); {
		switch fa, fb := a.Index[i], b.Index[j]; {
		case fa < fb:
			i++
		case fa > fb:
			j++
		default:
			sum += float64(a.Value[i]) * float64(b.Value[j])
			i++
			j++
		}
	}
	return sum
}

// CSR is a sparse matrix by rows: row i lists the columns Index[Ptr[i]:Ptr[i+1]],
// strictly ascending, with their values. If Value is nil, every listed entry is one.
// The slices may be views over mapped memory.
type CSR struct {
	Ptr   []uint64 // rows + 1 offsets, the first zero
	Index []uint32
	Value []float32
	Cols  int
}

// Rows returns the number of rows.
func (m *CSR) Rows() int { return max(0, len(m.Ptr)-1) }

// Row returns row i, which aliases the matrix. Its Value is nil if the matrix's is.
func (m *CSR) Row(i int) Sparse {
	lo, hi := m.Ptr[i], m.Ptr[i+1]
	s := Sparse{Index: m.Index[lo:hi:hi]}
	if m.Value != nil {
		s.Value = m.Value[lo:hi:hi]
	}
	return s
}

// Append adds a row after the last one and increases Cols if necessary.
func (m *CSR) Append(s Sparse) {
	if len(m.Ptr) == 0 {
		m.Ptr = append(m.Ptr, 0)
	}
	m.Index = append(m.Index, s.Index...)
	m.Value = append(m.Value, s.Value...)
	m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	if n := len(s.Index); n > 0 {
		m.Cols = max(m.Cols, int(s.Index[n-1])+1)
	}
}

// Kept returns the matrix of the entries that keep accepts, by row and value. O(entries).
func (m *CSR) Kept(keep func(row int, value float32) bool) *CSR {
	out := &CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m.Cols}
	for i := range m.Rows() {
		x := m.Row(i)
		for e, v := range x.Value {
			if keep(i, v) {
				out.Index, out.Value = append(out.Index, x.Index[e]), append(out.Value, v)
			}
		}
		out.Ptr = append(out.Ptr, uint64(len(out.Index)))
	}
	return out
}

// Validate checks offsets, columns and values. O(entries). Errors: ErrSparse.
func (m *CSR) Validate() error {
	if len(m.Ptr) == 0 || m.Ptr[0] != 0 || m.Ptr[len(m.Ptr)-1] != uint64(len(m.Index)) {
		return fmt.Errorf("%w: offsets do not span the entries", ErrSparse)
	}
	if m.Value != nil && len(m.Value) != len(m.Index) {
		return fmt.Errorf("%w: %d entries with %d values", ErrSparse, len(m.Index), len(m.Value))
	}
	if m.valid() {
		return nil
	}
	return m.firstError()
}

// valid reports whether all rows are valid. It makes no call per row, since there may
// be more rows than entries. Rows ascend if the column number only falls or repeats
// at the start of a row.
func (m *CSR) valid() bool {
	if !allFinite(m.Value) {
		return false
	}
	descents := descentsOf(m.Index)
	last, n := uint64(0), uint64(len(m.Index))
	for _, end := range m.Ptr[1:] {
		if end < last || end > n {
			return false
		}
		if end > last {
			if int(m.Index[end-1]) >= m.Cols {
				return false
			}
			if last > 0 && m.Index[last] <= m.Index[last-1] {
				descents--
			}
		}
		last = end
	}
	return descents == 0
}

// descentsOf counts the features that do not exceed the one before.
func descentsOf(index []uint32) int {
	if len(index) < 2 {
		return 0
	}
	n := uint64(0)
	rest := index[1:]
	before := index[:len(rest)]
	for i, f := range rest {
		n += uint64(int64(f)-int64(before[i])-1) >> 63
	}
	return int(n)
}

// firstError returns the error of the first invalid row, or nil if all are valid.
func (m *CSR) firstError() error {
	for i := range m.Rows() {
		if m.Ptr[i] > m.Ptr[i+1] || m.Ptr[i+1] > uint64(len(m.Index)) {
			return fmt.Errorf("%w: row %d has offsets %d to %d", ErrSparse, i, m.Ptr[i], m.Ptr[i+1])
		}
		r := m.Row(i)
		if r.Value == nil {
			r.Value = make([]float32, len(r.Index))
		}
		if err := r.Validate(); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if n := len(r.Index); n > 0 && int(r.Index[n-1]) >= m.Cols {
			return fmt.Errorf("%w: row %d has column %d of %d", ErrSparse, i, r.Index[n-1], m.Cols)
		}
	}
	return nil
}

// Transpose returns the transposed matrix: row j of the result lists the rows of m
// that have an entry in column j. O(entries + columns).
func (m *CSR) Transpose() *CSR {
	t := &CSR{Ptr: make([]uint64, m.Cols+1), Index: make([]uint32, len(m.Index)), Cols: m.Rows()}
	if m.Value != nil {
		t.Value = make([]float32, len(m.Index))
	}
	for _, c := range m.Index {
		t.Ptr[c+1]++
	}
	for c := range m.Cols {
		t.Ptr[c+1] += t.Ptr[c]
	}
	next := append([]uint64(nil), t.Ptr[:m.Cols]...)
	for i := range m.Rows() {
		for e := m.Ptr[i]; e < m.Ptr[i+1]; e++ {
			at := next[m.Index[e]]
			next[m.Index[e]]++
			t.Index[at] = uint32(i)
			if m.Value != nil {
				t.Value[at] = m.Value[e]
			}
		}
	}
	return t
}
