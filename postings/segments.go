package postings

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/vector"
)

// Segment is one of several indexes over consecutive ranges of rows.
type Segment struct {
	*Index
	// First is the number of the index's row 0 among the rows of all segments.
	First uint32
	// Deleted and Accept are as in SearchParams, by row number within the segment.
	Deleted, Accept *roaring.Bitmap
}

// SearchSegments is Search over segments whose rows do not overlap. The answer is that of one
// index over all their rows. The score that k rows have reached in earlier segments prunes
// later ones. p's Deleted and Accept must be nil. Errors: as Search.
func (s *Searcher) SearchSegments(ctx context.Context, segments []Segment, q vector.Sparse, k int,
	p SearchParams, dst []Hit) ([]Hit, Stats, error) {
	if err := checkQuery(q, k); err != nil {
		return dst, Stats{}, err
	}
	if p.Deleted != nil || p.Accept != nil {
		return dst, Stats{}, fmt.Errorf("%w: deleted and accepted rows must be set per segment", ErrParams)
	}
	rows := 0
	for i := range segments {
		rows += segments[i].Len()
	}
	s.top.reset(min(k, rows))
	s.stats = Stats{}
	for i := range segments {
		g := &segments[i]
		p.Deleted, p.Accept = g.Deleted, g.Accept
		if err := s.segment(ctx, g.Index, g.First, q, p); err != nil {
			return dst, Stats{}, err
		}
	}
	return s.top.append(dst), s.stats, nil
}
