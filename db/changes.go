package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/rows"
)

// Labels and payload of a row can change; its key, vector and number cannot. A change is a small
// block of its own, keyed by the row, that replaces what the row's chunk or tail block has. The
// block of the row itself is not written again, for two reasons: a block that never changes is
// verified once per process, and a salvage may use any copy of it that it finds. Changes have
// revisions, so that of several copies of a change the latest is known, and so that a
// transaction notices that a row which it has read was changed.
//
// The set of rows with a change makes reads of other rows cheap, and reveals that a change is
// missing. A change remains when its row is sealed into a chunk, and is deleted with the row. A
// compaction that gives rows new numbers writes the rows with their present labels and payloads.

// change holds the present labels and payload of a row that were changed after it was written.
type change struct {
	revision uint64
	labels   []string
	payload  []byte
}

// encodeChange returns the block of a change: the revision (uint64, little-endian), then labels
// and payload.
func encodeChange(key []byte, x *change) []byte {
	p := binary.LittleEndian.AppendUint64(nil, x.revision)
	h := codec.Header{Kind: codec.KindChange, Rows: 1, Cols: 1}
	return codec.Encode(key, h, rows.AppendCold(p, x.labels, x.payload))
}

// decodeChange decodes the payload of a change. The result does not alias it.
func decodeChange(p []byte) (*change, error) {
	if len(p) < 8 {
		return nil, fmt.Errorf("change of %d bytes is too short for a revision", len(p))
	}
	x := &change{revision: binary.LittleEndian.Uint64(p)}
	var err error
	x.labels, x.payload, err = rows.DecodeCold(p[8:])
	x.payload = slices.Clone(x.payload)
	return x, err
}

// readChange decodes and verifies the block of a change.
func readChange(c *collection, key, value []byte) (*change, error) {
	p, err := decodeBlock(c.Name, key, value, true)
	if err != nil {
		return nil, err
	}
	x, err := decodeChange(p)
	if err == nil && (x.revision == 0 || x.revision > c.Revision) {
		err = fmt.Errorf("revision %d of %d", x.revision, c.Revision)
	}
	if err != nil {
		_, _, row := codec.ParseKey(key)
		return nil, blockError(c.Name, c.ID, codec.KindChange, row, err)
	}
	return x, nil
}

// loadChanges reads the set of rows with changes.
func (st *collState) loadChanges(context.Context) (err error) {
	c, g := st.c, st.g
	if c.Revision == 0 {
		return nil
	}
	if err := g.store.verifyPages(partSets | partTail); err != nil {
		return err
	}
	var set *roaring.Bitmap
	g.locked(func() { set, err = readSet(g.tx, c.Name, c.ID, codec.KindChanged, c.Rows) })
	if err == nil {
		st.changed = set
	}
	return err
}

// change returns the change of a row, nil if it has none.
func (st *collState) change(row uint32) (x *change, err error) {
	if err := st.changesLoad.do(context.Background(), st.loadChanges); err != nil {
		return nil, err
	}
	if st.changed == nil || !st.changed.Contains(row) {
		return nil, nil
	}
	key := codec.Key(st.c.ID, codec.KindChange, row)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucketTail).Get(key[:]) })
	if v == nil {
		return nil, blockError(st.c.Name, st.c.ID, codec.KindChange, row, errors.New("block is missing"))
	}
	return readChange(st.c, key[:], v)
}

// revision returns the number of a row's latest change, 0 if it was never changed.
func (st *collState) revision(row uint32) (uint64, error) {
	x, err := st.change(row)
	if x == nil || err != nil {
		return 0, err
	}
	return x.revision, nil
}

// Relabelled returns the rows whose labels were changed since an index with this main object was
// made; some of them may be deleted. It returns nil if there are none.
func (st *collState) Relabelled(object uint64) (rows *roaring.Bitmap, err error) {
	if st.c.Revision == 0 {
		return nil, nil
	}
	if err := st.g.store.verifyPages(partSets); err != nil {
		return nil, err
	}
	st.g.locked(func() {
		rows, err = readSet(st.g.tx, st.c.Name, object, codec.KindRelabelled, st.c.Rows)
	})
	if err != nil || rows.IsEmpty() {
		return nil, err
	}
	return rows, nil
}

// stale returns the number of live rows below n whose labels were changed since an index with
// this main object was made. Unlike DeletedSet, it does not need the tables of the rows.
func (st *collState) stale(object uint64, n int) (int, error) {
	rows, err := st.Relabelled(object)
	if rows == nil || err != nil {
		return 0, err
	}
	deletedRows, err := st.tombstones()
	if err != nil {
		return 0, err
	}
	if deletedRows != nil {
		rows.AndNot(deletedRows)
	}
	rows.RemoveRange(uint64(n), 1<<32)
	return int(rows.GetCardinality()), nil
}

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
