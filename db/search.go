package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/grouped"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// defaultRecall is the target of a search that does not say.
const defaultRecall = 0.95

var defaultSearch SearchOptions

// Search finds the rows nearest to the query, nearest first and then by row number: exactly min(K,
// live rows that pass the filter) of a dense collection unless Params forbid widening, of a sparse
// one only rows that share a feature with the query. Rows written after the build of an index are
// compared one by one. An index that was not tuned needs Params.
func (c Collection) Search(ctx context.Context, q Query, o *SearchOptions) (res Result, err error) {
	if o == nil {
		o = &defaultSearch
	}
	m, s := c.span(trace.Search, 1)
	err = c.read(ctx, func(st *state.Collection) error {
		passing, err := passingRows(ctx, st, o.Where)
		if err != nil {
			return err
		}
		return search(ctx, st, &rowAsk{q: q, k: o.K, passing: passing}, o, &res)
	})
	s.Index, s.Results, s.Rows, s.Err = res.Index, len(res.Hits), res.Stats.Exact, err
	m.End(ctx, s)
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
	// sampled is set once the vector was offered to the sample of queries.
	sampled bool
	// byVector and byFeatures are set if the query has these parts; features are the latter by number.
	byVector, byFeatures bool
	features             queryFeatures
	// words are the required and excluded words of a text.
	words words
	// passing are the rows that pass the filter of the search.
	passing where.Passing
	// group is set in a search of several collections, terms are then those of a text.
	group *grouped.Ask
	terms []vector.Feature
}

// both reports whether the query has both parts.
func (a *rowAsk) both() bool { return a.byVector && a.byFeatures }

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
	if a.both() || reranks(&o.Rank) || len(o.After) > 0 || o.Explain && a.byFeatures {
		return ranked(ctx, st, a, o, s, res)
	}
	k := cmp.Or(a.k, math.MaxInt)
	p := part{features: a.byFeatures, index: o.Index, k: k, explain: o.Explain}
	if res.Index, err = searchPart(ctx, st, a, o, s, p); err != nil {
		return err
	}
	res.Stats.Stats, res.Stats.Postings = s.Stats, s.Postings
	s.Found = visible(st, a, s.Found, k)
	res.Hits, err = hitsOf(ctx, st, o, s)
	return err
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
		if err := a.countOver(st, s); err != nil {
			return "", err
		}
		if s.LeastPairs = st.Entry.Text.Pairs; s.LeastPairs > 0 {
			var err error
			if s.Pairs, err = pairsOf(st, s.Features); err != nil {
				return "", err
			}
		}
	default:
		kind.UnitSparse(&s.Unit, a.features.features)
		s.Features = s.Unit
	}
	x, name, err := st.Finder(ctx, p.index, p.features)
	if err != nil {
		return name, err
	}
	sample := !a.sampled && o.Params == nil && !a.stored && o.Where == nil && o.Radius == nil
	if sample && !p.features && name != Flat {
		st.Sampled().Offer(s.Vector)
		a.sampled = true
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
		a.k = grouped.DefaultK
	}
	return checkRank(st, a, &o.Rank)
}

// checkParts refuses options that do not fit the parts of the query.
func (a *rowAsk) checkParts(st *state.Collection, o *SearchOptions) error {
	c, m := st.Entry, a.metric(st)
	switch {
	case o.Radius != nil && a.both():
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

// SearchBatch returns what Search does for each query, in one state and in parallel. Errors have the number
// of the first query that failed.
func (c Collection) SearchBatch(ctx context.Context, queries []Query, o *SearchOptions) ([]Result, error) {
	if o == nil {
		o = &defaultSearch
	}
	m, s := c.span(trace.Search, len(queries))
	var passing where.Passing
	work := par.Work{N: len(queries), Workers: o.Workers}
	out, err := batch(ctx, c, work, func(st *state.Collection) (err error) {
		passing, err = passingRows(ctx, st, o.Where)
		return err
	}, func(st *state.Collection, i int, res *Result) error {
		one := *o
		one.Reuse = newHits(max(0, min(cmp.Or(o.K, grouped.DefaultK), 1024)))
		return search(ctx, st, &rowAsk{q: queries[i], k: o.K, passing: passing}, &one, res)
	})
	for i := range out {
		s.Index, s.Results, s.Rows = out[i].Index, s.Results+len(out[i].Hits), s.Rows+out[i].Stats.Exact
	}
	s.Err = err
	m.End(ctx, s)
	return out, err
}

// batch answers many queries in one state, in parallel. It calls prepare first.
func batch[T any](
	ctx context.Context, c Collection, w par.Work, prepare func(st *state.Collection) error,
	answer func(st *state.Collection, i int, to *T) error,
) ([]T, error) {
	s, err := c.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer c.letGo(s)
	if err := s.read(c.name, prepare); err != nil {
		return nil, err
	}
	out := make([]T, w.N)
	w.Grain = min(8, w.N/(4*par.Workers(w.Workers)))
	err = par.Each(ctx, w, func(i int) error {
		return atQuery(i, s.read(c.name, func(st *state.Collection) error { return answer(st, i, &out[i]) }))
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

// keyRun is the number of hits whose keys are read between two checks of the context.
const keyRun = 256

// hitsOf turns the rows that a search has found into hits, in the memory of o.Reuse.
func hitsOf(ctx context.Context, st *state.Collection, o *SearchOptions, s *kind.Search) ([]Hit, error) {
	// All keys are looked up before the first one is copied: each costs two cache misses, and
	// this way those of different keys overlap.
	s.Keys = s.Keys[:0]
	for i, f := range s.Found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		key, err := st.Key(f.ID)
		if err != nil {
			return nil, err
		}
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(key)), len(key))
		s.Keys = append(s.Keys, key)
	}
	dst := o.Reuse[:0]
	var run *state.ColdRun
	for i, f := range s.Found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		h := Hit{Row: f.ID, Distance: f.Distance}
		if at := slices.IndexFunc(s.Why, func(e *query.Explanation) bool { return e.Row == f.ID }); at >= 0 {
			h.Why = reasonOfHit(s.Why[at])
		}
		var err error
		if dst, err = appendHit(st, dst, h, s.Keys[i], o.Include, &run); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// visible returns up to k rows of the answer with the distances that users see, without the row that the
// query was read from.
func visible(st *state.Collection, a *rowAsk, found []vector.Neighbor, k int) []vector.Neighbor {
	found = leftOut(a, found)
	found = found[:min(k, len(found))]
	if a.metric(st) != vector.L2 {
		return found
	}
	for i := range found {
		found[i].Distance = externalDistance(vector.L2, found[i].Distance)
	}
	kind.OrderEqual(found)
	return found
}

// leftOut leaves out the row that the query was read from.
func leftOut(a *rowAsk, found []vector.Neighbor) []vector.Neighbor {
	if !a.stored {
		return found
	}
	return slices.DeleteFunc(found, func(f vector.Neighbor) bool { return f.ID == a.self })
}

// appendHit appends a hit with a copy of its row's key, in the key memory of dst's spare capacity,
// and with the other parts of the row. It keeps the decoded run of labels and payloads for the
// following hits.
func appendHit(
	st *state.Collection, dst []Hit, h Hit, key []byte, parts Content, run **state.ColdRun,
) ([]Hit, error) {
	n := len(dst)
	if n < cap(dst) {
		dst = dst[:n+1]
	} else {
		dst = append(dst, Hit{})
	}
	h.Key = append(dst[n].Key[:0], key...)
	if parts != 0 {
		cold, err := st.Cold(h.Row, run)
		if err != nil {
			return nil, err
		}
		if parts&Labels != 0 {
			h.Labels = cold.Labels
		}
		if parts&Attributes != 0 {
			h.Attributes, _ = attribute.Split(cold.Attributes)
		}
		if parts&Text != 0 {
			h.Text = cold.Text
		}
		if parts&Payload != 0 {
			h.Payload = cold.Payload
		}
	}
	dst[n] = h
	return dst, nil
}

// newHits allocates n hits with keys of up to 16 bytes, in two allocations: one per key would
// keep the garbage collector busy during the searches of a batch.
func newHits(n int) []Hit {
	const width = 16
	hits, keys := make([]Hit, n), make([]byte, n*width)
	for i := range hits {
		hits[i].Key = keys[i*width : i*width : (i+1)*width]
	}
	return hits[:0]
}

// externalDistance converts the internal distance, which is squared for L2.
func externalDistance(m vector.Metric, d float32) float32 {
	if m == vector.L2 {
		return float32(math.Sqrt(float64(max(d, 0))))
	}
	return d
}

// cosineRounding is the largest rounding error of a cosine distance.
const cosineRounding = 1e-6

// internalRadius returns the largest internal distance whose external distance is at most r, so
// that no hit has a distance above r, apart from rounding errors of the cosine.
func internalRadius(m vector.Metric, r float64) float32 {
	if math.IsInf(r, 1) {
		return float32(r)
	}
	limit := float32(min(r, math.MaxFloat32)) // a distance that overflows is not within it
	if m == vector.Cosine {
		return max(limit, cosineRounding)
	}
	if m != vector.L2 {
		return limit
	}
	if r*r > math.MaxFloat32 {
		return math.MaxFloat32
	}
	d := float32(r * r)
	for d > 0 && externalDistance(m, d) > limit {
		d = math.Nextafter32(d, 0)
	}
	for {
		up := math.Nextafter32(d, math.MaxFloat32)
		if up == d || externalDistance(m, up) > limit {
			return d
		}
		d = up
	}
}
