// Package state has one committed state of a database, a generation, and what reads it: rows, keys,
// labels, changes and indexes. Each part is read from the map by its first user, verified, and kept
// for the others.
package state

import (
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/store"
)

// Generation is one committed state of the file: a read transaction and the data decoded from
// it, shared by all snapshots of that state.
type Generation struct {
	File        *File
	state       *store.State
	Tx          *bbolt.Tx // of state
	Commit      uint64    // txn.Manager.commits when the transaction began; the state may be a later one
	Catalog     *layout.Catalog
	Collections map[string]*Collection
}

// Number returns the transaction number in the file plus those of the files that compactions
// replaced.
func (g *Generation) Number() uint64 { return uint64(g.Tx.ID()) + g.File.Before }

// Locked runs f under the mutex of cursors and Get calls on tx.
func (g *Generation) Locked(f func()) { g.state.Locked(f) }

// Acquire adds a reference.
func (g *Generation) Acquire() { g.state.Acquire() }

// Release drops a reference; the last one ends the read transaction.
func (g *Generation) Release() { g.state.Release() }

// Collection returns the collection with a name.
func (g *Generation) Collection(name string) (*Collection, error) {
	if st := g.Collections[name]; st != nil {
		return st, nil
	}
	return nil, fail.NoCollectionNamed(name, slices.Collect(maps.Keys(g.Collections)))
}

// Read calls f with a collection. Faults of the map become errors.
func (g *Generation) Read(coll string, f func(st *Collection) error) (err error) {
	defer Guard(g.File, CatchFaults(), &err)
	st, err := g.Collection(coll)
	if err != nil {
		return err
	}
	return f(st)
}

// Shared returns the generation's state; nil if there is no generation.
func (g *Generation) Shared() *store.State {
	if g == nil {
		return nil
	}
	return g.state
}

// OpenGeneration begins a read transaction on the latest state.
func OpenGeneration(f *File, commit uint64) (g *Generation, err error) {
	defer Guard(f, CatchFaults(), &err)
	if err := f.VerifyPages(layout.PartMeta); err != nil {
		return nil, err
	}
	state, err := f.State()
	if err != nil {
		return nil, FileError(err)
	}
	done := false
	defer func() {
		if !done {
			state.Release()
		}
	}()
	cat, err := layout.ReadCatalog(state.Tx)
	if err != nil {
		return nil, err
	}
	g = &Generation{
		File: f, state: state, Tx: state.Tx, Commit: commit, Catalog: cat, Collections: map[string]*Collection{},
	}
	for _, c := range cat.Collections {
		g.Collections[c.Name] = newCollection(g, c)
	}
	done = true
	return g, nil
}
