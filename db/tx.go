package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
)

// Tx is a transaction: the changes of one Update, and reads that see them.
type Tx struct{ tx *txn.Tx }

// TxCollection is a handle of a collection in a transaction, which sees its own changes.
type TxCollection struct {
	t    *txn.Tx
	name string
}

// Collection returns a handle of the collection with the name.
func (t *Tx) Collection(name string) TxCollection {
	if t == nil {
		return TxCollection{name: name}
	}
	return TxCollection{t.tx, name}
}

// Put adds a row, or replaces the row with the same key. Everything is copied. Of several changes
// of one key the last one counts. The first error of a change also fails the whole Update.
func (c TxCollection) Put(r Row) error { return c.put(r, false) }

// Insert adds a row like Put, but never replaces one: if the key exists when the transaction is
// committed, Update fails with ErrExists; if the transaction itself has put it, so does Insert.
// An expired row is replaced.
func (c TxCollection) Insert(r Row) error { return c.put(r, true) }

func (c TxCollection) put(r Row, insert bool) error {
	return c.t.Add(c.name, func(coll *layout.Collection) (apply.Op, error) {
		if err := checkRow(&r, coll); err != nil {
			return apply.Op{}, err
		}
		row, err := copyRow(&r, coll, c.t.Copy)
		o := apply.Op{Row: row, Insert: insert, Bytes: row.Size()}
		if insert && err == nil && coll.Attribute(attribute.Expiry) != nil {
			o.Expired, err = c.t.Expired(c.name, r.Key)
		}
		return o, err
	})
}

// Delete removes the row with the key. A key that no row has is no error.
func (c TxCollection) Delete(key []byte) error {
	return c.t.Delete(c.name, key)
}

// SetLabels replaces the labels of the row with the key, which keeps its number and its place in
// every index; maintenance brings label models up to date. It reads the key as Get does (see
// Update). ErrNotFound does not fail the Update; every other error does.
func (c TxCollection) SetLabels(key []byte, labels ...string) error {
	return c.t.Edit(c.name, key, func(r *rows.Row) error {
		if err := layout.CheckLabels(key, labels); err != nil {
			return err
		}
		r.Labels = labelSet(labels)
		return nil
	})
}

// SetText gives the row with the key another text, and SetVector another vector. Either writes the row
// again: it keeps all else, and gets a new number. ErrNotFound does not fail the Update; every other
// error does.
func (c TxCollection) SetText(key []byte, text string) error {
	return c.rewrite(key, func(r *Row) { r.Text = text })
}

// SetVector is SetText for the vector; nil takes it away from a row with a text or features.
func (c TxCollection) SetVector(key []byte, x []float32) error {
	return c.rewrite(key, func(r *Row) { r.Vector = x })
}

// rewrite puts a row again as edit changes it.
func (c TxCollection) rewrite(key []byte, edit func(r *Row)) error {
	r, err := c.Get(key)
	if err != nil {
		return err
	}
	edit(&r)
	return c.Put(r)
}

// SetPayload replaces the payload of the row with the key, like SetLabels.
func (c TxCollection) SetPayload(key, payload []byte) error {
	return c.t.Edit(c.name, key, func(r *rows.Row) error {
		if err := layout.CheckPayload(key, payload); err != nil {
			return err
		}
		r.Payload = slices.Clone(payload)
		return nil
	})
}

// SetAttributes replaces the attributes of the row with the key, like SetLabels. Its expiry stays.
func (c TxCollection) SetAttributes(key []byte, attributes map[string]any) error {
	return c.t.Edit(c.name, key, func(r *rows.Row) error {
		_, expiry := attribute.Split(r.Attributes)
		return setAttributes(&r.Cold, key, attributes, expiry)
	})
}

// SetExpiry sets the time from which on no search finds the row; zero: never.
func (c TxCollection) SetExpiry(key []byte, at time.Time) error {
	return c.t.Edit(c.name, key, func(r *rows.Row) error {
		attributes, _ := attribute.Split(r.Attributes)
		return setAttributes(&r.Cold, key, attributes, at)
	})
}

// Get returns the row with the key as the transaction leaves it: the one that it has put, whose
// number (Row.Row) is 0, or a copy of the stored one. All reads of a transaction see one committed
// state.
func (c TxCollection) Get(key []byte) (r Row, err error) {
	o, err := c.t.Own(c.name, key)
	switch {
	case err != nil:
		return Row{}, err
	case o != nil && o.What == apply.Delete:
		return Row{}, txn.NotFound(c.name, key)
	case o != nil && o.What == apply.Put:
		r = rowOf(&o.Row)
	default:
		if r, err = c.stored(key, o); err != nil {
			return Row{}, err
		}
	}
	if r.expired() {
		return Row{}, txn.NotFound(c.name, key)
	}
	return r, nil
}

// stored reads the stored row with the key, which may have expired, with a change of the transaction.
func (c TxCollection) stored(key []byte, change *apply.Op) (r Row, err error) {
	var row uint32
	var exists bool
	err = c.t.Read(c.name, func(st *state.Collection) (err error) {
		if row, exists, err = st.Find(key); err == nil && exists {
			r, err = readRow(st, key, row)
		}
		return err
	})
	switch {
	case err != nil:
		return Row{}, err
	case change != nil:
		r.setCold(change.Row.Cold.Clone())
		return r, nil
	}
	if err := c.t.Note(c.name, key, row, exists); err != nil {
		return Row{}, err
	}
	if !exists {
		return Row{}, txn.NotFound(c.name, key)
	}
	return r, nil
}

// Has reports whether a row has the key, like Get without reading the row.
func (c TxCollection) Has(key []byte) (exists bool, err error) {
	o, err := c.t.Own(c.name, key)
	if err != nil || o != nil {
		return err == nil && o.What != apply.Delete && !o.Row.Expired(time.Now()), err
	}
	var row uint32
	var stored bool
	err = c.t.Read(c.name, func(st *state.Collection) (err error) {
		if row, stored, err = st.Find(key); err == nil {
			_, exists, err = st.FindUnexpired(key)
		}
		return err
	})
	if err == nil {
		err = c.t.Note(c.name, key, row, stored)
	}
	return exists, err
}

// Update runs a transaction: fn reads and changes rows, and then all changes are written or none.
// When it returns nil they are durable and visible to every later snapshot. Concurrent updates share
// commits and their fsync.
//
// If a key that fn has read, by Get, Has or a call that sets a part of a row, is changed by another
// transaction before this one is committed, fn runs again on the new state: it must be repeatable.
// Cancelling the context has no effect once the commit has begun. The changes are held in memory until
// they are committed, however many they are; Load splits what need not be one transaction. Errors: those
// of fn; ErrExists for keys of Insert; those of a commit, which change nothing, but for ErrUnknownState.
func (d *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if fn == nil {
		return fmt.Errorf("%w: Update without a function", fail.Option)
	}
	return d.manager().Update(ctx, func(t *txn.Tx) error { return fn(&Tx{t}) })
}
