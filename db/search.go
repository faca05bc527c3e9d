package db

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// SearchOptions selects how Snapshot.Search finds neighbors. The zero value searches the
// collection's only index with recall 0.95, or scans exactly if the collection has no index.
type SearchOptions struct {
	// Index names the index to search. Empty means the collection's only index, or an exact
	// scan if there is none. Flat selects the exact scan.
	Index string
	// Recall is the target that is resolved to parameters with the tuner's curve, 0.95 when
	// zero. It is ignored if Params is given.
	Recall float64
	// Params, if not nil, are used as they are, except for K, which is the argument of the
	// call. Its Filter must be nil, since a search cannot check which numbering its row numbers
	// belong to.
	Params *query.Params
	// Filter keeps only the rows of a set made by Snapshot.RowFilter.
	Filter *RowFilter
	// Labels keeps only rows that have at least one of these labels.
	Labels []string
	// KeyPrefix and Key keep only rows whose key has the prefix and satisfies the predicate,
	// which gets a copy of the key. A search calls Key at most once per row, and not after its
	// context has ended.
	KeyPrefix []byte
	Key       func(key []byte) bool
	// Radius, when positive, returns all rows found within this distance (in the unit of
	// Hit.Distance) instead of the nearest k; k then bounds the number of hits, zero for no
	// bound. Recall is tuned for nearest rows, not for ranges: a range that holds more rows
	// than the index stores neighbors per row (BuildOptions.LabelsK) is better scanned exactly
	// (Index: Flat).
	Radius float64
	// Explain fills in Hit.Explanation.
	Explain bool
}

// Flat is the index name that selects an exact scan of all rows.
const Flat = "flat"

// Hit is one result of a search. Its memory belongs to the caller.
type Hit struct {
	// Key is the row's user key.
	Key []byte
	// Row is the row's number in its collection.
	Row uint32
	// Distance is Euclidean for L2, 1 - cosine for Cosine, and the negated dot
	// product for InnerProduct: smaller is nearer for all three.
	Distance float32
	// Explanation describes how the row was found; nil without SearchOptions.Explain.
	Explanation *query.Explanation
}

// SearchStats counts the work of one search.
type SearchStats = query.Stats

// searchScratch is the reusable memory of one search.
type searchScratch struct {
	s      *query.Searcher
	params query.Params
	found  []vector.Neighbor
	keys   [][]byte // keys of found, in the map
}

// idleSearchers holds the scratches of a file that no search uses, at most one per processor.
// The one returned last is taken first, since its memory is most likely in the cache. A
// sync.Pool would lose scratches to the garbage collector, and would have none for a goroutine
// that moves to another processor.
type idleSearchers struct {
	mu   sync.Mutex
	list []*searchScratch
}

func (i *idleSearchers) take() *searchScratch {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.list); n > 0 {
		sc := i.list[n-1]
		i.list = i.list[:n-1]
		return sc
	}
	return &searchScratch{s: query.NewSearcher()}
}

func (i *idleSearchers) give(sc *searchScratch) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.list == nil {
		i.list = make([]*searchScratch, 0, runtime.GOMAXPROCS(0))
	}
	if len(i.list) < cap(i.list) {
		i.list = append(i.list, sc)
	}
}

// Search appends the k rows nearest to q to dst, nearest first, and returns it with the counts
// of the work done. It may reuse the memory of keys in the spare capacity of dst. q must have
// the collection's dimension. If dst has enough capacity, and without filters by label or key,
// it allocates nothing in steady state. It returns exactly min(k, live rows that pass the
// filters) hits unless the parameters forbid widening: all rows if k is larger, none from an
// empty collection.
//
// Errors: ErrNoCollection, ErrNoIndex, ErrDimension, ErrNotFinite, ErrNorm, ErrK (k < 1),
// ErrOption (no index named among several, or one built with NoTune and no
// Params), ErrFilter, ErrCorrupt, ErrClosed and the context's error.
func (s *Snapshot) Search(
	ctx context.Context, coll string, q []float32, k int, o *SearchOptions, dst []Hit,
) (hits []Hit, stats SearchStats, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if o == nil {
		o = &defaultSearch
	}
	st, err := s.collection(coll)
	if err != nil {
		return dst, stats, err
	}
	view, p, err := st.prepareSearch(ctx, q, k, o)
	if err != nil || st.c.Live == 0 {
		return dst, stats, err
	}
	sc := s.gen.store.searchers.take()
	hits, stats, err = st.searchWith(ctx, sc, view, q, p, o, dst)
	// A panic must not return the scratch: a fault in the map leaves its counters incomplete.
	s.gen.store.searchers.give(sc)
	return hits, stats, err
}

func (st *collState) searchWith(
	ctx context.Context, sc *searchScratch, view *query.View, q []float32, p query.Params,
	o *SearchOptions, dst []Hit,
) (hits []Hit, stats SearchStats, err error) {
	sc.params = p
	if err := st.applyFilters(ctx, o, &sc.params); err != nil {
		return dst, stats, err
	}
	sc.found, stats, err = sc.s.Search(ctx, view, q, &sc.params, sc.found[:0])
	if err != nil {
		return dst, stats, wrapf(asOption(err), "search %q", st.c.Name)
	}
	hits, err = st.appendHits(ctx, view, o, sc, dst)
	return hits, stats, err
}

// asOption adds ErrOption to errors of other packages about parameters, and ErrUnsuitable to
// errors about the rows to learn from.
func asOption(err error) error {
	if errors.Is(err, ErrOption) || errors.Is(err, ErrUnsuitable) {
		return err
	}
	if errors.Is(err, budget.ErrInput) || errors.Is(err, labels.ErrInput) || errors.Is(err, labels.ErrMatrix) {
		return fmt.Errorf("%w: %w", ErrUnsuitable, innerError{err})
	}
	if errors.Is(err, query.ErrParams) || errors.Is(err, query.ErrMethod) || errors.Is(err, postings.ErrParams) ||
		errors.Is(err, forest.ErrParams) || errors.Is(err, budget.ErrParams) {
		return fmt.Errorf("%w: %w", ErrOption, innerError{err})
	}
	return err
}

var defaultSearch SearchOptions

// keyRun is the number of hits whose keys are read between two checks of the context.
const keyRun = 256

// appendHits turns row numbers and internal distances into hits, reusing the key memory
// of dst's spare capacity.
func (st *collState) appendHits(
	ctx context.Context, view *query.View, o *SearchOptions, sc *searchScratch, dst []Hit,
) ([]Hit, error) {
	// All keys are looked up before the first one is copied: each costs two cache misses, and
	// this way those of different keys overlap.
	sc.keys = sc.keys[:0]
	for i, f := range sc.found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return dst, wrapf(ctx.Err(), "search %q", st.c.Name)
		}
		key, err := st.key(f.ID)
		if err != nil {
			return dst, err
		}
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(key)), len(key))
		sc.keys = append(sc.keys, key)
	}
	start := len(dst)
	for i, f := range sc.found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return dst[:start], wrapf(ctx.Err(), "search %q", st.c.Name)
		}
		n := len(dst)
		if n < cap(dst) {
			dst = dst[:n+1]
		} else {
			dst = append(dst, Hit{})
		}
		h := &dst[n]
		*h = Hit{
			Key: append(h.Key[:0], sc.keys[i]...), Row: f.ID, Distance: externalDistance(view.Metric, f.Distance),
		}
		if o.Explain {
			e, err := sc.s.ExplainLast(ctx, f.ID)
			if err != nil {
				return dst[:start], wrapf(err, "explain row %d of %q", f.ID, st.c.Name)
			}
			h.Explanation = e
		}
	}
	return dst, nil
}

// SearchBatch searches for many queries on the given number of goroutines (all processors when
// zero). Element i of the result has the hits of queries[i].
//
// Errors: those of Search, with the number of the first query that failed.
func (s *Snapshot) SearchBatch(
	ctx context.Context, coll string, queries [][]float32, k int, o *SearchOptions, workers int,
) ([][]Hit, error) {
	out := make([][]Hit, len(queries))
	work := par.Work{N: len(queries), Grain: 8, Workers: workers}
	err := par.Each(ctx, work, func(i int) (err error) {
		out[i], _, err = s.Search(ctx, coll, queries[i], k, o, newHits(max(0, min(k, 1024))))
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
	return fmt.Errorf("query %d: %w", i, innerError{err})
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
func (st *collState) prepareSearch(
	ctx context.Context, q []float32, k int, o *SearchOptions,
) (*query.View, query.Params, error) {
	var p query.Params
	if st.c.Sparse {
		return nil, p, fmt.Errorf("%w: %q is sparse", ErrKind, st.c.Name)
	}
	if err := checkQuery(q, st.c.Dim); err != nil {
		return nil, p, wrapf(err, "query to collection %q", st.c.Name)
	}
	switch ranged := o.Radius > 0; {
	case math.IsNaN(o.Radius) || o.Radius < 0:
		return nil, p, fmt.Errorf("%w: radius %g, want 0 for none or more", ErrOption, o.Radius)
	case k < 1 && !ranged:
		return nil, p, fmt.Errorf("%w: k is %d in a search of %q, want at least 1", ErrK, k, st.c.Name)
	case o.Params != nil && o.Params.Filter != nil:
		return nil, p, fmt.Errorf(
			"%w: parameters with a bitmap in a search of %q: give SearchOptions.Filter a RowFilter",
			ErrOption, st.c.Name)
	case o.Recall < 0 || o.Recall > 1 || math.IsNaN(o.Recall):
		return nil, p, fmt.Errorf("%w: target recall %g, want 0 to 1", ErrOption, o.Recall)
	}
	view, m, err := st.target(ctx, o.Index)
	if err != nil {
		return nil, p, err
	}
	switch {
	case o.Params != nil:
		p = *o.Params
	case m == nil:
		p.Method = query.Flat
	default:
		if p, err = m.tuned(cmp.Or(o.Recall, defaultRecall)); err != nil {
			return nil, p, wrapf(err, "search of collection %q", st.c.Name)
		}
	}
	if k >= int(st.c.Live) && o.Params == nil && !(o.Radius > 0) {
		p = query.Params{Method: query.Flat} // all rows are hits
	}
	p.K = min(k, int(st.c.Live))
	if o.Radius > 0 {
		if o.Params == nil && k < 1 {
			// These settings are tuned to reduce the candidates to the nearest few, which would
			// lose most of a wide range.
			p.Sketch, p.Quant, p.Tau, p.Trees = false, false, 0, 0
			if p.Beam > 0 {
				// There is no beam without sketches. Instead, neighbor lists are followed from
				// the nearest hits, as far as a range can be expected to extend.
				p.Beam, p.Hops, p.HopFrom = 0, 8, p.Beam
			}
		}
		p.Range, p.Radius, p.K = true, internalRadius(view.Metric, o.Radius), max(p.K, 0)
	}
	return view, p, nil
}

// checkQuery checks a query vector.
func checkQuery(q []float32, dim int) error {
	if len(q) != dim {
		return fmt.Errorf("%w: %d coordinates, want %d", ErrDimension, len(q), dim)
	}
	// A finite sum of squares has finite terms, so one pass usually is enough.
	if n := vector.Dot(q, q); n <= math.MaxFloat32 {
		return nil
	}
	if i := vector.IsFinite(q); i >= 0 {
		return fmt.Errorf("%w: coordinate %d is %g", ErrNotFinite, i, q[i])
	}
	return fmt.Errorf("%w: length %.3g, want less than %.3g", ErrNorm, math.Sqrt(squaredNorm(q)), MaxNorm)
}

// defaultRecall is the target recall of a search without one.
const defaultRecall = 0.95

// tuned returns the setting for a target recall. It is the exact scan if no measured setting
// reaches the recall, or if there were too few rows to measure any.
func (m *manifest) tuned(recall float64) (query.Params, error) {
	if m.Info.Curve == nil && m.Info.Options.NoTune {
		return query.Params{}, fmt.Errorf(
			"%w: index %q was built without the tuner: a search by it needs its parameters",
			ErrOption, m.Info.Name)
	}
	p, ok := m.Info.Curve.Resolve(recall)
	if !ok {
		p.Method = query.Flat
	}
	return p, nil
}

// applyFilters combines the bitmap, label and key filters of the call.
func (st *collState) applyFilters(ctx context.Context, o *SearchOptions, p *query.Params) error {
	rows, err := st.filtered(o.Filter)
	if err != nil {
		return err
	}
	if p.Filter, err = st.carrying(ctx, o.Labels, rows); err != nil {
		return err
	}
	if prev := p.Accept; prev != nil {
		p.Accept = func(row uint32) bool { return callback(func() bool { return prev(row) }) }
	}
	if len(o.KeyPrefix) > 0 || o.Key != nil {
		prev := p.Accept
		p.Accept = func(row uint32) bool {
			if prev != nil && !prev(row) {
				return false
			}
			ok, err := st.keyPasses(row, o.KeyPrefix, o.Key)
			if err != nil {
				// Damage must not look like "no row passes".
				panic(keyFailure{err})
			}
			return ok
		}
	}
	return nil
}

// carrying returns the rows of a filter, nil meaning all, that have at least one of the
// labels. Without labels it returns the filter itself.
func (st *collState) carrying(
	ctx context.Context, labels []string, filter *roaring.Bitmap,
) (*roaring.Bitmap, error) {
	if len(labels) == 0 {
		return filter, nil
	}
	rows := roaring.New()
	for _, l := range labels {
		r, err := st.labelRows(l)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, wrapf(err, "rows with label %q", l)
		}
		if r != nil {
			rows.Or(r)
		}
	}
	if filter != nil {
		rows.And(filter)
	}
	return rows, nil
}

// keyPasses reports whether a row's key has the prefix and satisfies the caller's predicate,
// which may be nil.
func (st *collState) keyPasses(row uint32, prefix []byte, pred func(key []byte) bool) (bool, error) {
	key, err := st.key(row)
	if err != nil {
		return false, err
	}
	return bytes.HasPrefix(key, prefix) &&
		(pred == nil || callback(func() bool { return pred(slices.Clone(key)) })), nil
}

// keyFailure carries an error out of a filter; guard recovers and returns it.
type keyFailure struct{ error }

// callbackPanic wraps the panic value of a caller's function, so that guard passes it on and
// does not report it as damage.
type callbackPanic struct{ value any }

// callback runs a function of the caller.
func callback(f func() bool) bool {
	defer func() {
		if r := recover(); r != nil {
			panic(callbackPanic{r})
		}
	}()
	return f()
}

// externalDistance converts the internal distance, which is squared for L2.
func externalDistance(m vector.Metric, d float32) float32 {
	if m == vector.L2 {
		return float32(math.Sqrt(float64(max(d, 0))))
	}
	return d
}

// internalRadius returns the largest internal distance whose external distance is at most r, so
// that no hit has a distance above r.
func internalRadius(m vector.Metric, r float64) float32 {
	limit := float32(r)
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
