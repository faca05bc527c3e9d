package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

var sparseSearchers = sync.Pool{New: func() any { return &sparseScratch{s: postings.NewSearcher()} }}

type sparseScratch struct {
	s    *postings.Searcher
	hits []postings.Hit
}

// searchSparse finds the rows of highest cosine to the query.
func searchSparse(ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, res *Result) error {
	if err := checkSparseAsk(st, o); err != nil {
		return err
	}
	set, resolved, err := sparseQuery(ctx, st, a.q)
	if err != nil {
		return err
	}
	res.Stats.Unknown, res.Stats.sparse, res.Stats.Recall = resolved.unknown, true, 1
	var x vector.Sparse
	kind.UnitSparse(&x, resolved.features)
	accept := acceptedRows(st, a)
	index, err := st.SearchIndex(ctx, o.Index)
	if err != nil {
		return err
	}
	sc := sparseSearchers.Get().(*sparseScratch)
	sc.hits = sc.hits[:0]
	covered := 0 // number of rows covered by the index
	res.Index = Flat
	first, most := a.nearer(o)
	if index != nil {
		covered, res.Index = index.Manifest.Info.Rows, index.Manifest.Info.Name
		ask := kind.SparseAsk{X: x, K: first, Accept: accept}
		if err := sc.find(ctx, index.Opened.(kind.SparseFinder), ask, most, o, res); err != nil {
			return fail.Wrapf(kind.AsParameter(err), "search %q", st.Entry.Name)
		}
		for _, h := range sc.hits {
			if !(h.Score <= maxSimilarity) {
				return fail.Corruptf(st.Entry.Name,
					"index %q: row %d has a similarity of %g: its stored length is not that of its features",
					res.Index, h.Row, h.Score)
			}
		}
	}
	res.Stats.Fresh = set.N - covered
	if sc.hits, res.Stats.Exact, err = scanSparse(ctx, set, x, covered, accept, sc.hits); err != nil {
		return err
	}
	sortHits(sc.hits)
	best := sc.hits[:min(most, len(sc.hits))]
	for len(best) > 0 && o.beyond(best[len(best)-1]) {
		best = best[:len(best)-1]
	}
	orderTies(best)
	res.Hits = o.Reuse[:0]
	var run *state.ColdRun
	for _, h := range best {
		key, err := st.Key(h.Row)
		if err != nil {
			return err
		}
		hit := Hit{Row: h.Row, Distance: sparseDistance(h)}
		if res.Hits, err = appendHit(st, res.Hits, hit, key, o.Include, &run); err != nil {
			return err
		}
	}
	sparseSearchers.Put(sc)
	return nil
}

// find finds the nearest rows of an index, and more of them, up to most, as long as all are within the
// radius.
func (sc *sparseScratch) find(ctx context.Context, x kind.SparseFinder, ask kind.SparseAsk, most int,
	o *SearchOptions, res *Result) (err error) {
	for ; ; ask.K = min(nearMore*ask.K, most) {
		sc.hits, res.Stats.Postings, err = x.Find(ctx, sc.s, ask, sc.hits[:0])
		if err != nil || ask.K == most || len(sc.hits) < ask.K || o.beyond(sc.hits[len(sc.hits)-1]) {
			return err
		}
	}
}

// beyond reports whether a hit is not within the radius of a search.
func (o *SearchOptions) beyond(h postings.Hit) bool {
	return o.Radius != nil && sparseDistance(h) > internalRadius(vector.Cosine, *o.Radius)
}

// checkSparseAsk checks the options of a search of a sparse collection.
func checkSparseAsk(st *state.Collection, o *SearchOptions) error {
	if o.Params != nil || o.Explain {
		return fmt.Errorf("%w: Params and Explain are for dense collections, %q is sparse",
			fail.Option, st.Entry.Name)
	}
	return nil
}

// queryFeatures are the features of a query by number. Features that no row has ever had get
// numbers from the collection's Dim on; unknown has their names.
type queryFeatures struct {
	features vector.Sparse
	unknown  []string
}

// sparseQuery checks a query and returns its features by number.
func sparseQuery(
	ctx context.Context, st *state.Collection, q Query,
) (set *kind.SparseSet, resolved queryFeatures, err error) {
	if set, err = st.Sparse(ctx); err != nil {
		return nil, resolved, err
	}
	row := Row{Sparse: q.Sparse, Features: q.Features, Vector: q.Vector}
	if err := checkSparse(&row, st.Entry.Named); err != nil {
		return nil, resolved, fail.Wrapf(err, "query to collection %q", st.Entry.Name)
	}
	if st.Entry.Named {
		resolved, err = numberFeatures(st, q.Features)
		return set, resolved, err
	}
	resolved.features = q.Sparse
	for i := len(q.Sparse.Index) - 1; i >= 0 && int(q.Sparse.Index[i]) >= st.Entry.Dim; i-- {
		if q.Sparse.Value[i] != 0 {
			number := uint64(q.Sparse.Index[i]) + uint64(st.Entry.Numbering.First())
			resolved.unknown = append(resolved.unknown, fmt.Sprint(number))
		}
	}
	slices.Reverse(resolved.unknown)
	return set, resolved, nil
}

// numberFeatures maps named features to numbers. Unknown ones get numbers after the
// collection's, in the order of their names, so that sums do not depend on the order of the
// features.
func numberFeatures(st *state.Collection, features []Feature) (queryFeatures, error) {
	type pair struct {
		id    uint32
		value float32
	}
	pairs := make([]pair, 0, len(features))
	var unknown []Feature
	for _, f := range features {
		id, ok, err := st.FeatureNumber(f.Name)
		switch {
		case err != nil:
			return queryFeatures{}, err
		case ok:
			pairs = append(pairs, pair{id, f.Value})
		case f.Value != 0:
			unknown = append(unknown, f)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.id, b.id) })
	var out queryFeatures
	if len(unknown) > 0 {
		slices.SortFunc(unknown, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
		out.unknown = make([]string, len(unknown))
	}
	for i, f := range unknown {
		out.unknown[i] = f.Name
		pairs = append(pairs, pair{uint32(st.Entry.Dim + i), f.Value})
	}
	for _, p := range pairs {
		out.features.Index = append(out.features.Index, p.id)
		out.features.Value = append(out.features.Value, p.value)
	}
	return out, nil
}

// acceptedRows returns the rows that can be hits: those that pass the filter, other than the row
// that the query was read from; nil is all rows.
func acceptedRows(st *state.Collection, a *rowAsk) *roaring.Bitmap {
	if !a.stored {
		return a.passing.Set
	}
	others := roaring.New()
	others.AddRange(0, uint64(st.Entry.Rows))
	others.Remove(a.self)
	if a.passing.Set != nil {
		others.And(a.passing.Set)
	}
	return others
}

// scanWork is the number of features compared between two checks of the context. A row counts
// as 16 features, a deleted one as 1.
const scanWork = 1 << 12

// scanSparse scores the rows from the given one on.
func scanSparse(
	ctx context.Context, s *kind.SparseSet, q vector.Sparse, from int, accept *roaring.Bitmap,
	hits []postings.Hit,
) (_ []postings.Hit, compared int, err error) {
	var unit vector.Sparse
	work := 0 // since the last check of the context
	for i := from; i < s.N; i++ {
		if work++; work >= scanWork {
			if err := ctx.Err(); err != nil {
				return hits, compared, fmt.Errorf("db: %w", err)
			}
			work = 0
		}
		row := uint32(i)
		if s.DeletedRows != nil && s.DeletedRows.Contains(row) || accept != nil && !accept.Contains(row) {
			continue
		}
		compared++
		kind.UnitSparse(&unit, s.Row(row))
		work += unit.Len() + 16
		if score := vector.DotSparse(q, unit); score > 0 {
			hits = append(hits, postings.Hit{Row: row, Score: score})
		}
	}
	return hits, compared, nil
}

// maxSimilarity is the highest similarity of unit-length rows, with room for rounding.
const maxSimilarity = 1.001

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
