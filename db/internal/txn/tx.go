package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
)

// Tx collects the changes of one transaction, and what it has read.
type Tx struct {
	m      *Manager
	ctx    context.Context
	cat    *layout.Catalog
	ops    []apply.Op
	bytes  int
	seen   map[string]map[string]int // collection → key → index in ops
	memory []float32                 // of vectors, in a load: used again once it is committed
	room   int                       // coordinates that memory is made for when it is needed
	gen    *state.Generation         // the state that is read, set by the first read
	runs   map[string]*state.ColdRun // read last, by collection
	reads  map[apply.Key]apply.Found
	err    error
	done   bool
}

// Update lets f fill a transaction and commits it. It does both again if a key that f has read was
// changed before the commit.
func (m *Manager) Update(ctx context.Context, f func(*Tx) error) error {
	for {
		t, err := m.Fill(ctx, f)
		if err != nil {
			return err
		}
		if err := t.Commit(ctx); !errors.Is(err, apply.ErrConflict) {
			return err
		}
	}
}

// Fill waits for the backlog and lets f fill a transaction. If it returns no error, Commit or
// Discard must follow.
func (m *Manager) Fill(ctx context.Context, f func(*Tx) error) (_ *Tx, err error) {
	if err := m.Writable(ctx); err != nil {
		return nil, err
	}
	if err := m.backlog.grow(ctx, 0); err != nil {
		return nil, err
	}
	g, err := m.Latest()
	if err != nil {
		return nil, err
	}
	t := &Tx{m: m, ctx: ctx, cat: g.Catalog, seen: map[string]map[string]int{}}
	// The catalog is a copy in memory. A transaction that reads nothing, such as a large load,
	// must not pin the pages of a state.
	g.Release()
	filled := false
	defer func() {
		t.done = true
		if t.gen != nil {
			t.gen.Release()
		}
		if !filled {
			t.Discard()
		}
	}()
	if err = f(t); err == nil {
		err = t.err
	}
	filled = err == nil
	return t, err
}

// Commit commits a filled transaction. It returns apply.ErrConflict if a key that the transaction
// has read was changed since then.
func (t *Tx) Commit(ctx context.Context) error {
	defer t.Discard()
	if len(t.ops) == 0 {
		return nil
	}
	r := &request{ops: t.ops, reads: t.reads, bytes: t.bytes, done: make(chan error, 1)}
	if t.gen != nil {
		r.file = t.gen.File
	}
	s := commitSpan(t.m.Start(), t.ops, t.bytes)
	s.Err = t.m.submit(ctx, r)
	t.m.End(ctx, s)
	return s.Err
}

// open refuses a transaction that is not being filled.
func (t *Tx) open() error {
	if t == nil || t.done {
		return fmt.Errorf("%w: a transaction used outside its Update", fail.ErrClosed)
	}
	return nil
}

// Copy returns a copy of a vector for a change of the transaction.
func (t *Tx) Copy(x []float32) []float32 {
	if t.memory == nil && t.room > 0 {
		t.memory = make([]float32, 0, t.room)
	}
	from := len(t.memory)
	if len(x) > cap(t.memory)-from {
		return slices.Clone(x)
	}
	t.memory = append(t.memory, x...)
	return t.memory[from:len(t.memory):len(t.memory)]
}

// Discard ends a filled transaction that is not committed.
func (t *Tx) Discard() { t.m.backlog.shrink(t.bytes) }

// Bytes returns the approximate size of the changes so far.
func (t *Tx) Bytes() int { return t.bytes }

// Read calls f with a collection in the state that the transaction reads, after Own has returned no
// change. Faults of the map become errors.
func (t *Tx) Read(coll string, f func(st *state.Collection) error) error { return t.gen.Read(coll, f) }

// Own returns the transaction's change of a key, nil if there is none. Then it has begun the state that Read
// reads, if that was not done before.
func (t *Tx) Own(coll string, key []byte) (*apply.Op, error) {
	if err := t.open(); err != nil {
		return nil, err
	}
	if _, err := t.cat.Find(coll); err != nil {
		return nil, err
	}
	if err := layout.CheckKey(key); err != nil {
		return nil, fail.Wrapf(err, "collection %q", coll)
	}
	if i, ok := t.seen[coll][string(key)]; ok {
		return &t.ops[i], nil
	}
	if t.gen != nil {
		return nil, nil
	}
	s, err := t.m.Latest()
	t.gen = s
	return nil, err
}

// Expired returns the stored row with the key if it has expired, and otherwise nil.
func (t *Tx) Expired(coll string, key []byte) (found *apply.Found, err error) {
	if o, err := t.Own(coll, key); o != nil || err != nil {
		return nil, err
	}
	err = t.Read(coll, func(st *state.Collection) error {
		row, stored, err := st.Find(key)
		if err != nil || !stored {
			return err
		}
		if _, unexpired, err := st.FindUnexpired(key); unexpired || err != nil {
			return err
		}
		found = &apply.Found{Row: row, Exists: true}
		found.Revision, err = st.Revision(row)
		return err
	})
	return found, err
}

// Note records the result of a read, which the commit compares with the state then.
func (t *Tx) Note(coll string, key []byte, row uint32, exists bool) error {
	f := apply.Found{Row: row, Exists: exists}
	var id uint64
	err := t.gen.Read(coll, func(st *state.Collection) (err error) {
		if id = st.Entry.ID; exists {
			f.Revision, err = st.Revision(row)
		}
		return err
	})
	if err != nil {
		return err
	}
	if t.reads == nil {
		t.reads = map[apply.Key]apply.Found{}
	}
	t.reads[apply.Key{Collection: id, Key: string(key)}] = f
	return nil
}

// Add adds the change that op returns for a collection. The first error of Add or Edit fails the
// transaction.
func (t *Tx) Add(coll string, op func(*layout.Collection) (apply.Op, error)) (err error) {
	if err := t.open(); err != nil {
		return err
	}
	defer t.keep(&err)
	c, err := t.cat.Find(coll)
	if err != nil {
		return err
	}
	o, err := op(c)
	if err != nil {
		return fail.Wrapf(err, "collection %q", coll)
	}
	o.ID, o.Collection = c.ID, coll
	keys := t.seen[coll]
	if keys == nil {
		keys = make(map[string]int, cap(t.ops))
		t.seen[coll] = keys
	}
	if i, again := keys[string(o.Row.Key)]; again {
		return t.change(&t.ops[i], o)
	}
	if err := t.resize(o.Bytes); err != nil {
		return err
	}
	keys[string(o.Row.Key)] = len(t.ops)
	t.ops = append(t.ops, o)
	return nil
}

// keep keeps the first error of a change, which fails the Update.
func (t *Tx) keep(err *error) {
	if t.err == nil {
		t.err = *err
	}
}

// change replaces an earlier change of a key by a later one. The earlier one's requirement on
// the state before the transaction remains.
func (t *Tx) change(earlier *apply.Op, o apply.Op) error {
	if o.Insert && earlier.What != apply.Delete {
		return apply.Exists(o.Collection, o.Row.Key)
	}
	if err := t.resize(o.Bytes - earlier.Bytes); err != nil {
		return err
	}
	o.Insert, o.Expired = earlier.Insert, earlier.Expired
	*earlier = o
	return nil
}

// Edit changes the Cold of the row with the key. A missing row does not fail the transaction.
func (t *Tx) Edit(coll string, key []byte, f func(*rows.Row) error) (err error) {
	if err := t.open(); err != nil {
		return err
	}
	defer func() {
		if !errors.Is(err, fail.NoRow) {
			t.keep(&err)
		}
	}()
	o, err := t.Own(coll, key)
	if err != nil {
		return err
	}
	if o != nil && o.What == apply.Delete {
		return NotFound(coll, key)
	}
	read := o == nil
	if read {
		if o, err = t.stored(coll, key); err != nil {
			return err
		}
	}
	r := o.Row
	if err := f(&r); err != nil {
		return fail.Wrapf(err, "collection %q", coll)
	}
	if read && r.Cold.Equal(&o.Before) {
		return nil
	}
	if read {
		return t.Add(coll, func(*layout.Collection) (apply.Op, error) {
			o.Row, o.Bytes = r, len(key)+r.Cold.Size()
			return *o, nil
		})
	}
	more := r.Cold.Size() - o.Row.Cold.Size()
	if err := t.resize(more); err != nil {
		return err
	}
	o.Bytes, o.Row = o.Bytes+more, r
	return nil
}

// resize changes the memory of the transaction by so many bytes. It waits for room in the backlog if
// there are more.
func (t *Tx) resize(more int) error {
	if more > 0 {
		if err := t.m.backlog.grow(t.ctx, more); err != nil {
			return err
		}
	} else {
		t.m.backlog.shrink(-more)
	}
	t.bytes += more
	return nil
}

// Delete removes the row with a key, which need not exist.
func (t *Tx) Delete(coll string, key []byte) error {
	return t.Add(coll, func(*layout.Collection) (apply.Op, error) {
		if err := layout.CheckKey(key); err != nil {
			return apply.Op{}, err
		}
		row := rows.Row{Key: slices.Clone(key)}
		return apply.Op{What: apply.Delete, Row: row, Bytes: len(key)}, nil
	})
}

// stored reads the Cold of a stored row as a change that changes nothing yet.
func (t *Tx) stored(coll string, key []byte) (o *apply.Op, err error) {
	err = t.gen.Read(coll, func(st *state.Collection) error {
		row, exists, err := st.Find(key)
		if err == nil {
			err = t.Note(coll, key, row, exists)
		}
		if err != nil {
			return err
		}
		if !exists {
			return NotFound(coll, key)
		}
		run := t.runs[coll]
		cold, err := st.Cold(row, &run)
		if err != nil {
			return err
		}
		if cold.Expired(time.Now()) {
			return NotFound(coll, key)
		}
		if t.runs == nil {
			t.runs = map[string]*state.ColdRun{}
		}
		t.runs[coll] = run
		o = &apply.Op{
			What: apply.Change, Before: cold,
			Row: rows.Row{Key: slices.Clone(key), Cold: cold},
		}
		return nil
	})
	return o, err
}

// NotFound returns the error for a key that no row has.
func NotFound(coll string, key []byte) error {
	return fmt.Errorf("%w: key %q in collection %q", fail.NoRow, key, coll)
}
