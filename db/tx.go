package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
)

// Tx is a transaction: the changes of one Update, and reads that see them.
type Tx struct {
	d     *DB
	ctx   context.Context
	cat   *layout.Catalog
	ops   []apply.Op
	bytes int
	seen  map[string]map[string]int // collection → key → index in ops
	state *Snapshot                 // the state that is read, set by the first read
	runs  map[string]*state.ColdRun // the labels and payloads read last, by collection
	reads map[apply.Key]apply.Found
	err   error
	done  bool
}

// request is a transaction waiting for a writer.
type request struct {
	ops   []apply.Op
	reads map[apply.Key]apply.Found
	store *state.File // of the state that was read
	bytes int
	done  chan error
}

// size returns the approximate memory of a row in bytes.
func (r *Row) size() int {
	return 4*len(r.Vector) + 8*r.Sparse.Len() + 32*len(r.Features) + len(r.Key) + len(r.Payload)
}

// commitBytes is the approximate amount of data of waiting transactions that are committed
// together.
const commitBytes = 64 << 20

// TxCollection is a handle of a collection in a transaction: its reads see the transaction's
// own changes.
type TxCollection struct {
	t    *Tx
	name string
}

// Collection returns a handle of the collection with the name.
func (t *Tx) Collection(name string) TxCollection { return TxCollection{t, name} }

// Put adds a row, or replaces the row with the same key. Everything is copied. Of several
// changes of one key the last one counts. The first error of a change also fails the whole
// Update.
//
// Errors: ErrNotFound, ErrInvalid.
func (c TxCollection) Put(r Row) error { return c.put(r, false) }

// Insert adds a row like Put, but never replaces one: if a row has the key when the
// transaction is committed, Update fails with ErrExists; if the transaction itself
// has put one, so does Insert.
//
// Errors: those of Put, ErrExists.
func (c TxCollection) Insert(r Row) error { return c.put(r, true) }

func (c TxCollection) put(r Row, insert bool) error {
	return c.t.add(c.name, func(c *layout.Collection) (apply.Op, error) {
		if err := checkRow(&r, c); err != nil {
			return apply.Op{}, err
		}
		return apply.Op{Row: copyRow(&r), Insert: insert, Bytes: r.size()}, nil
	})
}

// Delete removes the row with the key. A key that no row has is no error; Has
// reports whether one has it.
//
// Errors: ErrNotFound, ErrInvalid.
func (c TxCollection) Delete(key []byte) error {
	return c.t.add(c.name, func(*layout.Collection) (apply.Op, error) {
		if err := layout.CheckKey(key); err != nil {
			return apply.Op{}, err
		}
		row := apply.Row{Row: rows.Row{Key: slices.Clone(key)}}
		return apply.Op{What: apply.Delete, Row: row, Bytes: len(key)}, nil
	})
}

// SetLabels replaces the labels of the row with the key: of the one that the transaction has put,
// or of the stored one, which keeps its number and its place in every index. Indexes that learn
// from labels are brought up to date by maintenance.
//
// SetLabels reads the key as Get does: if another transaction changes the row before this one
// is committed, Update runs its function again. ErrNotFound does not fail the Update; every
// other error does.
//
// Errors: ErrNotFound, ErrInvalid.
func (c TxCollection) SetLabels(key []byte, labels ...string) error {
	return c.t.edit(c.name, key, func(r *apply.Row) error {
		if err := layout.CheckLabels(key, labels); err != nil {
			return err
		}
		r.Labels = labelSet(labels)
		return nil
	})
}

// SetPayload replaces the payload of the row with the key, like SetLabels. No index is concerned.
//
// Errors: ErrNotFound, ErrInvalid.
func (c TxCollection) SetPayload(key, payload []byte) error {
	return c.t.edit(c.name, key, func(r *apply.Row) error {
		if err := layout.CheckPayload(key, payload); err != nil {
			return err
		}
		r.Payload = slices.Clone(payload)
		return nil
	})
}

// Len returns the number of keys changed so far.
func (t *Tx) Len() int { return len(t.ops) }

// Get returns the row with the key as the transaction leaves it: the one that it
// has put, whose number (Row.Row) is 0, or a copy of the stored one. All reads of a
// transaction see one committed state. If another transaction changes the key
// before this one is committed, Update runs its function again.
//
// Errors: ErrNotFound, ErrInvalid.
func (c TxCollection) Get(key []byte) (r Row, err error) {
	o, err := c.t.own(c.name, key)
	switch {
	case err != nil:
		return Row{}, err
	case o != nil && o.What == apply.Delete:
		return Row{}, notFound(c.name, key)
	case o != nil && o.What == apply.Put:
		return rowOf(&o.Row), nil
	}
	r, err = c.t.state.Collection(c.name).Get(key)
	if o != nil {
		r.Labels, r.Payload = slices.Clone(o.Row.Labels), slices.Clone(o.Row.Payload)
		return r, err
	}
	if err == nil || errors.Is(err, fail.NoRow) {
		if unread := c.t.note(c.name, key, r.Row, err == nil); unread != nil {
			return Row{}, unread
		}
	}
	return r, err
}

// Has reports whether a row has the key, like Get without reading the row.
//
// Errors: ErrNotFound, ErrInvalid.
func (c TxCollection) Has(key []byte) (exists bool, err error) {
	o, err := c.t.own(c.name, key)
	if err != nil || o != nil {
		return err == nil && o.What != apply.Delete, err
	}
	var row uint32
	err = c.t.state.read(c.name, func(st *state.Collection) (err error) {
		row, exists, err = st.Find(key)
		return err
	})
	if err == nil {
		err = c.t.note(c.name, key, row, exists)
	}
	return exists, err
}

// own returns the transaction's change of a key; if there is none, t.state is set.
func (t *Tx) own(coll string, key []byte) (*apply.Op, error) {
	if t.done {
		return nil, fmt.Errorf("%w: transaction used after Update returned", ErrClosed)
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
	if t.state != nil {
		return nil, nil
	}
	s, err := t.d.Snapshot()
	t.state = s
	return nil, err
}

// note records the result of a read.
func (t *Tx) note(coll string, key []byte, row uint32, exists bool) error {
	f := apply.Found{Row: row, Exists: exists}
	var id uint64
	err := t.state.read(coll, func(st *state.Collection) (err error) {
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

func notFound(coll string, key []byte) error {
	return fmt.Errorf("%w: key %q in collection %q", fail.NoRow, key, coll)
}

func (t *Tx) add(coll string, make func(*layout.Collection) (apply.Op, error)) (err error) {
	if t.done {
		return fmt.Errorf("%w: transaction used after Update returned", ErrClosed)
	}
	defer t.keep(&err)
	c, err := t.cat.Find(coll)
	if err != nil {
		return err
	}
	o, err := make(c)
	if err != nil {
		return fail.Wrapf(err, "collection %q", coll)
	}
	o.ID, o.Collection = c.ID, coll
	keys := t.seen[coll]
	if keys == nil {
		keys = map[string]int{}
		t.seen[coll] = keys
	}
	if i, again := keys[string(o.Row.Key)]; again {
		return t.change(&t.ops[i], o)
	}
	if err := t.d.backlog.grow(t.ctx, o.Bytes); err != nil {
		return err
	}
	t.bytes += o.Bytes
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
	if more := o.Bytes - earlier.Bytes; more > 0 {
		if err := t.d.backlog.grow(t.ctx, more); err != nil {
			return err
		}
	} else {
		t.d.backlog.shrink(-more)
	}
	t.bytes += o.Bytes - earlier.Bytes
	o.Insert = earlier.Insert
	*earlier = o
	return nil
}

// edit changes labels or payload of the row with the key.
func (t *Tx) edit(coll string, key []byte, f func(*apply.Row) error) (err error) {
	defer func() {
		if !errors.Is(err, fail.NoRow) {
			t.keep(&err)
		}
	}()
	o, err := t.own(coll, key)
	if err != nil {
		return err
	}
	if o != nil && o.What == apply.Delete {
		return notFound(coll, key)
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
	if read && slices.Equal(r.Labels, o.Before) && bytes.Equal(r.Payload, o.Row.Payload) {
		return nil
	}
	if read {
		return t.add(coll, func(*layout.Collection) (apply.Op, error) {
			o.Row, o.Bytes = r, len(key)+r.ColdSize()
			return *o, nil
		})
	}
	more := r.ColdSize() - o.Row.ColdSize()
	if more > 0 {
		if err := t.d.backlog.grow(t.ctx, more); err != nil {
			return err
		}
	} else {
		t.d.backlog.shrink(-more)
	}
	t.bytes, o.Bytes, o.Row = t.bytes+more, o.Bytes+more, r
	return nil
}

// stored reads the labels and the payload of a stored row as a change that changes nothing yet.
func (t *Tx) stored(coll string, key []byte) (o *apply.Op, err error) {
	err = t.state.read(coll, func(st *state.Collection) error {
		row, exists, err := st.Find(key)
		if err == nil {
			err = t.note(coll, key, row, exists)
		}
		if err != nil {
			return err
		}
		if !exists {
			return notFound(coll, key)
		}
		run := t.runs[coll]
		labels, payload, err := st.Cold(row, &run)
		if err != nil {
			return err
		}
		if t.runs == nil {
			t.runs = map[string]*state.ColdRun{}
		}
		t.runs[coll] = run
		o = &apply.Op{
			What: apply.Change, Before: labels,
			Row: apply.Row{Row: rows.Row{Key: slices.Clone(key), Labels: labels, Payload: payload}},
		}
		return nil
	})
	return o, err
}

// Update runs a transaction: fn reads and changes rows, and then all changes are
// written or none. When Update returns nil they are durable and visible to every
// snapshot taken from then on. Concurrent updates share commits and their fsync.
// If fn, or any change in it, fails, nothing is written. While transactions of
// Options.BacklogBytes wait for the disk, Update and Put wait for room.
//
// Updates do not wait for each other while fn runs. If a key that fn has read, by
// Get, Has, SetLabels or SetPayload, is changed by another transaction before this one
// is committed, fn runs again on the new state, as often as that happens: it must be
// repeatable.
//
// Cancelling the context before the commit has begun leaves the database unchanged; later it
// has no effect.
//
// Errors: those of the changes and of fn, ErrInvalid if fn is nil, ErrExists (see Insert).
func (d *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	for {
		b, err := d.fillTx(ctx, fn)
		if err != nil {
			return err
		}
		if err := d.applyTx(ctx, b); !errors.Is(err, apply.ErrConflict) {
			return err
		}
	}
}

// fillTx waits for the backlog and lets fn fill a transaction. If it returns no error, applyTx
// must follow.
func (d *DB) fillTx(ctx context.Context, fn func(*Tx) error) (_ *Tx, err error) {
	if fn == nil {
		return nil, fmt.Errorf("%w: Update without a function", fail.Option)
	}
	if err := d.writable(ctx); err != nil {
		return nil, err
	}
	if err := d.backlog.grow(ctx, 0); err != nil {
		return nil, err
	}
	s, err := d.Snapshot()
	if err != nil {
		return nil, err
	}
	b := &Tx{d: d, ctx: ctx, cat: s.gen.Catalog, seen: map[string]map[string]int{}}
	// The catalog is a copy in memory. A transaction that reads nothing, such as a large load,
	// must not pin the pages of a state.
	s.Release()
	filled := false
	defer func() {
		b.done = true
		if b.state != nil {
			b.state.Release()
		}
		if !filled {
			d.backlog.shrink(b.bytes)
		}
	}()
	if err = fn(b); err == nil {
		err = b.err
	}
	filled = err == nil
	return b, err
}

// applyTx commits a filled transaction.
func (d *DB) applyTx(ctx context.Context, b *Tx) error {
	defer d.backlog.shrink(b.bytes)
	if len(b.ops) == 0 {
		return nil
	}
	r := &request{ops: b.ops, reads: b.reads, bytes: b.bytes, done: make(chan error, 1)}
	if b.state != nil {
		r.store = b.state.gen.File
	}
	return d.submit(ctx, r)
}

// writable returns an error if the database cannot be written to.
func (d *DB) writable(ctx context.Context) error {
	switch {
	case d.closing.Load():
		return fmt.Errorf("%w: %s", ErrClosed, d.path)
	case d.opts.ReadOnly:
		return fmt.Errorf("%w: %s", ErrReadOnly, d.path)
	}
	if p := d.poison.Load(); p != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknownState, d.path, fail.Inner{Err: *p})
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("db: %w", err)
	}
	return nil
}
