// Package postingsindex is the kind of index that finds the exact nearest rows of a sparse
// collection: an inverted index in segments (package postings).
package postingsindex

import (
	"context"
	"fmt"
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// Name is the kind of inverted indexes over sparse collections.
const Name = "postings"

// Learned is an inverted index that has been built but not yet stored.
type Learned struct {
	Dead  int // number of rows that were deleted
	Index *postings.Index
	// Lengths has the length of each row before it was scaled to unit length, over the features
	// that the index keeps.
	Lengths []float64
}

// Scalars holds the scalars of a stored inverted index: the detail of a segment.
type Scalars struct {
	kind.PlainDetail `json:"-"`

	Cols int
	// Few is set if only some of the features have lists.
	Few bool `json:",omitempty"`
	// Highest is the highest value of all rows, Norm the length of the longest row.
	Highest, Norm float64
	// Compact is "weighted", "uniform" or empty; the fields below belong to it.
	Compact        string    `json:",omitempty"`
	Stride         int       `json:",omitempty"`
	Unit, Residual float64   `json:",omitempty"`
	Bands          []float64 `json:",omitempty"`
}

// FeatureCount returns one more than the largest feature number.
func (m *Scalars) FeatureCount() int { return m.Cols }

// Check refuses scalars that no build has written.
func (m *Scalars) Check(*kind.Manifest, *kind.Segment) error {
	switch {
	case m.Compact != "weighted" && m.Compact != "uniform":
		return fmt.Errorf("compact structure %q", m.Compact)
	case m.Cols < 0 || m.Cols > kind.MaxFeature+1:
		return fmt.Errorf("%d features", m.Cols)
	case m.Stride < 0:
		return fmt.Errorf("stride %d", m.Stride)
	}
	for _, x := range append([]float64{m.Highest, m.Norm, m.Unit, m.Residual}, m.Bands...) {
		if !(x >= 0) || math.IsInf(x, 1) {
			return fmt.Errorf("bound %g of values", x)
		}
	}
	return nil
}

// Kind implements inverted indexes over a sparse collection.
type Kind struct{}

func (Kind) Suits(sparse bool) bool { return sparse }
func (Kind) Predicts() bool         { return false }
func (Kind) Composes() bool         { return true }
func (Kind) Detail() kind.Detail    { return &Scalars{} }

func (Kind) Options() index.Options { return &index.Postings{} }

// Build indexes rows.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	l := &Learned{}
	var rows *vector.CSR
	err := job.Latest(func(st kind.Source) error {
		set, err := st.Sparse(ctx)
		if err != nil {
			return err
		}
		n := job.End - job.First
		if l.Dead = kind.DeletedWithin(set.DeletedRows, job.First, n); l.Dead == n {
			return fmt.Errorf("%w: %q", fail.Empty, job.Coll)
		}
		return job.Timer.Run("read", func(report func(int, int)) error {
			rows, l.Lengths, err = set.Matrix(ctx, job.First, job.End, st.Collection().Dim, report)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	err = job.Timer.Run("postings", func(report func(int, int)) (err error) {
		l.Index, err = postings.Build(ctx, rows, postings.Params{}, report)
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(err, "postings")
	}
	return l, nil
}

// Describe sets the options.
func (l *Learned) Describe(m *kind.Manifest) {
	m.Options = &index.Postings{}
}

// The numbers of an inverted index's arrays (codec/FORMAT.md). They are part of the format.
const (
	arrayListPtr uint32 = iota
	arrayListKey
	arrayListStart
	arrayListLow
	arrayListCode
	arrayHas
	arrayRank
	arrayCells
	arrayScale
	arrayWords
	arrayOrder
	arrayValue
	arrayBand
	arrayNorm
	arrayUsed
	ArrayPostingsEnd
)

// Emit writes the arrays of a segment.
func (l *Learned) Emit(w *arrays.Writer, g *kind.Segment) {
	g.Dead, g.Own = l.Dead, l.Put(w)
}

// Put writes the arrays of an inverted index and returns its scalars.
func (l *Learned) Put(w *arrays.Writer) *Scalars {
	x := l.Index
	m := &Scalars{Cols: x.Features(), Highest: x.Unit, Norm: x.Norm, Few: x.Used != nil}
	if c := x.Weighted; c != nil {
		m.Compact, m.Stride, m.Unit, m.Residual, m.Bands = "weighted", c.Stride, c.Unit, c.Residual, c.Bands[:]
	}
	if c := x.Uniform; c != nil {
		m.Compact, m.Stride = "uniform", c.Stride
	}
	a := w.Section(codec.KindPostings)
	arrays.Field(a, arrayNorm, &l.Lengths)
	postingsArrays(a, x)
	return m
}

// postingsArrays reads or writes the arrays of an inverted index; the parts that it has must be
// allocated.
func postingsArrays(a *arrays.Section, x *postings.Index) {
	arrays.Field(a, arrayUsed, &x.Used)
	if c := x.Weighted; c != nil {
		listArrays(a, &c.Blocks, &c.Columns)
		arrays.Field(a, arrayCells, &c.Cells)
		arrays.Field(a, arrayScale, &c.Scale)
		arrays.Field(a, arrayBand, &c.BandOf)
	}
	if c := x.Uniform; c != nil {
		listArrays(a, &c.Blocks, &c.Columns)
		arrays.Field(a, arrayWords, &c.Words)
		arrays.Field(a, arrayOrder, &c.Order)
		arrays.Field(a, arrayValue, &c.Value)
	}
}

// listArrays reads or writes the arrays of lists and of the columns of frequent features.
func listArrays(a *arrays.Section, b *postings.Blocks, c *postings.Columns) {
	arrays.Field(a, arrayListPtr, &b.Ptr)
	arrays.Field(a, arrayListKey, &b.Key)
	arrays.Field(a, arrayListStart, &b.Start)
	arrays.Field(a, arrayListLow, &b.Low)
	arrays.Field(a, arrayListCode, &b.Code)
	arrays.Field(a, arrayHas, &c.Has)
	arrays.Field(a, arrayRank, &c.Rank)
}
