package state

import (
	"runtime"
	"sync"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Scratch is the reusable memory of one search.
type Scratch struct {
	Searcher *query.Searcher
	Params   query.Params
	Found    []vector.Neighbor
	Keys     [][]byte // of Found, in the map
}

// Scratches holds the scratches of a file that no search uses, at most one per processor.
// The one returned last is taken first, since its memory is most likely in the cache. A
// sync.Pool would lose scratches to the garbage collector, and would have none for a goroutine
// that moves to another processor.
type Scratches struct {
	mu   sync.Mutex
	list []*Scratch
}

// Take returns a scratch that only the caller uses, until it returns it by Give.
func (i *Scratches) Take() *Scratch {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.list); n > 0 {
		sc := i.list[n-1]
		i.list = i.list[:n-1]
		return sc
	}
	return &Scratch{Searcher: query.NewSearcher()}
}

// Give returns a scratch.
func (i *Scratches) Give(sc *Scratch) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.list == nil {
		i.list = make([]*Scratch, 0, runtime.GOMAXPROCS(0))
	}
	if len(i.list) < cap(i.list) {
		i.list = append(i.list, sc)
	}
}
