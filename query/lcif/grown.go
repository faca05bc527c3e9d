package lcif

import (
	"cmp"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// GrownNeighbors finds neighbours among the rows of another source and rows that were added
// later, which it compares one by one. The answer is that of a source of all these rows. It
// costs O(entries of Rows) more per query.
type GrownNeighbors struct {
	Base NeighborSource
	// First is the number of row 0 of Rows; Base knows only rows below it.
	First uint32
	// Rows have unit length, as UnitRows returns them; empty rows are never neighbours.
	Rows *vector.CSR
	// Deleted rows are not neighbours; nil means none. Base must exclude its own deleted rows.
	Deleted *roaring.Bitmap
	// Only, if set, holds all rows that may be neighbours.
	Only *roaring.Bitmap
}

// Neighbors implements NeighborSource. Ties are ordered by row. Errors: those of Base, the
// context's.
func (g *GrownNeighbors) Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
	dst []postings.Hit) ([]postings.Hit, error) {
	from := len(dst)
	dst, err := g.Base.Neighbors(ctx, s, q, k, dst)
	if err != nil {
		return dst, err
	}
	return g.add(ctx, q.Unit, k, dst, from)
}

// add merges the later rows into the hits that start at the given place.
func (g *GrownNeighbors) add(ctx context.Context, q vector.Sparse, k int, hits []postings.Hit,
	from int) ([]postings.Hit, error) {
	// Later rows lose ties, so a row must be better than the last of k.
	least := 0.0
	if len(hits) == from+k {
		least = hits[len(hits)-1].Score
	}
	found := len(hits)
	for i := range g.Rows.Rows() {
		if i%haltRows == haltRows-1 {
			if err := ended(ctx); err != nil {
				return hits[:found], err
			}
		}
		row := g.First + uint32(i)
		if g.Deleted != nil && g.Deleted.Contains(row) || g.Only != nil && !g.Only.Contains(row) {
			continue
		}
		if score := vector.DotSparse(q, g.Rows.Row(i)); score > least {
			hits = append(hits, postings.Hit{Row: row, Score: score})
		}
	}
	if len(hits) > found {
		sortByScore(hits[from:])
	}
	return hits[:min(len(hits), from+k)], nil
}

// sortByScore orders hits, best first, ties by row.
func sortByScore(hits []postings.Hit) {
	slices.SortFunc(hits, func(a, b postings.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row))
	})
}
