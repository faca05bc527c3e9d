package db

import (
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// rowChanges are the rows of one collection whose labels or payloads were changed, and those
// among them whose labels were.
type rowChanges struct{ all, relabelled *roaring.Bitmap }

// watch collects the rows that committed transactions change while it is open. What is derived
// from an earlier state and published later, such as an index or a compacted file, learns from
// it which changes it lacks. That need not survive the process, because neither does the work.
type watch struct {
	mu   sync.Mutex
	rows map[uint64]rowChanges // by collection
}

// watches are the open watches of a database.
type watches struct {
	mu   sync.Mutex
	open map[*watch]bool
}

// begin opens a watch. It must be opened before the state is read that it refers to.
func (w *watches) begin() (_ *watch, end func()) {
	one := &watch{rows: map[uint64]rowChanges{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*watch]bool{}
	}
	w.open[one] = true
	return one, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, one)
	}
}

// add records the changes of a committed transaction. The caller holds DB.write, so that a
// transaction that publishes something knows all changes before it.
func (w *watches) add(a *applier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.open {
		for id, t := range a.colls {
			if len(t.changes) > 0 {
				one.add(id, t)
			}
		}
	}
}

func (w *watch) add(id uint64, t *collTx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows, ok := w.rows[id]
	if !ok {
		rows = rowChanges{roaring.New(), roaring.New()}
		w.rows[id] = rows
	}
	for row := range t.changes {
		rows.all.Add(row)
	}
	rows.relabelled.Or(t.relabelled)
}

// relabelled returns a copy of the rows of a collection whose labels were changed so far.
func (w *watch) relabelled(id uint64) *roaring.Bitmap {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rows, ok := w.rows[id]; ok {
		return rows.relabelled.Clone()
	}
	return nil
}

// take returns the rows changed since the last call, by collection.
func (w *watch) take() map[uint64]rowChanges {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.rows
	w.rows = map[uint64]rowChanges{}
	return out
}
