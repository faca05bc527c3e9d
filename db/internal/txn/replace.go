package txn

import (
	"fmt"
	"path/filepath"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
)

// Replacement is a file that takes the place of the current one.
type Replacement struct {
	// File is open under the name Name.
	File *state.File
	Name string
	// Renumbered maps the numbers of collections in the current file to those in the new one, where
	// they differ.
	Renumbered map[uint64]uint64
	// Last is the number of the latest generation of the current file, whose rows the new one has.
	Last uint64
	// Target is the name that the new file gets, without symbolic links. NoSync omits the fsync of
	// later transactions.
	Target string
	NoSync bool
}

// Replace renames the new file to the name of the current one, which it retires, unless that name is
// another file's by now. If the rename cannot be made durable, no further writes are allowed. Replace
// reports whether the file was replaced. It must be called by a function that Locked calls.
func (m *Manager) Replace(r Replacement) (replaced bool, err error) {
	tx, err := r.File.Begin(false)
	if err != nil {
		return false, err
	}
	r.File.Before = r.Last + 1 - uint64(tx.ID()) // may wrap around
	r.File.End(tx)
	if err := m.File().ReplaceBy(r.File, r.Name, r.Target, r.NoSync); err != nil {
		return false, err
	}
	unsettled := store.SyncDir(filepath.Dir(r.Target))
	if unsettled != nil {
		// A crash of the machine may bring the old file back. It is complete and holds the same
		// rows, but would lack those committed from here on.
		unsettled = fmt.Errorf("sync directory: %w", unsettled)
		m.poison.CompareAndSwap(nil, &unsettled)
	}
	m.mu.Lock()
	old, idle := m.file, m.latest
	m.file, m.latest = r.File, nil
	for from, to := range r.Renumbered {
		m.renumbered.Store(from, to)
	}
	m.commits.Add(1)
	m.mu.Unlock()
	if idle != nil {
		idle.Release()
	}
	old.Retire()
	if unsettled != nil {
		return true, fmt.Errorf("%w: %s: %w", fail.ErrUnknownState, m.path, unsettled)
	}
	return true, nil
}

// currentID returns the current number of a collection, which may have been renumbered.
func (m *Manager) currentID(id uint64) uint64 {
	for {
		to, ok := m.renumbered.Load(id)
		if !ok {
			return id
		}
		id = to.(uint64)
	}
}
