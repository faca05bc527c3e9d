package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// maxRuns is how often Update runs a function whose reads other writers change.
const maxRuns = 100

// Tx is a transaction: the changes of one File.Update, and reads that see them.
type Tx struct {
	ctx  context.Context
	f    File
	rows map[rowID]json.RawMessage // that were read or written, nil for those that there are not
	in   wire.Transaction
	err  error // the first one of a change
}

type rowID struct{ collection, key string }

// Update runs a transaction: fn reads and changes rows, and then all changes are written or none. Each read
// is a request, which sees the latest state; all changes are one. If a row that fn has read is changed by
// another writer before the commit, fn runs again: it must be repeatable. If the connection breaks during the
// commit, all changes may be stored, or none. Errors: those of fn; db.ErrExists for keys of Insert;
// ErrChanged.
func (f File) Update(ctx context.Context, fn func(*Tx) error) error {
	for run := 1; ; run++ {
		t := &Tx{ctx: ctx, f: f, rows: map[rowID]json.RawMessage{}}
		err := fn(t)
		if err == nil {
			err = t.err
		}
		if err == nil && len(t.in.Operations) > 0 {
			err = f.c.call(ctx, &request{method: http.MethodPost, path: f.path + "/transactions", in: t.in}, nil)
		}
		if !errors.Is(err, ErrChanged) || run == maxRuns {
			return err
		}
		if err := pause(ctx, time.Millisecond*time.Duration(run)); err != nil {
			return err
		}
	}
}

// Collection returns a handle of the collection with the name.
func (t *Tx) Collection(name string) TxCollection { return TxCollection{t, t.f.Collection(name)} }

// TxCollection is a handle of a collection in a transaction, which sees its own changes. What the server
// finds wrong with a change, File.Update returns.
type TxCollection struct {
	t *Tx
	c Collection
}

// Get returns the row with the key as the transaction leaves it. Its number (db.Row.Row) is 0.
func (c TxCollection) Get(key []byte) (row db.Row, err error) {
	id := rowID{c.c.name, string(key)}
	line, known := c.t.rows[id]
	if !known {
		var version string
		if line, version, err = c.c.get(c.t.ctx, key); err != nil && !errors.Is(err, db.ErrNotFound) {
			return row, err
		}
		c.t.rows[id] = line
		c.t.in.If = append(c.t.in.If, wire.Condition{
			Collection: id.collection, Key: wire.NewKey(key), Version: version,
		})
	}
	if line != nil {
		if row, err = wire.ParseRow(line, nil); err != nil { // one that the commit would refuse
			return row, fmt.Errorf("%w: %w", db.ErrInvalid, err)
		}
	}
	if line == nil || !row.ExpiresAt.IsZero() && !row.ExpiresAt.After(time.Now()) {
		return db.Row{}, fmt.Errorf("%w: collection %q: no row has the key %q", db.ErrNotFound, c.c.name, key)
	}
	return row, nil
}

// Put adds a row, or replaces the row with the same key. The first error of a change also fails File.Update.
func (c TxCollection) Put(row db.Row) error { return c.put(wire.Put, &row) }

// Insert adds a row like Put, but never replaces one: File.Update fails with db.ErrExists.
func (c TxCollection) Insert(row db.Row) error { return c.put(wire.Insert, &row) }

func (c TxCollection) put(op string, row *db.Row) error {
	line, err := (&encoder{c: c.c}).append(c.t.ctx, nil, row)
	if err != nil {
		c.t.err = errors.Join(c.t.err, err)
		return err
	}
	c.change(op, row.Key, line, line)
	return nil
}

// Delete removes the row with the key. A key that no row has is no error.
func (c TxCollection) Delete(key []byte) error {
	c.change(wire.Delete, key, nil, nil)
	return nil
}

// Update reads the row with the key as Get does, and stores what edit changes of it. The row keeps its number
// unless its vector, text or features change. db.ErrNotFound does not fail File.Update.
func (c TxCollection) Update(key []byte, edit func(*db.Row)) error {
	row, err := c.Get(key)
	if err != nil {
		return err
	}
	e := &encoder{c: c.c}
	before, err := e.append(c.t.ctx, nil, &row)
	if err != nil {
		return err
	}
	edit(&row)
	row.Key = key
	after, err := e.append(c.t.ctx, nil, &row)
	if err == nil {
		var changed []byte
		if changed, err = difference(before, after); err == nil {
			c.change(wire.Update, key, changed, after)
			return nil
		}
	}
	c.t.err = errors.Join(c.t.err, err)
	return err
}

// difference returns the fields of a row that have changed, null for those that it has lost.
func difference(before, after []byte) ([]byte, error) {
	var old, fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(before, &old), json.Unmarshal(after, &fields)); err != nil {
		return nil, err
	}
	for name, value := range old {
		if now, has := fields[name]; !has {
			fields[name] = nil
		} else if bytes.Equal(now, value) {
			delete(fields, name)
		}
	}
	return json.Marshal(fields)
}

// change notes an operation, and the row that it leaves.
func (c TxCollection) change(op string, key []byte, body, row json.RawMessage) {
	c.t.rows[rowID{c.c.name, string(key)}] = row
	c.t.in.Operations = append(c.t.in.Operations, wire.Operation{
		Op: op, Collection: c.c.name, Key: wire.NewKey(key), Row: body,
	})
}
