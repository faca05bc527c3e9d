package labels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Errors of label matrices and of what is computed from them.
var (
	// ErrMatrix is returned for label lists that are not sets: unsorted, with repetitions, or
	// with a label beyond the number of labels.
	ErrMatrix = errors.New("labels: bad label matrix")
	// ErrShape is returned for matrices of incompatible shapes: different numbers of rows or of
	// labels.
	ErrShape = errors.New("labels: shapes differ")
)

// Matrix is the label matrix Y of LCIF (definition 1): N rows, each with a set of the L labels,
// stored by row and by label. It is immutable and safe for concurrent use.
type Matrix struct {
	rows vector.CSR  // N × L, without values
	cols *vector.CSR // L × N
}

// NewMatrix returns the matrix of the given rows, whose Value must be nil. It keeps the slices.
// Cols is the number of labels L; labels without rows count, too, for instance in Hamming loss
// and macro averages. O(N + L + entries).
//
// Errors: ErrMatrix.
func NewMatrix(rows vector.CSR) (*Matrix, error) {
	if rows.Value != nil {
		return nil, fmt.Errorf("%w: labels with values", ErrMatrix)
	}
	if rows.Ptr == nil {
		rows.Ptr = []uint64{0}
	}
	if err := rows.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMatrix, err)
	}
	return &Matrix{rows: rows, cols: rows.Transpose()}, nil
}

// FromSets returns the matrix of lists of label numbers in any order; repetitions are ignored.
// n is the number of labels. O(entries · log).
//
// Errors: ErrMatrix.
func FromSets(sets [][]uint32, n int) (*Matrix, error) {
	m := vector.CSR{Ptr: make([]uint64, 1, len(sets)+1), Cols: n}
	for _, set := range sets {
		m.Index = appendSet(m.Index, set)
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	}
	return NewMatrix(m)
}

// appendSet appends the distinct labels in ascending order.
func appendSet(dst, labels []uint32) []uint32 {
	at := len(dst)
	dst = append(dst, labels...)
	slices.Sort(dst[at:])
	return dst[:at+len(slices.Compact(dst[at:]))]
}

// Rows returns N, the number of rows.
func (m *Matrix) Rows() int { return m.rows.Rows() }

// Labels returns L, the number of labels.
func (m *Matrix) Labels() int { return m.rows.Cols }

// Row returns the label set of row i, ascending. The caller must not change it.
func (m *Matrix) Row(i int) []uint32 { return m.rows.Row(i).Index }

// Column returns the rows with label j, ascending (definition 3). The caller must not change
// it.
func (m *Matrix) Column(j int) []uint32 { return m.cols.Row(j).Index }

// LabelRows returns the number of rows with each label.
func LabelRows[T int | uint32](m *Matrix) []T {
	rows := make([]T, m.Labels())
	for j := range rows {
		rows[j] = T(len(m.Column(j)))
	}
	return rows
}

// Entries returns the number of ones.
func (m *Matrix) Entries() int { return len(m.rows.Index) }

// CSR returns the matrix by rows. The caller must not change its slices.
func (m *Matrix) CSR() vector.CSR { return m.rows }

// Cardinality returns the mean number of labels per row, lcard of definition 2; 0 without rows.
func (m *Matrix) Cardinality() float64 {
	if m.Rows() == 0 {
		return 0
	}
	return float64(m.Entries()) / float64(m.Rows())
}

// Density returns the share of the rows that have label j, ldens of definition 4: the label's
// prior. 0 without rows.
func (m *Matrix) Density(j int) float64 {
	if m.Rows() == 0 {
		return 0
	}
	return float64(len(m.Column(j))) / float64(m.Rows())
}

// Select returns the matrix of the given rows in the given order, with the same L labels.
// O(entries of the rows + L). It panics for a row beyond the matrix, as an index does.
func (m *Matrix) Select(rows []int) *Matrix {
	s := SelectRows(&m.rows, rows)
	return &Matrix{rows: *s, cols: s.Transpose()}
}

// Powersets are the distinct label sets of a matrix: the classes of the label powerset view,
// which trees over complete sets predict.
type Powersets struct {
	Sets  [][]uint32 // the sets, most frequent first; ties by their labels
	Count []int      // number of rows with each set
	Of    []uint32   // the set of each row
}

// PowersetsOf groups the given rows by equal label sets, of which the empty set is one. O(N log N)
// comparisons of sets. It panics for a row beyond the matrix, as an index does.
func (m *Matrix) PowersetsOf(rows []int32) *Powersets {
	order := make([]uint32, len(rows))
	for i := range order {
		order[i] = uint32(i)
	}
	set := func(i uint32) []uint32 { return m.Row(int(rows[i])) }
	byLabels := func(a, b uint32) int { return slices.Compare(set(a), set(b)) }
	slices.SortFunc(order, byLabels)
	// Runs of equal sets: their starts in order, by falling length.
	type run struct{ at, n int }
	var runs []run
	for i, row := range order {
		if i == 0 || byLabels(order[i-1], row) != 0 {
			runs = append(runs, run{at: i})
		}
		runs[len(runs)-1].n++
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(b.n, a.n) })
	p := &Powersets{Of: make([]uint32, len(rows))}
	for number, r := range runs {
		for _, row := range order[r.at : r.at+r.n] {
			p.Of[row] = uint32(number)
		}
		p.Sets = append(p.Sets, set(order[r.at]))
		p.Count = append(p.Count, r.n)
	}
	return p
}

// Builder builds a matrix from label names and numbers them in order of appearance.
type Builder struct {
	names  []string
	number map[string]uint32
	rows   vector.CSR
	row    []uint32
}

// NewBuilder starts with the given names, so that a test part gets the numbers of its training
// part, or so that labels without rows are counted. Errors: ErrMatrix for a repeated name.
func NewBuilder(names []string) (*Builder, error) {
	b := &Builder{number: make(map[string]uint32, len(names)), rows: vector.CSR{Ptr: []uint64{0}}}
	for _, name := range names {
		if _, ok := b.number[name]; ok {
			return nil, fmt.Errorf("%w: label %.40q is given twice", ErrMatrix, name)
		}
		b.Number(name)
	}
	return b, nil
}

// Number returns the number of a label; a new name gets the next number.
func (b *Builder) Number(name string) uint32 {
	n, ok := b.number[name]
	if !ok {
		n = uint32(len(b.names))
		b.number[name] = n
		b.names = append(b.names, name)
	}
	return n
}

// Add appends a row. A repeated name counts once.
func (b *Builder) Add(names []string) {
	b.row = b.row[:0]
	for _, name := range names {
		b.row = append(b.row, b.Number(name))
	}
	b.rows.Index = appendSet(b.rows.Index, b.row)
	b.rows.Ptr = append(b.rows.Ptr, uint64(len(b.rows.Index)))
}

// Names returns the names that have appeared, by label number.
func (b *Builder) Names() []string { return slices.Clip(b.names) }

// Matrix returns the matrix of the rows added so far. Rows added later do not change it.
func (b *Builder) Matrix() *Matrix {
	rows := vector.CSR{Ptr: slices.Clone(b.rows.Ptr), Index: slices.Clone(b.rows.Index),
		Cols: len(b.names)}
	return &Matrix{rows: rows, cols: rows.Transpose()}
}
