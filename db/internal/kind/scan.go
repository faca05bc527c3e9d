package kind

import (
	"cmp"
	"context"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Scan is the exact scan of a collection.
type Scan struct{ Source Source }

// Search implements Finder.
func (x *Scan) Search(ctx context.Context, s *Search) error {
	if x.Source.Collection().Sparse {
		set, err := x.Source.Sparse(ctx)
		if err != nil {
			return err
		}
		s.Stats.Way = query.ByScan
		if c := x.Source.Collection(); c.BM25 != nil {
			return s.ByTerms(ctx, set, c, TermLists{})
		}
		return s.AfterIndex(ctx, set, 0)
	}
	view, err := x.Source.Rows(ctx)
	if err != nil {
		return err
	}
	p := query.Params{Method: query.Flat}
	if s.Params != nil {
		p = *s.Params
	}
	_, err = s.InView(ctx, view, p, s.K)
	return err
}

// AfterIndex adds the sparse rows from covered on, which an index does not cover, to the hits of the
// index, and makes the nearest of all the answer.
func (s *Search) AfterIndex(ctx context.Context, set *SparseSet, covered int) error {
	if err := s.scanSparse(ctx, set, covered); err != nil {
		return err
	}
	s.rank(set.N - covered)
	return nil
}

// rank makes the best of the hits the answer.
func (s *Search) rank(fresh int) {
	s.Stats.Fresh, s.Stats.Recall = fresh, 1
	slices.SortFunc(s.Hits, postings.Hit.Compare)
	s.Found = s.Found[:0]
	for _, h := range s.Hits[:min(s.K, len(s.Hits))] {
		if d := s.Distance(h); d <= s.Radius {
			s.Found = append(s.Found, vector.Neighbor{ID: h.Row, Distance: d})
		}
	}
	OrderEqual(s.Found)
}

// Distance returns the distance of a hit: 1 - cosine, or the negated score of BM25.
func (s *Search) Distance(h postings.Hit) float32 {
	if s.bm25 != nil {
		return float32(-h.Score)
	}
	return float32(1 - min(h.Score, 1))
}

// OrderEqual orders rows, nearest first, of which some have become equally near by rounding.
func OrderEqual(found []vector.Neighbor) {
	for i := 0; i < len(found); {
		from, d := i, found[i].Distance
		for i++; i < len(found) && found[i].Distance == d; i++ {
		}
		if i > from+1 {
			slices.SortFunc(found[from:i], func(a, b vector.Neighbor) int { return cmp.Compare(a.ID, b.ID) })
		}
	}
}

// scanSparse adds the rows from the given one on that share a feature with the query to the hits.
func (s *Search) scanSparse(ctx context.Context, set *SparseSet, from int) error {
	return set.EachLive(ctx, from, func(row uint32, x vector.Sparse) {
		if s.Rows != nil && !s.Rows.Contains(row) {
			return
		}
		s.Stats.Exact++
		UnitSparse(&s.row, x)
		if score := vector.DotSparse(s.Features, s.row); score > 0 {
			s.Hits = append(s.Hits, postings.Hit{Row: row, Score: score})
		}
	})
}
