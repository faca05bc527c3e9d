package lcif

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// PostingsNeighbors finds neighbours among sparse rows, exactly: in the segments of an inverted index,
// and among later rows, which it compares one by one.
type PostingsNeighbors struct {
	Segments []postings.Segment
	// Fresh, if set, has the rows from row First on, with unit length, as UnitRows returns them; empty rows
	// are never neighbours. Segments have only rows below First.
	Fresh *vector.CSR
	First uint32
	// Deleted are the fresh rows that are not neighbours, nil for none. Only, if set, holds all fresh rows
	// that may be.
	Deleted, Only *roaring.Bitmap
}

// Neighbors implements NeighborSource. Ties are ordered by row. Errors: those of
// postings.Searcher.SearchSegments.
func (p *PostingsNeighbors) Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
	dst []postings.Hit) ([]postings.Hit, error) {
	from := len(dst)
	dst, stats, err := s.Postings.SearchSegments(ctx, p.Segments, q.Unit, k, postings.SearchParams{}, dst)
	s.Stats = stats
	if err != nil || p.Fresh == nil {
		return dst, err
	}
	return p.add(ctx, q.Unit, k, dst, from)
}

// add merges the fresh rows into the hits that start at the given place.
func (p *PostingsNeighbors) add(ctx context.Context, q vector.Sparse, k int, hits []postings.Hit,
	from int) ([]postings.Hit, error) {
	// Later rows lose ties, so a row must be better than the last of k.
	least := 0.0
	if len(hits) == from+k {
		least = hits[len(hits)-1].Score
	}
	found := len(hits)
	for i := range p.Fresh.Rows() {
		if i%haltRows == haltRows-1 {
			if err := ended(ctx); err != nil {
				return hits[:found], err
			}
		}
		row := p.First + uint32(i)
		if p.Deleted != nil && p.Deleted.Contains(row) || p.Only != nil && !p.Only.Contains(row) {
			continue
		}
		if score := vector.DotSparse(q, p.Fresh.Row(i)); score > least {
			hits = append(hits, postings.Hit{Row: row, Score: score})
		}
	}
	if len(hits) > found {
		slices.SortFunc(hits[from:], postings.Hit.Compare)
	}
	return hits[:min(len(hits), from+k)], nil
}

// Among implements NeighborSource.
func (p *PostingsNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *p
	out.Segments, out.Only = postings.Among(p.Segments, rows), both(rows, p.Only)
	return &out
}
