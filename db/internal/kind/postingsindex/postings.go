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
	// that the index keeps; with BM25 its number of terms.
	Lengths []float64
	// Mean is the mean of these lengths with BM25, 0 without.
	Mean float64
}

// Scalars holds the scalars of a stored inverted index: the detail of a segment.
type Scalars struct {
	Cols int
	// Norm is at least the length of the longest row.
	Norm float64
	// Mean is the mean length of rows that the codes were made with for BM25, 0 for cosines.
	Mean float64 `json:",omitempty"`
}

// Check refuses scalars that no build has written.
func (m *Scalars) Check(of *kind.Manifest, _ *kind.Segment) error {
	switch {
	case m.Cols < 0 || m.Cols > of.Dim:
		return fmt.Errorf("%d features", m.Cols)
	case !(m.Norm >= 0) || math.IsInf(m.Norm, 1):
		return fmt.Errorf("length %g of rows", m.Norm)
	case !(m.Mean >= 0) || math.IsInf(m.Mean, 1):
		return fmt.Errorf("mean length %g of rows", m.Mean)
	}
	return nil
}

// Kind implements inverted indexes over a sparse collection.
type Kind struct{}

// Traits implements kind.Kind.
func (Kind) Traits() kind.Traits {
	return kind.Traits{Sparse: true, Composes: true, Options: (*index.Postings)(nil)}
}

// Detail implements kind.Kind.
func (Kind) Detail() kind.Detail { return &Scalars{} }

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
			c := st.Collection()
			if c.BM25 == nil {
				rows, l.Lengths, err = set.Matrix(ctx, job.First, job.End, c.Dim, report)
				return err
			}
			p := *c.BM25
			rows, l.Lengths, err = set.Saturated(ctx, job.First, job.End, c.Dim, &p, report)
			l.Mean = p.Mean
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	err = job.Timer.Run("postings", func(report func(int, int)) (err error) {
		build := postings.Build
		if l.Mean > 0 {
			build = postings.BuildCoded
		}
		l.Index, err = build(ctx, rows, report)
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
	arraySets uint32 = iota
	arrayCode
	arrayFeature
	arrayMax
	arrayAt
	arrayFirst
	arrayNorm
	arrayValue
	arrayRatio
)

// Emit writes the arrays of a segment.
func (l *Learned) Emit(w *arrays.Writer, g *kind.Segment) {
	g.Dead, g.Own = l.Dead, l.Put(w)
}

// Put writes the arrays of an inverted index and returns its scalars.
func (l *Learned) Put(w *arrays.Writer) *Scalars {
	x := l.Index
	a := w.Section(codec.KindPostings)
	arrays.Field(a, arrayNorm, &l.Lengths)
	listArrays(a, &x.Lists)
	return &Scalars{Cols: x.Features(), Norm: x.Norm, Mean: l.Mean}
}

// listArrays reads or writes the lists.
func listArrays(a *arrays.Section, l *postings.Lists) {
	arrays.Field(a, arraySets, &l.Sets)
	arrays.Field(a, arrayCode, &l.Code)
	arrays.Field(a, arrayFeature, &l.Feature)
	arrays.Field(a, arrayMax, &l.Max)
	arrays.Field(a, arrayAt, &l.At)
	arrays.Field(a, arrayFirst, &l.First)
	arrays.Field(a, arrayValue, &l.Value)
	arrays.Field(a, arrayRatio, &l.Ratio)
}
