package apply

import (
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// Changes are the rows of one collection whose labels or payloads were changed, and those
// among them whose labels were.
type Changes struct{ All, relabelled *roaring.Bitmap }

// Watch collects the rows that committed transactions change while it is open. What is derived
// from an earlier state and published later, such as an index or a compacted file, learns from
// it which changes it lacks. That need not survive the process, because neither does the work.
type Watch struct {
	mu   sync.Mutex
	rows map[uint64]Changes // by collection
}

// Watches are the open watches of a database.
type Watches struct {
	mu   sync.Mutex
	open map[*Watch]bool
}

// Begin opens a watch. It must be opened before the state is read that it refers to.
func (w *Watches) Begin() (_ *Watch, end func()) {
	one := &Watch{rows: map[uint64]Changes{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*Watch]bool{}
	}
	w.open[one] = true
	return one, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, one)
	}
}

// Add records the changes of a committed transaction. The caller holds the lock
// of writers, so that a transaction that publishes something knows all changes before it.
func (w *Watches) Add(a *Applier) {
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

func (w *Watch) add(id uint64, t *collTx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows, ok := w.rows[id]
	if !ok {
		rows = Changes{roaring.New(), roaring.New()}
		w.rows[id] = rows
	}
	for row := range t.changes {
		rows.All.Add(row)
	}
	rows.relabelled.Or(t.relabelled)
}

// Relabelled returns a copy of the rows of a collection whose labels were changed so far.
func (w *Watch) Relabelled(id uint64) *roaring.Bitmap {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rows, ok := w.rows[id]; ok {
		return rows.relabelled.Clone()
	}
	return roaring.New()
}

// Next returns the rows changed since the last call, by collection.
func (w *Watch) Next() map[uint64]Changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.rows
	w.rows = map[uint64]Changes{}
	return out
}
