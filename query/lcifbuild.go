package query

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// BuildLCIF makes the view of labelled rows in memory: it keeps the given
// number of features of highest entropy (0: all), makes the rows unit-length,
// indexes them (Algorithm 1) and counts feature–label pairs (Algorithm 4). The
// view has no powers of S yet: AddPower makes them of the counts. workers < 1
// means all processors; the answer does not depend on it.
//
// Errors: those of postings.Build and labels.CountFeatureLabels.
func BuildLCIF(ctx context.Context, rows *vector.CSR, sets *labels.Matrix, features, workers int) (*LCIFView, *labels.FeatureLabels, error) {
	m, err := buildLCIF(ctx, rows, sets, features, CVOptions{Workers: workers})
	if err != nil {
		return nil, nil, err
	}
	return m.view, m.counts, nil
}

// lcifModel is what training makes.
type lcifModel struct {
	view   *LCIFView
	rows   *vector.CSR // as they came
	units  *vector.CSR
	counts *labels.FeatureLabels // nil with instance scores only
	// without is the source of neighbours that leaves out some rows.
	without func(*roaring.Bitmap) NeighborSource
}

// priors is the share of the rows without those given that have each label.
func priors(sets *labels.Matrix, without []int) []float32 {
	out := make([]float32, sets.Labels())
	rows := sets.Rows() - len(without)
	if rows < 1 {
		return out
	}
	count := make([]int, len(out))
	for l := range out {
		count[l] = len(sets.Column(l))
	}
	for _, r := range without {
		for _, l := range sets.Row(r) {
			count[l]--
		}
	}
	for l, n := range count {
		out[l] = float32(n) / float32(rows)
	}
	return out
}

// buildLCIF trains on the rows; of the options only Neighbors, InstanceOnly and
// Workers are read.
func buildLCIF(ctx context.Context, rows *vector.CSR, sets *labels.Matrix, features int, o CVOptions) (*lcifModel, error) {
	m := &lcifModel{view: &LCIFView{Features: rows.Cols, Labels: sets}, rows: rows, without: o.Neighbors}
	m.view.Prior = priors(sets, nil)
	if features > 0 && features < rows.Cols {
		m.view.SelectFeatures(labels.SelectFeatures(rows, features))
	}
	m.units = unitRows(rows, rows.Cols, m.view.Keep)
	if !o.InstanceOnly {
		var err error
		if m.counts, err = labels.CountFeatureLabels(ctx, FeatureRows(m.units), sets, o.Workers); err != nil {
			return nil, err
		}
	}
	if m.without == nil {
		index, err := postings.Build(ctx, m.units, postings.Params{}, nil)
		if err != nil {
			return nil, err
		}
		m.without = func(rows *roaring.Bitmap) NeighborSource {
			return &PostingsNeighbors{Index: index, Params: postings.SearchParams{Deleted: rows}}
		}
	}
	m.view.Neighbors = m.without(nil)
	return m, nil
}

// LCIFPart is labelled rows to try settings on, and a view of training rows
// that are others.
type LCIFPart struct {
	// View must not find any of the queries as neighbours. Its powers of S are
	// not read.
	View *LCIFView
	// Counts has what S is made of; nil leaves only instance scores.
	Counts  *labels.FeatureLabels
	Queries *vector.CSR
	Truth   *labels.Matrix
}

// LCIFHeldOut is what a tuner measures on: one part, or the folds of a
// cross-validation, which are measured as one.
type LCIFHeldOut struct {
	Parts []LCIFPart
	// Train has the labels of the training rows: label cardinality and priors
	// come from there.
	Train *labels.Matrix
}

// LCIFData makes held-out parts whose views keep the given number of features
// of highest entropy; 0 means all.
type LCIFData func(ctx context.Context, features int) (*LCIFHeldOut, error)

// HoldOut tunes on rows apart from the training rows. workers < 1 means all
// processors.
func HoldOut(rows *vector.CSR, sets *labels.Matrix, queries *vector.CSR, truth *labels.Matrix, workers int) LCIFData {
	return func(ctx context.Context, features int) (*LCIFHeldOut, error) {
		if queries.Rows() != truth.Rows() || truth.Labels() != sets.Labels() {
			return nil, fmt.Errorf("%w: %d queries, %d with labels; %d labels held out, %d in training", ErrParams, queries.Rows(), truth.Rows(), truth.Labels(), sets.Labels())
		}
		m, err := buildLCIF(ctx, rows, sets, features, CVOptions{Workers: workers})
		if err != nil {
			return nil, err
		}
		return &LCIFHeldOut{Parts: []LCIFPart{{m.view, m.counts, queries, truth}}, Train: sets}, nil
	}
}

// CVOptions say how rows are cross-validated.
type CVOptions struct {
	Folds int    // at least 2; zero means 10
	Seed  uint64 // of the division into folds
	// Rows, if above zero, is how many rows are tried at most over all folds;
	// all others of a fold are still left out of its training part.
	Rows int
	// Graph, if above zero, is how many neighbours of each training row second-
	// order scores may use. It costs a search a row and fold.
	Graph int
	// Neighbors, if set, makes the source that finds neighbours among the rows,
	// by their numbers, without some of them; nil leaves out none. Otherwise it
	// is an inverted index of the rows. A source of its own takes raw queries,
	// so selected features count for feature scores alone.
	Neighbors func(without *roaring.Bitmap) NeighborSource
	// InstanceOnly counts no feature–label pairs; only variant InstanceOnly can be
	// tuned then.
	InstanceOnly bool
	Workers      int // fewer than 1: all processors
}

// CrossValidation tunes on the training rows themselves, each predicted from
// the rows outside its fold. One index serves all folds: searches leave out a
// fold's rows, and the fold's counts are taken off those of all rows, both
// exactly. Errors of the data it makes: ErrParams, labels.ErrInput for a bad
// number of folds.
func CrossValidation(rows *vector.CSR, sets *labels.Matrix, o CVOptions) LCIFData {
	if o.Folds == 0 {
		o.Folds = 10
	}
	return func(ctx context.Context, features int) (*LCIFHeldOut, error) {
		folds, err := labels.KFold(rows.Rows(), o.Folds, o.Seed)
		if err != nil {
			return nil, err
		}
		m, err := buildLCIF(ctx, rows, sets, features, o)
		if err != nil {
			return nil, err
		}
		out := &LCIFHeldOut{Train: sets}
		for i, fold := range folds {
			part, err := m.leaveOut(ctx, fold.Test, sets, o)
			if err != nil {
				return nil, err
			}
			try := fold.Test
			if o.Rows > 0 {
				try = try[:min(len(try), (i+1)*o.Rows/o.Folds-i*o.Rows/o.Folds)]
			}
			part.Queries, part.Truth = labels.SelectRows(rows, try), sets.Select(try)
			out.Parts = append(out.Parts, part)
		}
		return out, nil
	}
}

// leaveOut is the model without some of its rows, whose numbers stay.
func (m *lcifModel) leaveOut(ctx context.Context, rows []int, sets *labels.Matrix, o CVOptions) (LCIFPart, error) {
	view := *m.view
	part := LCIFPart{View: &view}
	if m.counts != nil {
		own, err := labels.CountFeatureLabels(ctx, FeatureRows(labels.SelectRows(m.units, rows)), sets.Select(rows), o.Workers)
		if err != nil {
			return part, err
		}
		if part.Counts, err = m.counts.Sub(own); err != nil {
			return part, err
		}
	}
	out := roaring.New()
	for _, r := range rows {
		out.Add(uint32(r))
	}
	view.Neighbors = m.without(out)
	view.Prior = priors(sets, rows)
	if o.Graph > 0 {
		var err error
		if view.Graph, err = neighborGraph(ctx, view.Neighbors, m.rows, m.units, graphOptions{k: o.Graph, workers: o.Workers}); err != nil {
			return part, err
		}
	}
	return part, nil
}
