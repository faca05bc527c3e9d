package lcif

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Build builds the view of labelled rows in memory: it keeps the given number of features
// of highest entropy (0: all), normalises the rows to unit length, indexes them (Algorithm 1)
// and counts feature–label pairs (Algorithm 4). The view has no S yet: SetPower
// computes it from the counts. workers < 1 means all processors; the answer does not depend
// on it.
//
// Errors: those of postings.Build and labels.CountFeatureLabels.
func Build(ctx context.Context, rows *vector.CSR, sets *labels.Matrix,
	features, workers int) (*View, *labels.FeatureLabels, error) {
	m, err := buildLCIF(ctx, rows, sets, features, CVOptions{Workers: workers})
	if err != nil {
		return nil, nil, err
	}
	return m.view, m.counts, nil
}

// lcifModel is the result of training.
type lcifModel struct {
	view   *View
	units  *vector.CSR
	counts *labels.FeatureLabels // nil if there are only instance scores
	// without returns a source of neighbours that omits some rows.
	without func(*roaring.Bitmap) NeighborSource
}

// buildLCIF trains on the rows. It reads only Neighbors, InstanceOnly and Workers of the
// options.
func buildLCIF(ctx context.Context, rows *vector.CSR, sets *labels.Matrix, features int,
	o CVOptions) (*lcifModel, error) {
	m := &lcifModel{view: &View{Features: rows.Cols, Labels: sets, Vector: o.Vector}, without: o.Neighbors}
	m.view.Row = func(i uint32) vector.Sparse { return row(rows, int(i)) }
	if features > 0 && features < rows.Cols {
		m.view.SelectFeatures(labels.SelectFeatures(rows, features))
	}
	m.units = unitRows(rows, rows.Cols, m.view.Keep)
	if !o.InstanceOnly {
		var err error
		if m.counts, err = labels.CountFeatureLabels(ctx, FeatureRows(m.units), sets,
			o.Workers); err != nil {
			return nil, err
		}
	}
	if m.without == nil || o.VectorWeight > 0 {
		index, err := postings.Build(ctx, m.units, nil)
		if err != nil {
			return nil, err
		}
		m.without = func(rows *roaring.Bitmap) NeighborSource {
			found := &PostingsNeighbors{Segments: []postings.Segment{{Index: index, Deleted: rows}}}
			if o.Neighbors == nil {
				return found
			}
			return &BothNeighbors{found, o.Neighbors(rows), o.VectorWeight, m.view}
		}
	}
	m.view.Neighbors = m.without(nil)
	return m, nil
}

// Part holds labelled rows for measuring settings, and a view of other rows for training.
type Part struct {
	// View must not find any of the queries as neighbours. Its S is not read.
	View *View
	// Counts returns the counts behind S, which are counted when they are needed: those of all folds
	// would take much memory. nil leaves only instance scores.
	Counts  func(context.Context) (*labels.FeatureLabels, error)
	Queries *vector.CSR
	Truth   *labels.Matrix
	// Rows are the numbers of the queries among the training rows, by which the view has their vectors; nil
	// if there are none.
	Rows []int
}

// HeldOut is the data that a tuner measures on: one part, or the folds of a
// cross-validation, which are measured together.
type HeldOut struct {
	Parts []Part
	// Train has the labels of the training rows, which define label cardinality and priors.
	Train *labels.Matrix
}

// Data returns held-out parts whose views keep the given number of features of highest
// entropy; 0 means all.
type Data func(ctx context.Context, features int) (*HeldOut, error)

// HoldOut tunes on rows separate from the training rows. workers < 1 means all processors.
func HoldOut(rows *vector.CSR, sets *labels.Matrix, queries *vector.CSR, truth *labels.Matrix,
	workers int) Data {
	return func(ctx context.Context, features int) (*HeldOut, error) {
		if queries.Rows() != truth.Rows() || truth.Labels() != sets.Labels() {
			return nil, fmt.Errorf("%w: %d queries, %d with labels; %d labels held out, %d in training",
				query.ErrParams, queries.Rows(), truth.Rows(), truth.Labels(), sets.Labels())
		}
		m, err := buildLCIF(ctx, rows, sets, features, CVOptions{Workers: workers})
		if err != nil {
			return nil, err
		}
		counts := func(context.Context) (*labels.FeatureLabels, error) { return m.counts, nil }
		return &HeldOut{Parts: []Part{{View: m.view, Counts: counts, Queries: queries, Truth: truth}},
			Train: sets}, nil
	}
}

// CVOptions are the options of a cross-validation.
type CVOptions struct {
	Folds int    // at least 2; zero means 10
	Seed  uint64 // seed of the division into folds
	// Rows, if above zero, is the maximum number of rows predicted over all folds; the other
	// rows of a fold are still excluded from its training part.
	Rows int
	// Neighbors, if set, returns the source that finds neighbours among the rows, by their
	// numbers, except some of them; nil excludes none. The default is an inverted index of the
	// rows. A custom source receives raw queries, so the selection of features affects only
	// feature scores.
	Neighbors func(without *roaring.Bitmap) NeighborSource
	// Vector, if set, returns the vectors that rows have next to features (View.Vector), which Neighbors
	// compares. With a VectorWeight above zero the inverted index finds neighbours, too (BothNeighbors).
	Vector       func(row uint32, dst []float32) ([]float32, error)
	VectorWeight float64
	// InstanceOnly omits counting feature–label pairs; only variant InstanceOnly can be tuned
	// then.
	InstanceOnly bool
	Workers      int // fewer than 1: all processors
}

// CrossValidation tunes on the training rows themselves, each predicted from the rows outside
// its fold. All folds share one index: searches exclude a fold's rows, and the fold's counts
// are subtracted from those of all rows, both exactly. Errors of the returned data: ErrParams,
// labels.ErrInput for an invalid number of folds.
func CrossValidation(rows *vector.CSR, sets *labels.Matrix, o CVOptions) Data {
	if o.Folds == 0 {
		o.Folds = 10
	}
	return func(ctx context.Context, features int) (*HeldOut, error) {
		folds, err := labels.KFold(rows.Rows(), o.Folds, o.Seed)
		if err != nil {
			return nil, err
		}
		m, err := buildLCIF(ctx, rows, sets, features, o)
		if err != nil {
			return nil, err
		}
		out := &HeldOut{Train: sets}
		for i, fold := range folds {
			part := m.leaveOut(fold.Test, sets, o.Workers)
			try := fold.Test
			if o.Rows > 0 {
				try = try[:min(len(try), (i+1)*o.Rows/o.Folds-i*o.Rows/o.Folds)]
			}
			part.Queries, part.Truth, part.Rows = labels.SelectRows(rows, try), sets.Select(try), try
			out.Parts = append(out.Parts, part)
		}
		return out, nil
	}
}

// leaveOut returns the model without some of its rows; row numbers do not change.
func (m *lcifModel) leaveOut(rows []int, sets *labels.Matrix, workers int) Part {
	view := *m.view
	part := Part{View: &view}
	if m.counts != nil {
		part.Counts = func(ctx context.Context) (*labels.FeatureLabels, error) {
			own, err := labels.CountFeatureLabels(ctx, FeatureRows(labels.SelectRows(m.units, rows)),
				sets.Select(rows), workers)
			if err != nil {
				return nil, err
			}
			return m.counts.Sub(own)
		}
	}
	out := roaring.New()
	for _, r := range rows {
		out.Add(uint32(r))
	}
	view.Neighbors = m.without(out)
	return part
}
