// Package labelled reads rows with their labels, as the kinds of index that predict labels learn
// from them, and weighs their values.
package labelled

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// The weightings, see index.LCIF.
const (
	WeightNone     = "none"
	WeightTFIDF    = "tfidf"
	WeightStandard = "standard"
)

// Rows is the data that a label model is learned from.
type Rows struct{ kind.LabelledRows }

// Labelled returns the number of live rows that have labels.
func (d *Rows) Labelled() (n int) {
	for _, i := range d.Live {
		if len(d.Sets.Row(i)) > 0 {
			n++
		}
	}
	return n
}

// Mapped returns rows of so many features: f of each live row, by its number.
func (d *Rows) Mapped(features int, f func(row int) vector.Sparse) *vector.CSR {
	out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	live := 0
	for row := range d.Rows.Rows() {
		var x vector.Sparse
		if live < len(d.Live) && d.Live[live] == row {
			x = f(row)
			live++
		}
		out.Append(x)
	}
	out.Cols = features
	return out
}

// Read copies the rows of a job and their labels out of the map; rows are numbered from the job's first one.
// Of dense rows it keeps the values that are not zero. The first labels have the names given; others are
// numbered in the order in which they first occur in live rows. It returns all names.
func Read(
	ctx context.Context, st kind.Source, job *kind.Job, names []string, report func(done, total int),
) (*Rows, []string, error) {
	if d := job.Data; d != nil {
		rows := *d.Rows
		rows.Value = slices.Clone(rows.Value)
		return &Rows{kind.LabelledRows{Rows: &rows, Sets: d.Sets, Live: slices.Clone(d.Live)}}, d.Names, nil
	}
	rows, err := kind.ReadRows(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	c := st.Collection()
	b, err := labels.NewBuilder(names)
	if err != nil {
		return nil, nil, fail.Corruptf(c.Name, "index %q: %w", job.Name, err)
	}
	data := &Rows{}
	data.Rows = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: c.Dim}
	labelsOf := st.LabelReader()
	for i := range job.End - job.First {
		row := uint32(job.First + i)
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, nil, fail.Wrapf(err, "build")
			}
			report(i, job.End-job.First)
		}
		if rows.IsDeleted(row) {
			data.Rows.Append(vector.Sparse{})
			b.Add(nil)
			continue
		}
		names, err := labelsOf(row)
		if err != nil {
			return nil, nil, err
		}
		data.Rows.Append(rows.Row(row))
		b.Add(names)
		data.Live = append(data.Live, i)
	}
	if len(data.Live) == 0 {
		return nil, nil, fmt.Errorf("%w: %q", fail.Empty, c.Name)
	}
	data.Rows.Cols = c.Dim
	data.Sets, data.Names = b.Matrix(), b.Names()
	if data.Sets.Labels() == 0 {
		return nil, nil, fmt.Errorf("%w: no row of %q has a label", fail.ErrUnsuitable, c.Name)
	}
	return data, data.Names, nil
}

// Weigh weighs the rows in place and returns the weights of the features, smoothed or not, or nil if the
// weighting leaves values as they are.
func (d *Rows) Weigh(w string, smooth bool) []float32 {
	if w != WeightTFIDF {
		return nil
	}
	idf := d.InverseFrequencies(smooth)
	for i := range d.Rows.Rows() {
		Weigh(d.Rows.Row(i), idf)
	}
	return idf
}

// InverseFrequencies returns ln(N/df) of every feature, and zero for features that no row has. Smoothed it is
// 1 + ln((1+N)/(1+df)): classifiers learn from frequent features, too, which only hide neighbors.
func (d *Rows) InverseFrequencies(smooth bool) []float32 {
	df, live := make([]int, d.Rows.Cols), len(d.Live)
	for _, f := range d.Rows.Index {
		df[f]++
	}
	idf := make([]float32, d.Rows.Cols)
	for f, n := range df {
		switch {
		case n > 0 && smooth:
			idf[f] = float32(1 + math.Log(float64(1+live)/float64(1+n)))
		case n > 0:
			idf[f] = float32(math.Log(float64(live) / float64(n)))
		}
	}
	return idf
}

// Known returns the features that rows have, ascending, or nil if there are no others.
func (d *Rows) Known() (known []uint32) {
	if few := d.Rows.FewColumns(); few != nil {
		return few
	}
	has := make([]bool, d.Rows.Cols)
	for _, f := range d.Rows.Index {
		has[f] = true
	}
	if !slices.Contains(has, false) {
		return nil
	}
	for f := range has {
		if has[f] {
			known = append(known, uint32(f))
		}
	}
	return known
}

// CheckWeights refuses weights of features that no build writes.
func CheckWeights(idf []float32) error {
	for _, x := range idf {
		if !(x >= 0) || math.IsInf(float64(x), 1) {
			return fmt.Errorf("a feature has the weight %g", x)
		}
	}
	return nil
}

// Weigh weighs the values of x in place. Features beyond idf are unknown and get zero (see
// index.LCIF).
func Weigh(x vector.Sparse, idf []float32) {
	for i, f := range x.Index {
		if int(f) < len(idf) {
			x.Value[i] = WeightOf(x.Value[i], idf[f])
		} else {
			x.Value[i] = 0
		}
	}
}

// WeightOf returns the weighed value of a feature with an inverse frequency.
func WeightOf(value, idf float32) float32 { return postings.TermWeight(value) * idf }
