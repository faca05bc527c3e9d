package kind

import (
	"context"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Finder finds rows: an opened index of a kind that does not predict, or the exact scan (Scan).
type Finder interface {
	// Search finds the rows nearest to s.Ask, those that the index does not cover included, and sets
	// the answer of s. Vectors and features have been checked.
	Search(ctx context.Context, s *Search) error
}

// Ask is what a search is asked: a query of one part, and the rows that it may find. Distances are
// internal ones: squared for vector.L2, 1 - cosine for sparse rows.
type Ask struct {
	// Vector is the query to a dense collection, Features that to a sparse one, of unit length, or to one
	// of texts: its terms, and how often it has each.
	Vector   []float32
	Features vector.Sparse
	// Pairs are those features, ascending, that count only if at least LeastPairs rows have them.
	Pairs      []uint32
	LeastPairs int
	// Over, if not nil, are the rows with terms of several collections, and RowsOver how many of them have each
	// feature. Those of the collection count otherwise.
	Over     *Corpus
	RowsOver []int
	// CountOnly asks for Counted and RowsWith in place of rows.
	CountOnly bool
	// K is the largest number of rows to find, at least 1.
	K int
	// Radius is the largest distance of a row that is found, infinity for all.
	Radius float32
	// Recall is the expected share of the nearest rows. Kinds that find all of them ignore it.
	Recall float64
	// Rows, if not nil, holds all rows that may be found.
	Rows *roaring.Bitmap
	// Accept, if not nil, reports whether one of these may be found. It is nil in collections with features.
	Accept func(row uint32) bool
	// Params replace Recall in dense collections, unless they are nil.
	Params *query.Params
	// Explain asks for explanations, in dense collections.
	Explain bool
}

// Search is a search for rows: the question, the answer, and memory for one search at a time.
type Search struct {
	Ask
	// Found are the rows that were found, nearest first, equally near ones by number.
	Found    []vector.Neighbor
	Stats    query.Stats
	Postings postings.Stats
	Why      []*query.Explanation // of the rows of Found, if Ask.Explain is set
	// Counted are the rows of the collection that have terms, RowsWith how many of them have each feature.
	Counted  Corpus
	RowsWith []int

	// Unit and Keys are memory of the caller.
	Unit vector.Sparse
	Keys [][]byte

	// Inverted is the memory of searches by inverted lists, which find Hits.
	Inverted *postings.Searcher
	Hits     []postings.Hit

	dense  *query.Searcher
	params query.Params
	second *Search

	// bm25 has the parameters of a search by terms and the mean length of rows, weights the weights of
	// the terms; row and fresh are memory.
	bm25    *postings.BM25
	weights vector.Sparse
	row     vector.Sparse
	fresh   []uint32
}

// NewSearch returns a search without a question.
func NewSearch() *Search {
	return &Search{dense: query.NewSearcher(), Inverted: postings.NewSearcher()}
}

// Second returns a search for the second part of a query, whose memory belongs to s.
func (s *Search) Second() *Search {
	if s.second == nil {
		s.second = NewSearch()
	}
	return s.second
}

// Begin replaces the question, and drops the answer to an earlier one.
func (s *Search) Begin(a Ask) {
	s.Ask, s.Found, s.Hits = a, s.Found[:0], s.Hits[:0]
	s.Stats, s.Postings, s.Why, s.bm25 = query.Stats{}, postings.Stats{}, s.Why[:0], nil
}

// A search of an index within a radius looks for the nearest firstRows rows, and for moreRows times as
// many as long as all of them are within.
const (
	firstRows = 64
	moreRows  = 4
)

// Within reports whether the search has a radius.
func (s *Search) Within() bool { return !math.IsInf(float64(s.Radius), 1) }

// Widen calls find with numbers of rows to look for, up to K, as long as it reports that there may be
// more within the radius.
func (s *Search) Widen(find func(k int) (more bool, err error)) error {
	k := s.K
	if s.Within() {
		k = min(k, firstRows)
	}
	for {
		more, err := find(k)
		if err != nil || !more || k == s.K {
			return err
		}
		k = min(moreRows*k, s.K)
	}
}

// WidenHits calls find, which sets Hits to the best k rows, as Widen does.
func (s *Search) WidenHits(find func(k int) error) error {
	return s.Widen(func(k int) (more bool, err error) {
		s.Hits = s.Hits[:0]
		if err := find(k); err != nil {
			return false, AsParameter(err)
		}
		return len(s.Hits) == k && s.Distance(s.Hits[k-1]) <= s.Radius, nil
	})
}

// InView searches a view of dense rows for k rows and sets the answer. It reports whether there may be
// more within the radius.
func (s *Search) InView(ctx context.Context, v *query.View, p query.Params, k int) (more bool, err error) {
	s.Found = s.Found[:0]
	if v.LiveCount == 0 {
		return false, nil
	}
	s.params = p
	s.params.K, s.params.Filter = min(k, v.LiveCount), s.Rows
	if s.Accept != nil {
		s.params.Accept = both(p.Accept, s.Accept)
	}
	if s.Within() && (s.Params != nil || p.Method == query.Flat && !p.Sketch) {
		s.params.K, s.params.Range, s.params.Radius = min(s.K, v.LiveCount), true, s.Radius
	}
	s.Found, s.Stats, err = s.dense.Search(ctx, v, s.Vector, &s.params, s.Found)
	if err != nil {
		return false, AsParameter(err)
	}
	n := len(s.Found)
	for len(s.Found) > 0 && s.Found[len(s.Found)-1].Distance > s.Radius {
		s.Found = s.Found[:len(s.Found)-1]
	}
	if more = !s.params.Range && n == len(s.Found) && n == k; more && k < s.K {
		return true, nil
	}
	return more, s.explain(ctx)
}

// VectorDistances sets the exact distances of rows to the vector of the search, which has been made.
func (s *Search) VectorDistances(of []vector.Neighbor) { s.dense.LastDistances(of) }

// both returns a function that reports whether both functions accept a row; the first may be nil.
func both(a, b func(row uint32) bool) func(row uint32) bool {
	if a == nil {
		return b
	}
	return func(row uint32) bool { return a(row) && b(row) }
}

// explain explains the rows that were found.
func (s *Search) explain(ctx context.Context) error {
	if !s.Explain {
		return nil
	}
	for _, f := range s.Found {
		e, err := s.dense.ExplainLast(ctx, f.ID)
		if err != nil {
			return err
		}
		s.Why = append(s.Why, e)
	}
	return nil
}
