// Package sample keeps samples of the queries that users ask, in memory. Their stored form is that of
// package layout.
package sample

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// Least is the least number of queries by which a recall is measured. Default is the number of queries that
// are kept of one collection, Most the largest one.
const (
	Least   = 100
	Default = 500
	Most    = 10_000
	// coordinates bounds the size of a sample, unless that has Least queries.
	coordinates = 1 << 20
)

// Stored is what a file keeps of a sample.
type Stored struct {
	Weight  float64 // Reservoir.weight
	Queries [][]float32
}

// Queries are the samples of an open database, one for each collection. A nil one keeps nothing. Its
// methods are safe for concurrent use.
type Queries struct {
	most int
	mu   sync.Mutex // of changes of the map
	by   atomic.Pointer[map[uint64]*Reservoir]
}

// New returns samples of at most so many queries each, nil for 0.
func New(most int) *Queries {
	if most == 0 {
		return nil
	}
	q := &Queries{most: most}
	q.by.Store(&map[uint64]*Reservoir{})
	return q
}

// Of returns the sample of a collection, nil if none is kept. The first time it begins with what stored
// returns; if that is nil, there is none. Later it allocates nothing.
func (q *Queries) Of(collection uint64, stored func() Stored) *Reservoir {
	if q == nil {
		return nil
	}
	if r := (*q.by.Load())[collection]; r != nil || stored == nil {
		return r
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	by := *q.by.Load()
	if by[collection] == nil {
		by = maps.Clone(by)
		by[collection] = newReservoir(q.most, collection, stored())
		q.by.Store(&by)
	}
	return by[collection]
}

// Unsaved yields the samples, by collection, of which at least so many queries are not stored.
func (q *Queries) Unsaved(least int) iter.Seq2[uint64, *Reservoir] {
	return func(yield func(uint64, *Reservoir) bool) {
		if q == nil {
			return
		}
		for id, r := range *q.by.Load() {
			if r.unsaved() >= least && !yield(id, r) {
				return
			}
		}
	}
}

// Renumbered returns the same samples by the numbers that collections get.
func (q *Queries) Renumbered(to map[uint64]uint64) *Queries {
	if q == nil {
		return nil
	}
	by := map[uint64]*Reservoir{}
	for id, r := range *q.by.Load() {
		by[cmp.Or(to[id], id)] = r
	}
	out := &Queries{most: q.most}
	out.by.Store(&by)
	return out
}

// Forget drops the sample of a collection.
func (q *Queries) Forget(collection uint64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	by := maps.Clone(*q.by.Load())
	delete(by, collection)
	q.by.Store(&by)
}

// Reservoir is a uniform sample of the queries that were offered to it. A nil one is empty. Its
// methods are safe for concurrent use.
type Reservoir struct {
	// wait is the number of queries until the next one that is taken (Li 1994, algorithm L), so
	// that the others cost one subtraction.
	wait atomic.Int64

	mu     sync.Mutex // of what follows
	most   int
	random *rand.Rand
	weight float64 // of algorithm L, 0 until there are enough queries
	kept   [][]float32
	taken  int // queries that were ever kept in this process
	saved  int // taken when the sample was stored
	// measured has the number of queries that had been taken when an index was last measured, by its name.
	measured map[string]int
}

func newReservoir(most int, seed uint64, s Stored) *Reservoir {
	r := &Reservoir{most: most, random: rand.New(rand.NewPCG(1, seed)), measured: map[string]int{}}
	if r.kept = s.Queries[:min(most, len(s.Queries))]; len(r.kept) > 0 {
		r.bound(len(r.kept[0]))
	}
	if r.weight = s.Weight; len(r.kept) == r.most {
		r.weight = cmp.Or(r.weight, 1) // fewer queries are kept than before
		r.skip()
	}
	return r
}

// bound bounds the number of queries of so many coordinates.
func (r *Reservoir) bound(dim int) {
	r.most = min(r.most, max(Least, coordinates/dim))
	r.kept = r.kept[:min(len(r.kept), r.most)]
}

// Offer keeps a copy of a query, in place of another one if there are enough, or does nothing. It
// never waits, and allocates only until there are enough.
func (r *Reservoir) Offer(query []float32) {
	if r == nil || r.wait.Add(-1) >= 0 {
		return
	}
	if r.mu.TryLock() { // otherwise the next query is taken instead
		r.take(query)
		r.mu.Unlock()
	}
}

func (r *Reservoir) take(query []float32) {
	r.taken++
	if len(r.kept) == 0 {
		r.bound(len(query))
	}
	if len(r.kept) < r.most {
		if r.kept = append(r.kept, slices.Clone(query)); len(r.kept) < r.most {
			return
		}
	} else {
		copy(r.kept[r.random.IntN(r.most)], query)
	}
	r.weight = cmp.Or(r.weight, 1) * math.Pow(1-r.random.Float64(), 1/float64(r.most))
	r.skip()
}

// skip sets the number of queries until the next one that a full sample takes.
func (r *Reservoir) skip() {
	skip := math.Log(1-r.random.Float64()) / math.Log1p(-r.weight)
	r.wait.Store(int64(min(skip, 1<<62)))
}

// Sizes returns the number of queries, and how many were taken since an index was measured.
func (r *Reservoir) Sizes(index string) (n, fresh int) {
	if r == nil {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.kept), r.taken - r.measured[index]
}

// Queries returns copies of at most n queries.
func (r *Reservoir) Queries(n int) (queries [][]float32) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.kept[:max(0, min(n, len(r.kept)))] {
		queries = append(queries, slices.Clone(q))
	}
	return queries
}

// Stored returns a copy of what is stored, for Saved.
func (r *Reservoir) Stored() (s Stored, taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.kept {
		s.Queries = append(s.Queries, slices.Clone(q))
	}
	s.Weight = r.weight
	return s, r.taken
}

// Saved records that a sample was stored when so many queries had been taken.
func (r *Reservoir) Saved(taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = taken
}

func (r *Reservoir) unsaved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken - r.saved
}

// Taken returns the number of queries that were ever kept in this process.
func (r *Reservoir) Taken() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// Measured records that an index was measured when so many queries had been taken.
func (r *Reservoir) Measured(index string, taken int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured[index] = taken
}
