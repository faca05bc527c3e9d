// Package sample keeps samples of the queries that users ask, in memory.
package sample

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// Least is the least number of queries by which a recall is measured, Most the largest number that
// can be kept of one collection.
const (
	Least = 20
	Most  = 10_000
)

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

// Of returns the sample of a collection, nil if none is kept. It allocates for a new collection only.
func (q *Queries) Of(collection uint64) *Reservoir {
	if q == nil {
		return nil
	}
	if r := (*q.by.Load())[collection]; r != nil {
		return r
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	by := *q.by.Load()
	if by[collection] == nil {
		by = maps.Clone(by)
		by[collection] = &Reservoir{most: q.most, random: rand.New(rand.NewPCG(1, collection)),
			measured: map[string]int{}}
		q.by.Store(&by)
	}
	return by[collection]
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
	weight float64
	kept   [][]float32
	taken  int // queries that were ever kept
	// measured has the number of queries that had been taken when an index was last measured, by its name.
	measured map[string]int
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
	if len(r.kept) < r.most {
		if r.kept = append(r.kept, slices.Clone(query)); len(r.kept) < r.most {
			return
		}
		r.weight = 1
	} else {
		copy(r.kept[r.random.IntN(r.most)], query)
	}
	r.weight *= math.Pow(1-r.random.Float64(), 1/float64(r.most))
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

// Taken returns the number of queries that were ever kept.
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
