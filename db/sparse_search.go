package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// SparseQuery is a query to a sparse collection: numbered features, or named ones if the
// collection's have names. Its length does not matter. Features that no row has ever had count
// in the length of the query, so they make it less similar to all rows. For label models over a
// dense collection it is a Vector.
type SparseQuery struct {
	Sparse   vector.Sparse
	Features []Feature
	Vector   []float32
}

// SparseSearchOptions selects how Snapshot.SearchSparse finds rows. The zero value searches the
// collection's only index, or compares with every row if there is none.
type SparseSearchOptions struct {
	// Index names the index to search; Flat compares with every row. Empty means the only
	// index, or Flat if there is none.
	Index string
	// Strategy is the search strategy of an inverted index. All strategies find the same rows;
	// postings.Auto lets the planner choose.
	Strategy postings.Strategy
	// Filter keeps only the rows of a set made by Snapshot.RowFilter. Labels keeps only rows
	// that have at least one of these labels. KeyPrefix and Key keep only rows whose key has
	// the prefix and satisfies the predicate, which gets a copy of the key. A search calls Key
	// at most once per row, and not after its context has ended.
	Filter    *RowFilter
	Labels    []string
	KeyPrefix []byte
	Key       func(key []byte) bool
}

// SparseStats counts the work of one sparse search.
type SparseStats struct {
	postings.Stats
	// Fresh is the number of rows compared that the index does not cover.
	Fresh int
	// Unknown are the features of the query that no row has ever had: names in ascending order,
	// or numbers in the collection's Numbering.
	Unknown []string
}

var sparseSearchers = sync.Pool{New: func() any { return &sparseScratch{s: postings.NewSearcher()} }}

type sparseScratch struct {
	s    *postings.Searcher
	hits []postings.Hit
}

// SearchSparse appends the k rows of highest cosine to the query to dst, best first. Only rows
// that share a feature with the query are hits, so there may be fewer than k, and none in an
// empty collection. Hit.Distance is 1 - cosine, rounded to float32. Hits of equal distance are
// in ascending order of their row numbers. Which k rows are hits is decided before rounding: by
// the cosine in double precision, then by the row number. So if the distances of several rows
// round to that of the last hit, the nearer rows are hits, whatever their numbers. Results are
// exact with any index; rows written after its build are compared one by one.
//
// Errors: ErrNoCollection, ErrKind, ErrNoIndex, ErrFeatures, ErrK (k < 1),
// ErrOption (no index named among several, a strategy the index lacks), ErrFilter,
// ErrCorrupt, ErrClosed and the context's.
func (s *Snapshot) SearchSparse(
	ctx context.Context, coll string, q SparseQuery, k int, o *SparseSearchOptions, dst []Hit,
) (hits []Hit, stats SparseStats, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if o == nil {
		o = &SparseSearchOptions{}
	}
	if err := checkStrategy(o.Strategy); err != nil {
		return dst, stats, err
	}
	st, err := s.collection(coll)
	if err != nil {
		return dst, stats, err
	}
	set, asked, err := st.sparseQuery(ctx, q)
	if err != nil {
		return dst, stats, err
	}
	stats.Unknown = asked.unknown
	var x vector.Sparse
	unitSparse(&x, asked.features)
	if k < 1 {
		return dst, stats, fmt.Errorf("%w: k is %d, want at least 1", ErrK, k)
	}
	accept, err := st.accepted(ctx, o)
	if err != nil {
		return dst, stats, err
	}
	index, err := st.asked(ctx, o.Index)
	if err != nil {
		return dst, stats, err
	}
	sc := sparseSearchers.Get().(*sparseScratch)
	sc.hits = sc.hits[:0]
	covered := 0 // number of rows covered by the index
	if index != nil {
		covered = index.m.Info.Rows
		ask := sparseAsk{x: x, k: k, accept: accept, strategy: o.Strategy}
		sc.hits, stats.Stats, err = index.open.(sparseFinder).find(ctx, sc.s, ask, sc.hits)
		if err != nil {
			return dst, stats, wrapf(asOption(err), "search %q", coll)
		}
	}
	stats.Fresh = set.n - covered
	if sc.hits, err = set.scan(ctx, x, covered, accept, sc.hits); err != nil {
		return dst, stats, err
	}
	sortHits(sc.hits)
	best := sc.hits[:min(k, len(sc.hits))]
	orderTies(best)
	for _, h := range best {
		key, err := st.key(h.Row)
		if err != nil {
			return dst, stats, err
		}
		dst = append(dst, Hit{Key: slices.Clone(key), Row: h.Row, Distance: sparseDistance(h)})
	}
	sparseSearchers.Put(sc)
	return dst, stats, nil
}

// checkStrategy refuses an unknown strategy.
func checkStrategy(s postings.Strategy) error {
	if s > postings.Union {
		return fmt.Errorf("%w: there is no search %v", ErrOption, s)
	}
	return nil
}

// askedFeatures are the features of a query by number. Features that no row has ever had get
// numbers from the collection's Dim on; unknown has their names.
type askedFeatures struct {
	features vector.Sparse
	unknown  []string
}

// sparseQuery checks a query and returns its features by number.
func (st *collState) sparseQuery(
	ctx context.Context, q SparseQuery,
) (set *sparseSet, asked askedFeatures, err error) {
	if set, err = st.sparse(ctx); err != nil {
		return nil, asked, err
	}
	row := Row{Sparse: q.Sparse, Features: q.Features, Vector: q.Vector}
	if err := checkSparse(&row, st.c.Named); err != nil {
		return nil, asked, wrapf(err, "query to collection %q", st.c.Name)
	}
	if st.c.Named {
		asked, err = st.numberFeatures(q.Features)
		return set, asked, err
	}
	asked.features = q.Sparse
	for i := len(q.Sparse.Index) - 1; i >= 0 && int(q.Sparse.Index[i]) >= st.c.Dim; i-- {
		if q.Sparse.Value[i] != 0 {
			number := uint64(q.Sparse.Index[i]) + uint64(st.c.Numbering.First())
			asked.unknown = append(asked.unknown, fmt.Sprint(number))
		}
	}
	slices.Reverse(asked.unknown)
	return set, asked, nil
}

// numberFeatures maps named features to numbers. Unknown ones get numbers after the
// collection's, in the order of their names, so that sums do not depend on the order of the
// features.
func (st *collState) numberFeatures(features []Feature) (askedFeatures, error) {
	type pair struct {
		id    uint32
		value float32
	}
	pairs := make([]pair, 0, len(features))
	var unknown []Feature
	for _, f := range features {
		id, ok, err := st.featureNumber(f.Name)
		switch {
		case err != nil:
			return askedFeatures{}, err
		case ok:
			pairs = append(pairs, pair{id, f.Value})
		case f.Value != 0:
			unknown = append(unknown, f)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.id, b.id) })
	var out askedFeatures
	if len(unknown) > 0 {
		slices.SortFunc(unknown, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
		out.unknown = make([]string, len(unknown))
	}
	for i, f := range unknown {
		out.unknown[i] = f.Name
		pairs = append(pairs, pair{uint32(st.c.Dim + i), f.Value})
	}
	for _, p := range pairs {
		out.features.Index = append(out.features.Index, p.id)
		out.features.Value = append(out.features.Value, p.value)
	}
	return out, nil
}

// UnknownFeatures returns the features of a query that no row of a sparse collection has ever
// had, as SparseStats.Unknown and PredictStats.Unknown do.
//
// Errors: ErrNoCollection, ErrKind, ErrFeatures, ErrCorrupt, ErrClosed and the
// context's.
func (s *Snapshot) UnknownFeatures(
	ctx context.Context, coll string, q SparseQuery,
) (unknown []string, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	st, err := s.collection(coll)
	if err != nil {
		return nil, err
	}
	_, asked, err := st.sparseQuery(ctx, q)
	return asked.unknown, err
}

// accepted returns the set of rows that pass the filters; nil if all rows pass.
func (st *collState) accepted(ctx context.Context, o *SparseSearchOptions) (*roaring.Bitmap, error) {
	out, err := st.filtered(o.Filter)
	if err == nil {
		out, err = st.carrying(ctx, o.Labels, out)
	}
	if err != nil {
		return nil, err
	}
	if len(o.KeyPrefix) == 0 && o.Key == nil {
		return out, nil
	}
	rows := roaring.New()
	for row := range st.c.Rows {
		if out != nil && !out.Contains(row) || st.deleted(row) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, wrapf(err, "search %q", st.c.Name)
		}
		ok, err := st.keyPasses(row, o.KeyPrefix, o.Key)
		if err != nil {
			return nil, err
		}
		if ok {
			rows.Add(row)
		}
	}
	return rows, nil
}

// scanWork is the number of features compared between two checks of the context. A row counts
// as 16 features, a deleted one as 1.
const scanWork = 1 << 12

// scan scores the rows from the given one on.
func (s *sparseSet) scan(
	ctx context.Context, q vector.Sparse, from int, accept *roaring.Bitmap, hits []postings.Hit,
) ([]postings.Hit, error) {
	var unit vector.Sparse
	work := 0 // since the last check of the context
	for i := from; i < s.n; i++ {
		if work++; work >= scanWork {
			if err := ctx.Err(); err != nil {
				return hits, fmt.Errorf("db: %w", err)
			}
			work = 0
		}
		row := uint32(i)
		if s.dead != nil && s.dead.Contains(row) || accept != nil && !accept.Contains(row) {
			continue
		}
		unitSparse(&unit, s.row(row))
		work += unit.Len() + 16
		if score := vector.DotSparse(q, unit); score > 0 {
			hits = append(hits, postings.Hit{Row: row, Score: score})
		}
	}
	return hits, nil
}

// sparseDistance returns the distance of a hit in the API.
func sparseDistance(h postings.Hit) float32 { return float32(1 - min(h.Score, 1)) }

// orderTies orders sorted hits whose rounded distances are equal by row number.
func orderTies(hits []postings.Hit) {
	slices.SortFunc(hits, func(a, b postings.Hit) int {
		return cmp.Or(cmp.Compare(sparseDistance(a), sparseDistance(b)), cmp.Compare(a.Row, b.Row))
	})
}

// sortHits orders hits by score, highest first, then by row number.
func sortHits(hits []postings.Hit) {
	slices.SortFunc(hits, func(a, b postings.Hit) int {
		if c := cmp.Compare(b.Score, a.Score); c != 0 {
			return c
		}
		return cmp.Compare(a.Row, b.Row)
	})
}
