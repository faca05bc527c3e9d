package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Query is what a search or a prediction is asked about; one field is set. A sparse query may be
// empty. Features that no row has ever had count in its length, so they lessen all similarities.
type Query struct {
	Vector   []float32
	Sparse   vector.Sparse
	Features []Feature
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
	Explain bool    // fill in Hit.Why; dense collections only
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
)

// Flat is the index name that selects an exact scan of all rows.
const Flat = "flat"

// defaultK is the number of hits of a search that does not say.
const defaultK = 10

// Hit is one result of a search. Its memory belongs to the caller.
type Hit struct {
	Key []byte
	Row uint32 // the row's number
	// Distance is Euclidean for L2, 1 - cosine for Cosine and sparse rows, and the negated dot
	// product for InnerProduct: smaller is nearer.
	Distance   float32
	Labels     []string // Labels, Payload and Attributes are set if SearchOptions.Include says so
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
	sparse   bool
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
		return search(ctx, st, rowAsk{q: q, k: o.K, passing: passing}, o, &res)
	})
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

// search finds the rows nearest to a query in one state.
func search(ctx context.Context, st *state.Collection, ask rowAsk, o *SearchOptions, res *Result) error {
	switch {
	case ask.k < 0:
		return fmt.Errorf("%w: k is %d in a search of %q, want 0 or more", fail.K, ask.k, st.Entry.Name)
	case o.Radius != nil && !(*o.Radius >= 0 || *o.Radius < 0 && st.Entry.Metric == vector.InnerProduct):
		return fmt.Errorf("%w: radius %g, want 0 or more: no %v distance is below 0", fail.Option, *o.Radius,
			st.Entry.Metric)
	case !(o.Recall >= 0 && o.Recall <= 1):
		return fmt.Errorf("%w: target recall %g, want 0 to 1", fail.Option, o.Recall)
	case ask.k == 0 && o.Radius == nil:
		ask.k = defaultK
	}
	if err := resolveQuery(st, &ask); err != nil {
		return err
	}
	if st.Entry.Sparse {
		return searchSparse(ctx, st, &ask, o, res)
	}
	return searchDense(ctx, st, &ask, o, res)
}

// rowAsk is a search for rows in one collection.
type rowAsk struct {
	q Query
	k int // zero if the radius is the only limit
	// self is the number of the row that the query was read from, if stored is set.
	self   uint32
	stored bool
	// passing are the rows that pass the filter of the search.
	passing where.Passing
	// verdicts has the rows that functions of the filter have judged, where the search may judge them again.
	verdicts map[uint32]bool
}

// resolveQuery checks that the query is of one kind and replaces a key by its row.
func resolveQuery(st *state.Collection, a *rowAsk) error {
	q := &a.q
	if q.Key == nil {
		return nil
	}
	if q.Vector != nil || q.Sparse.Len() > 0 || len(q.Features) > 0 {
		return fmt.Errorf("%w: a query with a key and a vector", fail.Option)
	}
	r, err := getRow(st, q.Key)
	if err != nil {
		return fail.Wrapf(err, "query like a stored row")
	}
	a.q, a.self, a.stored = Query{Vector: r.Vector, Sparse: r.Sparse, Features: r.Features}, r.Row, true
	return nil
}

// A search within a radius looks for the nearest nearFirst rows, and for nearMore times as many as long as
// all of them are within. Beyond nearMost rows, an exact scan is cheaper than that.
const (
	nearFirst = 64
	nearMore  = 4
	nearMost  = 4096
)

// nearer returns the number of rows that a search looks for first, and the largest number.
func (a *rowAsk) nearer(o *SearchOptions) (first, most int) {
	switch {
	case o.Radius == nil || o.Params != nil:
		return a.k, a.k
	case a.k == 0:
		return nearFirst, math.MaxInt
	}
	return min(a.k, nearFirst), a.k
}

func searchDense(ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, res *Result) error {
	near := *a
	first, most := a.nearer(o)
	if first < most && a.passing.Accept != nil {
		near.verdicts = map[uint32]bool{}
	}
	for near.k = first; ; near.k = min(nearMore*near.k, most) {
		view, index, p, err := prepareSearch(ctx, st, &near, o)
		if err != nil {
			return err
		}
		res.Index, res.Hits = index, o.Reuse[:0]
		if st.Entry.Live == 0 {
			return nil
		}
		if o.Radius != nil && (p.Method == query.Flat && !p.Sketch || o.Params != nil) {
			p.Range, p.Radius, p.K = true, internalRadius(view.Metric, *o.Radius), min(a.k, int(st.Entry.Live))
		}
		sc := st.Gen.File.Scratches.Take()
		sc.Params = p
		beyond, err := searchWith(ctx, st, sc, view, &near, o, res)
		// A panic must not return the scratch: a fault in the map leaves its counters incomplete.
		st.Gen.File.Scratches.Give(sc)
		if err != nil || !beyond || near.k == most {
			return err
		}
	}
}

// searchWith searches with the parameters of the scratch. beyond reports that more rows than it has
// looked for may be within the radius.
func searchWith(
	ctx context.Context, st *state.Collection, sc *state.Scratch, view *query.View, a *rowAsk,
	o *SearchOptions, res *Result,
) (beyond bool, err error) {
	applyFilters(st, a, &sc.Params)
	sc.Found, res.Stats.Stats, err = sc.Searcher.Search(ctx, view, a.q.Vector, &sc.Params, sc.Found[:0])
	if err != nil {
		return false, fail.Wrapf(kind.AsParameter(err), "search %q", st.Entry.Name)
	}
	if o.Radius != nil && !sc.Params.Range {
		radius, n := internalRadius(view.Metric, *o.Radius), len(sc.Found)
		for len(sc.Found) > 0 && sc.Found[len(sc.Found)-1].Distance > radius {
			sc.Found = sc.Found[:len(sc.Found)-1]
		}
		beyond = n == len(sc.Found) && n == a.k
	}
	res.Hits, err = appendHits(ctx, st, view, o, sc, res.Hits)
	return beyond, err
}

var defaultSearch SearchOptions

// keyRun is the number of hits whose keys are read between two checks of the context.
const keyRun = 256

// appendHits turns row numbers and internal distances into hits, reusing the key memory
// of dst's spare capacity.
func appendHits(
	ctx context.Context, st *state.Collection, view *query.View, o *SearchOptions, sc *state.Scratch, dst []Hit,
) ([]Hit, error) {
	orderEqual(view.Metric, sc.Found)
	// All keys are looked up before the first one is copied: each costs two cache misses, and
	// this way those of different keys overlap.
	sc.Keys = sc.Keys[:0]
	for i, f := range sc.Found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		key, err := st.Key(f.ID)
		if err != nil {
			return nil, err
		}
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(key)), len(key))
		if request := view.Rows.Request; request != nil {
			request(key)
		}
		sc.Keys = append(sc.Keys, key)
	}
	var run *state.ColdRun
	for i, f := range sc.Found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		h := Hit{Row: f.ID, Distance: externalDistance(view.Metric, f.Distance)}
		if o.Explain {
			e, err := sc.Searcher.ExplainLast(ctx, f.ID)
			if err != nil {
				return nil, fail.Wrapf(err, "explain row %d of %q", f.ID, st.Entry.Name)
			}
			h.Why = reasonOfHit(e)
		}
		var err error
		if dst, err = appendHit(st, dst, h, sc.Keys[i], o.Include, &run); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// orderEqual orders rows, nearest first, whose distances are equal once they are converted by number.
func orderEqual(m vector.Metric, found []vector.Neighbor) {
	if m != vector.L2 {
		return // not converted
	}
	for i := 0; i < len(found); {
		from, d := i, externalDistance(m, found[i].Distance)
		for i++; i < len(found) && externalDistance(m, found[i].Distance) == d; i++ {
		}
		if i > from+1 {
			slices.SortFunc(found[from:i], func(a, b vector.Neighbor) int { return cmp.Compare(a.ID, b.ID) })
		}
	}
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
		if parts&Payload != 0 {
			h.Payload = cold.Payload
		}
	}
	dst[n] = h
	return dst, nil
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
			return search(ctx, st, rowAsk{q: queries[i], k: o.K, passing: passing}, &one, &out[i])
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

// prepareSearch checks the call and resolves index and parameters.
func prepareSearch(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions,
) (view *query.View, index string, p query.Params, err error) {
	k := a.k
	if a.q.Sparse.Len() > 0 || len(a.q.Features) > 0 {
		return nil, "", p, fmt.Errorf("%w: a query of features, %q is dense", fail.Kind, st.Entry.Name)
	}
	if err := kind.CheckQuery(a.q.Vector, st.Entry.Dim); err != nil {
		return nil, "", p, fail.Wrapf(err, "query to collection %q", st.Entry.Name)
	}
	if err := checkDenseAsk(st, o); err != nil {
		return nil, "", p, err
	}
	view, x, err := st.Target(ctx, o.Index)
	if err != nil {
		return nil, "", p, err
	}
	index = Flat
	if x != nil {
		index = x.Manifest.Info.Name
	}
	switch {
	case o.Params != nil:
		p = *o.Params
	case x == nil:
		p.Method = query.Flat
	default:
		if !a.stored && o.Where == nil && o.Radius == nil {
			st.Sampled().Offer(a.q.Vector)
		}
		p, err = x.Opened.(kind.RowFinder).Setting(cmp.Or(o.Recall, defaultRecall), cmp.Or(k, defaultK))
		if err != nil {
			return nil, "", p, fail.Wrapf(err, "search of collection %q", st.Entry.Name)
		}
	}
	if o.Params == nil && (k >= int(st.Entry.Live) || o.Radius != nil && k > nearMost) {
		p = query.Params{Method: query.Flat}
	}
	p.K = min(k, int(st.Entry.Live))
	return view, index, p, nil
}

// checkDenseAsk checks the options of a search of a dense collection.
func checkDenseAsk(st *state.Collection, o *SearchOptions) error {
	if o.Params != nil && o.Params.Filter != nil {
		return fmt.Errorf("%w: parameters with a bitmap in a search of %q: use SearchOptions.Where",
			fail.Option, st.Entry.Name)
	}
	return nil
}

// defaultRecall is the target recall of a search without one.
const defaultRecall = 0.95

// applyFilters restricts the parameters of a dense search to the rows that pass the filters of the
// call.
func applyFilters(st *state.Collection, a *rowAsk, p *query.Params) {
	p.Filter = a.passing.Set
	if a.stored {
		prev, self := p.Accept, a.self
		p.Accept = func(row uint32) bool { return row != self && (prev == nil || prev(row)) }
	}
	if passing, verdicts := a.passing, a.verdicts; passing.Accept != nil {
		prev := p.Accept
		p.Accept = func(row uint32) bool {
			if prev != nil && !prev(row) {
				return false
			}
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
	limit := float32(r)
	if m == vector.Cosine {
		return max(limit, cosineRounding)
	}
	if m != vector.L2 || r*r > math.MaxFloat32 {
		return limit
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
