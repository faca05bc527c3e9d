package kind

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// TermLists is what an inverted index gives to a search by BM25; a scan has none.
type TermLists struct {
	Covered int // number of rows that the index covers
	// Count adds the live rows that the index covers and that have each feature of x to have, and all
	// that have terms to c.
	Count func(x vector.Sparse, have []int, c *Corpus)
	// Find sets s.Hits to the best k rows for the weights of terms, by present mean length.
	Find func(weights vector.Sparse, mean float64, k int) error
}

// TermFinder finds the rows of a collection of texts that have a term.
type TermFinder interface {
	// RowsWith returns the live rows that have a term, in a set that the caller may change.
	RowsWith(ctx context.Context, term uint32) (*roaring.Bitmap, error)
}

// RowsWith implements TermFinder.
func (x *Scan) RowsWith(ctx context.Context, term uint32) (*roaring.Bitmap, error) {
	set, err := x.Source.Sparse(ctx)
	if err != nil {
		return nil, err
	}
	out := roaring.New()
	return out, set.AddRowsWith(ctx, out, term, 0)
}

// AddRowsWith adds the live rows from the given one on that have a feature to a set.
func (s *SparseSet) AddRowsWith(ctx context.Context, to *roaring.Bitmap, f uint32, from int) error {
	return s.EachLive(ctx, from, func(row uint32, x vector.Sparse) {
		if x.At(f) > 0 {
			to.Add(row)
		}
	})
}

// ByTerms searches a collection of texts by BM25: s.Features has the terms of the query and how often it has
// each. How many rows have a term, and their mean length, are those of all live rows at present, whatever
// an index was built of; a filter does not change them.
func (s *Search) ByTerms(ctx context.Context, set *SparseSet, c *Collection, x TermLists) error {
	q := s.Features
	s.RowsWith = slices.Grow(s.RowsWith[:0], q.Len())[:q.Len()]
	clear(s.RowsWith)
	s.Counted = Corpus{}
	if x.Count != nil && s.Over == nil {
		x.Count(q, s.RowsWith, &s.Counted)
	}
	if err := s.countFresh(ctx, set, x.Covered); err != nil || s.CountOnly {
		return err
	}
	of, have := s.Counted, s.RowsWith
	if s.Over != nil {
		of, have = *s.Over, s.RowsOver
	}
	p := *c.BM25
	p.Mean = of.Mean()
	s.bm25 = &p
	s.weights.Index, s.weights.Value = s.weights.Index[:0], s.weights.Value[:0]
	for i, n := range q.Value {
		if have[i] < 0 || have[i] > of.Rows {
			return fail.Corruptf(c.Name, "%d rows have feature %d, and %d have any", have[i], q.Index[i], of.Rows)
		}
		if have[i] < s.LeastPairs {
			if _, pair := slices.BinarySearch(s.Pairs, q.Index[i]); pair {
				continue // a row that has it has its words
			}
		}
		s.weights.Index = append(s.weights.Index, q.Index[i])
		s.weights.Value = append(s.weights.Value, n*postings.IDF(of.Rows, have[i]))
	}
	if x.Find != nil {
		if err := s.WidenHits(func(k int) error { return x.Find(s.weights, p.Mean, k) }); err != nil {
			return err
		}
	}
	for _, row := range s.fresh {
		r := set.Row(row)
		s.Hits = append(s.Hits, postings.Hit{Row: row, Score: p.Score(s.weights, r, Length(r))})
	}
	s.rank(set.N - x.Covered)
	return nil
}

// countFresh counts the rows from the given one on, and collects those that may be found and have a term of
// the query.
func (s *Search) countFresh(ctx context.Context, set *SparseSet, from int) error {
	s.fresh = s.fresh[:0]
	return set.EachLive(ctx, from, func(row uint32, x vector.Sparse) {
		s.Counted.Add(Length(x))
		matches := false
		for j, f := range s.Features.Index {
			if x.At(f) > 0 {
				s.RowsWith[j]++
				matches = true
			}
		}
		if s.Rows != nil && !s.Rows.Contains(row) {
			return
		}
		s.Stats.Exact++
		if matches {
			s.fresh = append(s.fresh, row)
		}
	})
}

// FeatureScore returns the score, or the cosine, of a row for the features of the search, which has been
// made.
func (s *Search) FeatureScore(row vector.Sparse) float64 {
	if s.bm25 != nil {
		return s.bm25.Score(s.weights, row, Length(row))
	}
	UnitSparse(&s.row, row)
	return vector.DotSparse(s.Features, s.row)
}

// TermParts calls f with what each term of the search adds to the score of a row.
func (s *Search) TermParts(row vector.Sparse, f func(term uint32, count float32, weight, score float64)) {
	length := Length(row)
	for i, t := range s.weights.Index {
		if n := row.At(t); n > 0 {
			w := float64(s.weights.Value[i])
			f(t, n, w, w*s.bm25.Value(n, length))
		}
	}
}
