package state

import (
	"runtime"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
)

// Searches holds the searches of a file that no call uses, at most one per processor.
// The one returned last is taken first, since its memory is most likely in the cache. A
// sync.Pool would lose them to the garbage collector, and would have none for a goroutine
// that moves to another processor.
type Searches struct {
	mu   sync.Mutex
	list []*kind.Search
}

// Take returns a search that only the caller uses, until it returns it by Give.
func (i *Searches) Take() *kind.Search {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.list); n > 0 {
		s := i.list[n-1]
		i.list = i.list[:n-1]
		return s
	}
	return kind.NewSearch()
}

// Give returns a search.
func (i *Searches) Give(s *kind.Search) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.list == nil {
		i.list = make([]*kind.Search, 0, runtime.GOMAXPROCS(0))
	}
	if len(i.list) < cap(i.list) {
		i.list = append(i.list, s)
	}
}
