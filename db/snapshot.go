package db

import (
	"fmt"
	"sync/atomic"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
)

// Snapshot is one committed state of the database. Its methods are safe for concurrent use.
// Release it soon: the pages of its state are not reused until then, so a long-lived snapshot
// makes the file grow.
type Snapshot struct {
	d        *DB
	gen      *state.Generation
	released atomic.Bool
}

// Snapshot returns the latest committed state. Snapshots of one state share one read
// transaction and its tables. The call costs about as much as locking a mutex; the first one
// after a commit takes some tens of microseconds more.
func (d *DB) Snapshot() (*Snapshot, error) {
	if d.closing.Load() {
		return nil, fmt.Errorf("%w: %s", ErrClosed, d.path)
	}
	d.snapMu.Lock()
	defer d.snapMu.Unlock()
	if d.finished || d.closing.Load() {
		return nil, fmt.Errorf("%w: %s", ErrClosed, d.path)
	}
	commit := d.commits.Load()
	if g := d.cur; g != nil && g.Commit == commit && g.File == d.store {
		g.Acquire()
		return &Snapshot{d: d, gen: g}, nil
	}
	g, err := state.OpenGeneration(d.store, commit)
	if err != nil {
		return nil, err
	}
	if old := d.cur; old != nil {
		d.cur = nil
		old.Release()
	}
	// An idle state is kept for the next reader, unless the file may soon outgrow its map: a
	// writer must then wait until all readers have ended.
	if d.store.Roomy() {
		g.Acquire()
		d.cur = g
	}
	return &Snapshot{d: d, gen: g}, nil
}

// publish makes the next Snapshot call see the latest commit, and releases the database's own
// reference to the previous state, whose pages can be reused once no snapshot holds it.
func (d *DB) publish() {
	d.snapMu.Lock()
	old := d.cur
	d.cur = nil
	d.snapMu.Unlock()
	if old != nil {
		old.Release()
	}
}

// Release releases the snapshot. It must not be used afterwards; a second call has no effect.
func (s *Snapshot) Release() {
	if !s.released.Swap(true) {
		s.gen.Release()
	}
}

// View runs fn on a snapshot of the latest state and releases it.
func (d *DB) View(fn func(*Snapshot) error) error {
	s, err := d.Snapshot()
	if err != nil {
		return err
	}
	defer s.Release()
	return fn(s)
}

// Generation returns a number that grows with every commit.
func (s *Snapshot) Generation() uint64 { return s.gen.Number() }

// Collections lists the collections in order of creation.
func (s *Snapshot) Collections() []CollectionInfo {
	out := make([]CollectionInfo, len(s.gen.Catalog.Collections))
	for i, c := range s.gen.Catalog.Collections {
		out[i] = infoOf(c)
	}
	return out
}

// collection returns a collection's state; every read calls it first.
func (s *Snapshot) collection(name string) (*state.Collection, error) {
	if s.released.Load() {
		return nil, fmt.Errorf("%w: snapshot used after Release", ErrClosed)
	}
	if st := s.gen.Collections[name]; st != nil {
		return st, nil
	}
	return nil, fmt.Errorf("%w: %q", fail.NoCollection, name)
}
