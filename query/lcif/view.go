package lcif

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// LabelSets is the label matrix of the training rows, N × L, as predictions read it: row i's
// labels, ascending, each below Labels(). *labels.Matrix implements it.
type LabelSets interface {
	Rows() int
	Labels() int
	Row(i int) []uint32
}

// NeighborScratch is the scratch memory of neighbour searches. A source uses the parts it
// needs. One goroutine may use it at a time; the zero value is ready.
type NeighborScratch struct {
	Postings postings.Searcher
	// Stats describes the last search, if the source counts its work.
	Stats postings.Stats

	coords []float32
	found  []vector.Neighbor
	row    []float32
	// vector is the vector of a query that is a training row; hits, vectors and unit are of BothNeighbors.
	vector        []float32
	hits, vectors []postings.Hit
	unit          vector.Sparse
	scaled        []float32
	scan          vector.TopK
}

// NeighborQuery holds a query in its original form and as instance scores compare it: without
// zeros and features that the view does not know or keep, and divided by a length that includes
// unknown features. Vector is that of a query with features next to it, nil for none.
type NeighborQuery struct {
	Raw, Unit vector.Sparse
	Vector    []float32
}

// NeighborSource finds the rows that instance scores are computed from. Its methods may be
// called concurrently, each call with its own scratch.
type NeighborSource interface {
	// Neighbors appends the k training rows nearest to q to dst, nearest first, with cosine
	// similarities in 0…1 (definition 5), negative ones raised to zero; fewer if there are
	// fewer rows. If the source is exact, the first j of them are the result of a search for j.
	// q.Unit is empty only if there is a q.Vector.
	Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
		dst []postings.Hit) ([]postings.Hit, error)
	// Among returns a source that finds the nearest of the rows in a set, which must not change
	// while the source is in use.
	Among(rows *roaring.Bitmap) NeighborSource
}

// View is everything a label prediction needs (Feremans et al. 2020, LCIF). It does not
// change while it is in use; many predictors may share it.
type View struct {
	// Features is M. Features of a query from M on are unknown and ignored.
	Features int
	// Keep, if set, has a bit for each selected feature; other features are removed from
	// queries as they were from the training rows.
	Keep []uint64
	// Labels has the labels of the training rows.
	Labels LabelSets
	// Neighbors finds training rows; nil leaves only feature scores.
	Neighbors NeighborSource
	// Row returns the features of a training row as a query has them: second-order scores search
	// for its neighbors. It may be nil.
	Row func(row uint32) vector.Sparse
	// Vector, if set, returns the vector of a training row that has features next to it, in the memory of dst,
	// nil if it has none.
	Vector func(row uint32, dst []float32) []float32
	// Powers holds S for one power; nil leaves only instance scores. For another power it is
	// raised entry by entry, which is correct but slow.
	Powers *labels.Powers
	// Before breaks ties of scores: it reports whether label a precedes label b. nil orders
	// labels by number.
	Before labels.Before
}

// SetPower computes S to the power beta from its counts. O(entries of S). Errors:
// labels.ErrInput unless beta is above 0 and finite.
func (v *View) SetPower(counts *labels.FeatureLabels, beta float64) (err error) {
	v.Powers, err = counts.Powers(beta)
	return err
}

// SelectFeatures restricts the view to the given features, as labels.SelectFeatures chooses
// them. The neighbours and S must be of training rows with only these features. O(features).
func (v *View) SelectFeatures(features []uint32) {
	v.Keep = make([]uint64, (v.Features+63)/64)
	for _, f := range features {
		if int(f) < v.Features {
			v.Keep[f/64] |= 1 << (f % 64)
		}
	}
}

// Unit returns a query as predictions normalise it: with only the features that the view knows and keeps, and
// divided by a length that includes unknown features.
func (v *View) Unit(q vector.Sparse) (unit vector.Sparse) {
	normalise(&unit, q, v.Features, v.Keep)
	return unit
}
