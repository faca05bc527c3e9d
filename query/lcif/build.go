package lcif

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
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
	o := CVOptions{Workers: workers}
	return o.build(ctx, rows, sets, features)
}

// build is Build. It reads only Neighbors, Vector, VectorWeight, InstanceOnly and Workers of the
// options.
func (o *CVOptions) build(ctx context.Context, rows *vector.CSR, sets *labels.Matrix,
	features int) (view *View, counts *labels.FeatureLabels, err error) {
	view = &View{Features: rows.Cols, Labels: sets, Vector: o.Vector, Neighbors: o.Neighbors}
	view.Row = func(i uint32) vector.Sparse { return row(rows, int(i)) }
	if features > 0 && features < rows.Cols {
		view.SelectFeatures(labels.SelectFeatures(rows, features))
	}
	units := UnitRows(rows, view)
	if !o.InstanceOnly {
		if counts, err = labels.CountFeatureLabels(ctx, FeatureRows(units), sets, o.Workers); err != nil {
			return nil, nil, err
		}
	}
	if o.Neighbors == nil || o.VectorWeight > 0 {
		index, err := postings.Build(ctx, units, nil)
		if err != nil {
			return nil, nil, err
		}
		view.Neighbors = &PostingsNeighbors{Segments: []postings.Segment{{Index: index}}}
		if o.Neighbors != nil {
			view.Neighbors = &BothNeighbors{view.Neighbors, o.Neighbors, o.VectorWeight, view}
		}
	}
	return view, counts, nil
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

// CVOptions are the options of a cross-validation.
type CVOptions struct {
	Folds int    // at least 2; zero means 10
	Seed  uint64 // seed of the division into folds
	// Rows, if above zero, is the maximum number of rows predicted over all folds; the other
	// rows of a fold are still excluded from its training part.
	Rows int
	// Neighbors, if set, finds neighbours among the rows, by their numbers. The default is an inverted
	// index of the rows. Another source receives raw queries, so the selection of features affects only
	// feature scores.
	Neighbors NeighborSource
	// Vector, if set, returns the vectors that rows have next to features (View.Vector), which Neighbors
	// compares. With a VectorWeight above zero the inverted index finds neighbours, too (BothNeighbors).
	Vector       func(row uint32, dst []float32) []float32
	VectorWeight float64
	// InstanceOnly omits counting feature–label pairs; only variant InstanceOnly can be tuned
	// then.
	InstanceOnly bool
	Workers      int // fewer than 1: all processors
}

// CrossValidation tunes on the training rows themselves, or on some of them, by number, if live is not
// nil; the others are empty. Each row is predicted from those outside its fold. All folds share one index:
// searches exclude a fold's rows, and the fold's counts are subtracted from those of all rows, both exactly.
// Errors of the returned data: ErrParams, labels.ErrInput for an invalid number of folds.
func CrossValidation(rows *vector.CSR, sets *labels.Matrix, live []int, o CVOptions) Data {
	if o.Folds == 0 {
		o.Folds = 10
	}
	if live == nil {
		for i := range rows.Rows() {
			live = append(live, i)
		}
	}
	return func(ctx context.Context, features int) (*HeldOut, error) {
		folds, err := labels.KFoldOf(live, o.Folds, o.Seed)
		if err != nil {
			return nil, err
		}
		view, counts, err := o.build(ctx, rows, sets, features)
		if err != nil {
			return nil, err
		}
		out := &HeldOut{Train: sets.Select(live)}
		for i, fold := range folds {
			others := roaring.New()
			for _, row := range fold.Train {
				others.Add(uint32(row))
			}
			test := fold.Test
			part := Part{View: view.Among(others)}
			if counts != nil {
				part.Counts = func(ctx context.Context) (*labels.FeatureLabels, error) {
					units := UnitRows(labels.SelectRows(rows, test), view)
					own, err := labels.CountFeatureLabels(ctx, FeatureRows(units), sets.Select(test),
						o.Workers)
					if err != nil {
						return nil, err
					}
					return counts.Sub(own)
				}
			}
			try := test
			if o.Rows > 0 {
				try = fold.Sample((i+1)*o.Rows/o.Folds - i*o.Rows/o.Folds)
			}
			part.Queries, part.Truth, part.Rows = labels.SelectRows(rows, try), sets.Select(try), try
			out.Parts = append(out.Parts, part)
		}
		return out, nil
	}
}
