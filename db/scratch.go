package db

import (
	"runtime"
	"sync"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

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
