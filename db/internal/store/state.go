package store

import (
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// State is one committed state of a file: a read transaction that is shared by counting
// references.
type State struct {
	Tx     *bbolt.Tx
	file   *File
	refs   atomic.Int64
	opened time.Time
	mu     sync.Mutex // see Lock
}

// State begins a read transaction on the latest state. The caller has one reference.
//
// Errors: those of Begin.
func (f *File) State() (*State, error) {
	tx, err := f.Begin(false)
	if err != nil {
		return nil, err
	}
	s := &State{Tx: tx, file: f, opened: time.Now()}
	s.refs.Store(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[s] = struct{}{}
	return s, nil
}

// Acquire adds a reference.
func (s *State) Acquire() { s.refs.Add(1) }

// Release drops a reference; the last one ends the read transaction. A retired file is closed
// with its last state.
func (s *State) Release() {
	if s.refs.Add(-1) != 0 {
		return
	}
	f := s.file
	f.End(s.Tx)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.states, s)
	f.closeIdle()
}

// Lock must be held while a cursor or Get is used on Tx: bbolt updates the statistics of its
// transaction without synchronization.
func (s *State) Lock() { s.mu.Lock() }

// Unlock releases Lock.
func (s *State) Unlock() { s.mu.Unlock() }

// Locked runs f under Lock. It releases the lock even if bbolt panics on a damaged page;
// otherwise the next reader of the state would block forever.
func (s *State) Locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Readers returns the number of references to states and the age of the oldest state that has
// any. One reference to idle, which may be nil, does not count.
func (f *File) Readers(idle *State) (n int, oldest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.states {
		held := int(s.refs.Load())
		if s == idle {
			held--
		}
		if held > 0 {
			n += held
			oldest = max(oldest, time.Since(s.opened))
		}
	}
	return n, oldest
}
