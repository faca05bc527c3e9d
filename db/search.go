package db

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Query is what a search or a prediction is asked about: a vector, features (numbered, named, or the terms of
// a text) or, in a collection of both, both; or the key of a row. A sparse query may be empty. Features that
// no row has ever had count in its length, so they lessen all similarities.
type Query struct {
	Vector   []float32
	Sparse   vector.Sparse
	Features []Feature
	Text     string // as text.ParseQuery reads it: words, "a phrase", +required and -excluded ones
	Key      []byte // the key of a stored row to search like, which is not among the hits itself
}

// SearchOptions selects how a search finds rows; the zero value finds 10, dense ones with recall
// 0.95.
type SearchOptions struct {
	K int // the number of rows to find, 10 when zero
	// Index names the index to search; Flat selects the exact scan. Empty means the default index of the
	// collection (Collection.SetDefault), or Flat if there is none that finds rows.
	Index string
	// Recall is the target, 0.95 when zero, for any K and under filters; 1 selects an exact scan. Below
	// 0.8 it is the same as 0.8, for which the fastest setting is tuned. Sparse searches are exact.
	Recall float64
	// Where restricts the search to the rows that pass a filter. The functions of a filter (filter.Func)
	// are called at most once per row, by SearchBatch for each query, and not after the context has ended.
	Where *filter.Filter
	// Radius, if not nil, finds only rows within this distance (see Hit.Distance): at most the nearest
	// K, or all if K is zero, with the recall that is asked for. 0 finds equal rows; below 0 it is for
	// InnerProduct. Distances of Cosine and of sparse rows below 1e-6 are rounding errors and within
	// every radius.
	Radius  *float64
	Include Content // what is copied into hits besides the key
	Explain bool    // fill in Hit.Why; searches by vector and by text only
	// Fusion selects how a query with a vector and a text or features ranks rows; nil is the default.
	Fusion *Fusion
	// Boosts change the scores of rows, one after the other; Diversity, above 0 and below 1, is the weight
	// by which a hit is unlike the hits before it; PerGroup is the most hits with the same value of the
	// attribute GroupBy, where rows without it are in no group. They rank the rows that a search finds
	// by Depth, and Hit.Score is what they are ranked by (the guide has the formulas).
	Boosts    []Boost
	Diversity float64
	PerGroup  int
	GroupBy   string
	// Depth is the number of rows that each part of a query finds before they are ranked by both, or by
	// Boosts, Diversity and PerGroup; twice K and at least 100 when zero. If groups leave less than K
	// hits, it is four times as deep, as often as there are more rows.
	Depth int
	// After has the hits of all pages before this one, which has the K after them: the answer for so
	// many more hits, without rows of their keys. They must not be in the memory of Reuse. The pages of a
	// snapshot are of one state.
	After []Hit
	// Reuse is the memory of an earlier result to overwrite. A dense search with enough of it, and
	// without a filter that needs evaluation (Collection.RowFilter), allocates nothing in steady state
	// but the snapshot, one small object, if the Collection is not one of a Snapshot.
	Reuse []Hit
	// Params replace Recall, except for K. Dense collections only; their Filter must be nil.
	Params  *query.Params
	Workers int // the number of goroutines of SearchBatch; below 1, all processors
}

// Content is a set of the parts of a row.
type Content uint8

// The parts of a row that a search can include in its hits.
const (
	Labels Content = 1 << iota
	Payload
	Attributes
	Text
)

// Flat is the index name that selects an exact scan of all rows.
const Flat = "flat"

// defaultK is the number of hits of a search that does not say, defaultRecall its target.
const (
	defaultK      = 10
	defaultRecall = 0.95
)

var defaultSearch SearchOptions

// Hit is one result of a search. Its memory belongs to the caller.
type Hit struct {
	Key []byte
	Row uint32 // the row's number
	// Distance is Euclidean for L2, 1 - cosine for Cosine and sparse rows, and the negated dot
	// product for InnerProduct, the negated score for texts and for queries of two parts: smaller is nearer.
	Distance   float32
	Score      float32  // by which hits are ordered with SearchOptions.Boosts, Diversity or PerGroup
	Places     *Places  // in each part of a query of two parts
	Labels     []string // Labels to Attributes are set if SearchOptions.Include says so
	Text       string
	Payload    []byte
	Attributes map[string]any
	Why        *Reason // how the row was found, with SearchOptions.Explain
}

// Result is the answer to a search.
type Result struct {
	Hits  []Hit       // nearest first
	Index string      // the index that was searched, Flat for an exact scan
	Stats SearchStats // the way of the search, the recall to expect, what was compared
}

// SearchStats describes the work of one search.
type SearchStats struct {
	query.Stats
	Postings postings.Stats // the work of an inverted index
	Unknown  []string       // the features of a query that no row has ever had: names, or numbers as in files
}

// Search finds the rows nearest to the query, nearest first and then by row number: exactly min(K,
// live rows that pass the filter) of a dense collection unless Params forbid widening, of a sparse
// one only rows that share a feature with the query. Rows written after the build of an index are
// compared one by one. Errors: ErrNotFound (also if no row has Query.Key), ErrInvalid (also
// for an untuned index without Params).
func (c Collection) Search(ctx context.Context, q Query, o *SearchOptions) (res Result, err error) {
	if o == nil {
		o = &defaultSearch
	}
	err = c.read(ctx, func(st *state.Collection) error {
		passing, err := passingRows(ctx, st, o.Where)
		if err != nil {
			return err
		}
		return search(ctx, st, &rowAsk{q: q, k: o.K, passing: passing}, o, &res)
	})
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

// rowAsk is a search for rows in one collection.
type rowAsk struct {
	q Query
	k int // zero if the radius is the only limit
	// self is the number of the row that the query was read from, if stored is set.
	self   uint32
	stored bool
	// byVector and byFeatures are set if the query has these parts; features are the latter by number.
	byVector, byFeatures bool
	features             queryFeatures
	// words are the required and excluded words of a text.
	words words
	// passing are the rows that pass the filter of the search.
	passing where.Passing
}

// search finds the rows nearest to a query in one state.
func search(ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, res *Result) error {
	if err := a.prepare(ctx, st, o); err != nil {
		return err
	}
	s := st.Gen.File.Searches.Take()
	err := answer(ctx, st, a, o, s, res)
	// A panic must not return the memory: a fault in the map leaves its counters incomplete.
	st.Gen.File.Searches.Give(s)
	return err
}

// prepare checks a search and its options, and resolves its query.
func (a *rowAsk) prepare(ctx context.Context, st *state.Collection, o *SearchOptions) error {
	if err := checkSearch(st, a, o); err != nil {
		return err
	}
	if err := resolveQuery(ctx, st, a); err != nil {
		return err
	}
	if err := a.checkParts(st, o); err != nil {
		return err
	}
	return a.restrict(ctx, st)
}

// answer sets the result of a search in the memory of s.
func answer(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, s *kind.Search, res *Result,
) (err error) {
	res.Stats.Unknown = a.features.unknown
	if a.byVector && a.byFeatures || o.reranks() || len(o.After) > 0 {
		return ranked(ctx, st, a, o, s, res)
	}
	k := cmp.Or(a.k, math.MaxInt)
	p := part{features: a.byFeatures, index: o.Index, k: k, explain: o.Explain && !a.byFeatures}
	if res.Index, err = searchPart(ctx, st, a, o, s, p); err != nil {
		return err
	}
	res.Stats.Stats, res.Stats.Postings = s.Stats, s.Postings
	s.Found = visible(st, a, s.Found, k)
	if res.Hits, err = hitsOf(ctx, st, o, s); err != nil || !o.Explain || !a.byFeatures {
		return err
	}
	for i := range res.Hits {
		h := &res.Hits[i]
		if h.Why, err = reasonOfTerms(st, s, h.Row); err != nil {
			return err
		}
	}
	return nil
}

// part is the search for k rows by one part of a query, with the named index. explain asks how the index
// found them.
type part struct {
	features bool
	index    string
	k        int
	explain  bool
}

// searchPart searches by one part of a query, and returns the name of the index.
func searchPart(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, s *kind.Search, p part,
) (string, error) {
	s.Begin(kind.Ask{
		K: p.k, Recall: cmp.Or(o.Recall, defaultRecall), Radius: float32(math.Inf(1)), Rows: a.passing.Set,
		Accept: accepting(st, a, o), Params: o.Params, Explain: p.explain,
	})
	if a.stored {
		s.K = max(s.K, s.K+1) // the row of the query is left out of the answer
	}
	if o.Radius != nil {
		s.Radius = internalRadius(a.metric(st), *o.Radius)
	}
	switch {
	case !p.features:
		s.Vector = a.q.Vector
	case st.Entry.Text != nil:
		s.Features = a.features.features
	default:
		kind.UnitSparse(&s.Unit, a.features.features)
		s.Features = s.Unit
	}
	x, name, err := st.Finder(ctx, p.index, p.features)
	if err != nil {
		return name, err
	}
	if !p.features && name != Flat && o.Params == nil && !a.stored && o.Where == nil && o.Radius == nil {
		st.Sampled().Offer(s.Vector)
	}
	if err := x.Search(ctx, s); err != nil {
		return name, fail.Wrapf(err, "search %q", st.Entry.Name)
	}
	return name, nil
}

// metric returns the metric of the distances of a search by one part: those of texts are negated scores, as
// negated products are.
func (a *rowAsk) metric(st *state.Collection) vector.Metric {
	switch {
	case !a.byFeatures:
		return st.Entry.Metric
	case st.Entry.Text != nil:
		return vector.InnerProduct
	}
	return vector.Cosine
}

// checkSearch checks the options of a search and sets the number of rows to find.
func checkSearch(st *state.Collection, a *rowAsk, o *SearchOptions) error {
	switch c := st.Entry; {
	case a.k < 0:
		return fmt.Errorf("%w: k is %d in a search of %q, want 0 or more", fail.K, a.k, c.Name)
	case !(o.Recall >= 0 && o.Recall <= 1):
		return fmt.Errorf("%w: target recall %g, want 0 to 1", fail.Option, o.Recall)
	case o.Params != nil && o.Params.Filter != nil:
		return fmt.Errorf("%w: parameters with a bitmap in a search of %q: use SearchOptions.Where",
			fail.Option, c.Name)
	case a.k == 0 && o.Radius == nil:
		a.k = defaultK
	}
	if err := checkRerank(st, a, o); err != nil {
		return err
	}
	return o.Fusion.check()
}

// checkParts refuses options that do not fit the parts of the query.
func (a *rowAsk) checkParts(st *state.Collection, o *SearchOptions) error {
	c, m := st.Entry, a.metric(st)
	switch {
	case o.Radius != nil && a.byVector && a.byFeatures:
		return fmt.Errorf("%w: a radius, and the query has a vector and features: their distances differ",
			fail.Option)
	case o.Radius != nil && !(*o.Radius >= 0 || *o.Radius < 0 && m == vector.InnerProduct):
		return fmt.Errorf("%w: radius %g, want 0 or more: no %v distance is below 0", fail.Option, *o.Radius, m)
	case a.byFeatures && (o.Params != nil || o.Explain && c.Text == nil):
		return fmt.Errorf("%w: Params and Explain are for dense collections, %q is sparse", fail.Option, c.Name)
	}
	return nil
}

// accepting returns a function that calls those of the filter, nil if it has none. Searches within a
// radius may ask for a row more than once.
func accepting(st *state.Collection, a *rowAsk, o *SearchOptions) func(row uint32) bool {
	passing := a.passing
	if passing.Accept == nil {
		return nil
	}
	var verdicts map[uint32]bool
	if o.Radius != nil {
		verdicts = map[uint32]bool{}
	}
	return func(row uint32) bool {
		ok, known := verdicts[row]
		if known {
			return ok
		}
		ok, err := st.Accepts(passing, row)
		if err != nil {
			// Damage must not look like "no row passes".
			panic(state.KeyFailure{Err: err})
		}
		if verdicts != nil {
			verdicts[row] = ok
		}
		return ok
	}
}

// SearchBatch searches for many queries in one state, in parallel. Element i is what
// Search returns for queries[i]. Errors have the number of the first query that failed.
func (c Collection) SearchBatch(ctx context.Context, queries []Query, o *SearchOptions) ([]Result, error) {
	if o == nil {
		o = &defaultSearch
	}
	s, err := c.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer c.letGo(s)
	var passing where.Passing
	err = s.read(c.name, func(st *state.Collection) (err error) {
		passing, err = passingRows(ctx, st, o.Where)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Result, len(queries))
	work := par.Work{N: len(queries), Grain: 8, Workers: o.Workers}
	err = par.Each(ctx, work, func(i int) (err error) {
		one := *o
		one.Reuse = newHits(max(0, min(cmp.Or(o.K, defaultK), 1024)))
		err = s.read(c.name, func(st *state.Collection) error {
			return search(ctx, st, &rowAsk{q: queries[i], k: o.K, passing: passing}, &one, &out[i])
		})
		return atQuery(i, err)
	})
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return out, nil
}

// atQuery adds the number of a query to its error.
func atQuery(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("query %d: %w", i, fail.Inner{Err: err})
}
