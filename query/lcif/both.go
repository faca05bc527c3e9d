package lcif

import (
	"cmp"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// BothNeighbors finds neighbours among rows with features and vectors, of which either may be missing. The
// similarity of a row is
//
//	(1 − Weight)·cosine of the features + Weight·cosine of the vectors,
//
// each 0…1, and 0 if the row or the query lacks the part. The neighbours are those of highest
// similarity among the nearest rows by either part, bothDepth or k if that is more.
type BothNeighbors struct {
	Features, Vectors NeighborSource
	// Weight is that of the vectors, above 0 and below 1.
	Weight float64
	// View has the features and vectors of the rows, and the weights of features.
	View *View
}

// bothDepth is as large as the largest k of the tuner, so that a smaller k finds the first of a larger one's
// neighbours.
const bothDepth = 100

// Neighbors implements NeighborSource. Ties are ordered by row. Errors: those of both sources.
func (b *BothNeighbors) Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
	dst []postings.Hit) (_ []postings.Hit, err error) {
	byVectors, err := b.Vectors.Neighbors(ctx, s, q, max(k, bothDepth), s.vectors[:0])
	if err != nil {
		return dst, err
	}
	s.vectors = byVectors
	stats := s.Stats
	if dst, err = b.with(ctx, s, q, k, byVectors, dst); err == nil {
		s.Stats.Candidates += stats.Candidates
		s.Stats.Scored += stats.Scored
	}
	return dst, err
}

// with is Neighbors for a query whose nearest rows by vectors are known, which it reorders.
func (b *BothNeighbors) with(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
	byVectors, dst []postings.Hit) (_ []postings.Hit, err error) {
	from := len(dst)
	s.hits, s.Stats = s.hits[:0], postings.Stats{}
	if q.Unit.Len() > 0 {
		if s.hits, err = b.Features.Neighbors(ctx, s, q, max(k, bothDepth), s.hits); err != nil {
			return dst, err
		}
	}
	byFeatures := s.hits
	byRow := func(x, y postings.Hit) int { return cmp.Compare(x.Row, y.Row) }
	slices.SortFunc(byFeatures, byRow)
	slices.SortFunc(byVectors, byRow)
	for len(byFeatures)+len(byVectors) > 0 {
		var x, y postings.Hit
		order := -1
		switch {
		case len(byFeatures) == 0:
			order = 1
		case len(byVectors) > 0:
			order = byRow(byFeatures[0], byVectors[0])
		}
		if order <= 0 {
			x, byFeatures = byFeatures[0], byFeatures[1:]
		}
		if order >= 0 {
			y, byVectors = byVectors[0], byVectors[1:]
		}
		switch {
		case order > 0:
			x = postings.Hit{Row: y.Row, Score: b.byFeatures(s, q, y.Row)}
		case order < 0:
			y.Score = b.byVector(s, q, x.Row)
		}
		dst = append(dst, postings.Hit{Row: x.Row, Score: (1-b.Weight)*x.Score + b.Weight*y.Score})
	}
	slices.SortFunc(dst[from:], postings.Hit.Compare)
	return dst[:min(len(dst), from+k)], nil
}

// byFeatures returns the cosine of a row's features with the query's.
func (b *BothNeighbors) byFeatures(s *NeighborScratch, q NeighborQuery, row uint32) float64 {
	if q.Unit.Len() == 0 {
		return 0
	}
	normalise(&s.unit, b.View.Row(row), b.View.Features, b.View.Keep)
	return min(1, max(0, vector.DotSparse(q.Unit, s.unit)))
}

// byVector returns the cosine of a row's vector with the query's, 0 if it is negative.
func (b *BothNeighbors) byVector(s *NeighborScratch, q NeighborQuery, row uint32) float64 {
	if q.Vector == nil {
		return 0
	}
	x := b.View.Vector(row, s.row)
	if x == nil {
		return 0
	}
	s.row = x
	return Similarity(vector.CosineDistance(q.Vector, x))
}

// Among implements NeighborSource.
func (b *BothNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *b
	out.Features, out.Vectors = b.Features.Among(rows), b.Vectors.Among(rows)
	return &out
}
