package db

import (
	"github.com/anndb/anndb/db/internal/store"
	"go.etcd.io/bbolt"
)

// generation is one committed state of the file: a read transaction and the data decoded from
// it, shared by all snapshots of that state.
type generation struct {
	store  *openFile
	state  *store.State
	tx     *bbolt.Tx // of state
	commit uint64    // DB.commits when the transaction began; the state may be a later one
	cat    *catalog
	colls  map[string]*collState
}

// number returns the transaction number in the file plus those of the files that compactions
// replaced.
func (g *generation) number() uint64 { return uint64(g.tx.ID()) + g.store.before }

// locked runs f under the mutex of cursors and Get calls on tx.
func (g *generation) locked(f func()) { g.state.Locked(f) }

// release drops a reference; the last one ends the read transaction.
func (g *generation) release() { g.state.Release() }

// shared returns the generation's state; nil if there is no generation.
func (g *generation) shared() *store.State {
	if g == nil {
		return nil
	}
	return g.state
}

// openGeneration begins a read transaction on the latest state.
func openGeneration(f *openFile, commit uint64) (g *generation, err error) {
	defer guard(f, setFaults(), &err)
	if err := f.verifyPages(partMeta); err != nil {
		return nil, err
	}
	state, err := f.State()
	if err != nil {
		return nil, fileError(err)
	}
	done := false
	defer func() {
		if !done {
			state.Release()
		}
	}()
	cat, err := getCatalog(state.Tx)
	if err != nil {
		return nil, err
	}
	g = &generation{
		store: f, state: state, tx: state.Tx, commit: commit, cat: cat, colls: map[string]*collState{},
	}
	for _, c := range cat.Collections {
		g.colls[c.Name] = newCollState(g, c)
	}
	done = true
	return g, nil
}
