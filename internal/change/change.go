// Package change makes the changes of rows that requests describe (wire.Transaction), in transactions. A
// server makes them when it gets the request, a node of a cluster when it reads it from a log.
package change

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// Change is an operation on one row.
type Change struct {
	coll string
	info *db.CollectionInfo
	op   string
	key  []byte
	row  db.Row // of Put and Insert
	// parts are the fields of a row that Update replaces.
	parts map[string]json.RawMessage
}

// New returns the change that an operation describes: of the row with the key, or with the one that the
// operation has if that is nil, in a collection with the description.
func New(o *wire.Operation, key []byte, info *db.CollectionInfo) (ch Change, err error) {
	ch = Change{coll: info.Name, info: info, op: o.Op, key: key}
	if ch.key == nil {
		if ch.key, err = o.Key.Get(); err != nil {
			return ch, err
		}
	}
	switch o.Op {
	case wire.Put, wire.Insert:
		if ch.row, err = wire.ParseRow(o.Row, info); err != nil {
			return ch, err
		}
		if len(ch.row.Key) == 0 {
			ch.row.Key = ch.key
		}
		if ch.key == nil {
			ch.key = ch.row.Key
		}
		if !bytes.Equal(ch.row.Key, ch.key) {
			return ch, fmt.Errorf("%w: the row has the key %.40q, and not %.40q", wire.ErrJSON, ch.row.Key, ch.key)
		}
	case wire.Update:
		if err := wire.Unmarshal(o.Row, &ch.parts); err != nil {
			return ch, err
		}
	case wire.Delete:
	default:
		return ch, fmt.Errorf("%w: operation %.20q, want put, insert, update or delete", wire.ErrJSON, o.Op)
	}
	return ch, nil
}

// Row returns the row of a put or an insert, nil for other changes.
func (ch *Change) Row() *db.Row {
	if ch.op == wire.Put || ch.op == wire.Insert {
		return &ch.row
	}
	return nil
}

// Key returns the key of the row.
func (ch *Change) Key() []byte { return ch.key }

// Apply makes the change, and returns the version that the row has then, "" without one.
func (ch *Change) Apply(tx *db.Tx) (string, error) {
	if err := ch.apply(tx); err != nil || ch.op == wire.Delete {
		return "", err
	}
	version, err := ch.Version(tx)
	if errors.Is(err, db.ErrNotFound) { // it has expired
		err = nil
	}
	return version, err
}

func (ch *Change) apply(tx *db.Tx) error {
	coll := tx.Collection(ch.coll)
	var err error
	switch ch.op {
	case wire.Put:
		err = coll.Put(ch.row)
	case wire.Insert:
		var has bool
		if has, err = coll.Has(ch.key); err == nil {
			err = coll.Insert(ch.row)
		}
		if err == nil && has { // known here, and not only at the commit
			err = fmt.Errorf("%w: collection %q: key %.40q", db.ErrExists, ch.coll, ch.key)
		}
	case wire.Update:
		err = ch.update(tx)
	case wire.Delete:
		err = coll.Delete(ch.key)
	}
	return err
}

// Version returns the version that the row has in a transaction.
func (ch *Change) Version(tx *db.Tx) (string, error) {
	row, err := tx.Collection(ch.coll).Get(ch.key)
	if err != nil {
		return "", err
	}
	line, err := rows.Line(&row, ch.info)
	return wire.Version(line), err
}

// update replaces the parts of a row that the change names, where null removes a part. The row keeps its
// number unless its vector, features or text change.
func (ch *Change) update(tx *db.Tx) error {
	coll := tx.Collection(ch.coll)
	has, err := coll.Get(ch.key)
	if err != nil {
		return err
	}
	line, err := rows.AppendJSON(nil, &has, rows.Schema(ch.info))
	if err != nil {
		return err
	}
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(line, &merged); err != nil {
		return err
	}
	if ch.parts["payload"] != nil || ch.parts["payload_base64"] != nil { // one takes the place of the other
		delete(merged, "payload")
		delete(merged, "payload_base64")
	}
	for name, value := range ch.parts {
		merged[name] = value
	}
	if line, err = json.Marshal(merged); err != nil {
		return err
	}
	row, err := wire.ParseRow(line, ch.info)
	if err != nil {
		return err
	}
	if _, ok := ch.parts["features"]; ok {
		return coll.Put(row)
	}
	for _, name := range slices.Sorted(maps.Keys(ch.parts)) { // of several errors always the same
		var err error
		switch name {
		case "vector":
			err = coll.SetVector(ch.key, row.Vector)
		case "text":
			err = coll.SetText(ch.key, row.Text)
		case "labels":
			err = coll.SetLabels(ch.key, row.Labels...)
		case "attributes":
			err = coll.SetAttributes(ch.key, row.Attributes)
		case "expires":
			err = coll.SetExpiry(ch.key, row.ExpiresAt)
		case "payload", "payload_base64":
			err = coll.SetPayload(ch.key, row.Payload)
		default:
			err = fmt.Errorf("%w: the field %.40q cannot be changed", wire.ErrJSON, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Transaction is a list of conditions and changes.
type Transaction struct {
	conditions, changes []Change
	versions            []string // that the conditions want
	unversioned         bool     // Apply returns no versions
}

// NewTransaction returns the transaction that a request describes. info describes a collection.
func NewTransaction(
	in *wire.Transaction, info func(name string) (db.CollectionInfo, error),
) (t Transaction, err error) {
	infos := map[string]*db.CollectionInfo{}
	parse := func(coll string, o *wire.Operation) (Change, error) {
		if infos[coll] == nil {
			i, err := info(coll)
			if err != nil {
				return Change{}, err
			}
			infos[coll] = &i
		}
		return New(o, nil, infos[coll])
	}
	for i, x := range in.If {
		ch, err := parse(x.Collection, &wire.Operation{Op: wire.Delete, Key: x.Key})
		if err != nil {
			return t, fmt.Errorf("condition %d: %w", i, err)
		}
		t.conditions, t.versions = append(t.conditions, ch), append(t.versions, x.Version)
	}
	for i := range in.Operations {
		ch, err := parse(in.Operations[i].Collection, &in.Operations[i])
		if err != nil {
			return t, fmt.Errorf("operation %d: %w", i, err)
		}
		t.changes = append(t.changes, ch)
	}
	return t, nil
}

// Keys iterates over the keys of all conditions and changes.
func (t *Transaction) Keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, ch := range slices.Concat(t.conditions, t.changes) {
			if !yield(ch.key) {
				return
			}
		}
	}
}

// Expires reports whether a change gives a row an expiry.
func (t *Transaction) Expires() bool {
	return slices.ContainsFunc(t.changes, func(ch Change) bool {
		at, ok := ch.parts["expires"]
		return !ch.row.ExpiresAt.IsZero() || ok && string(at) != "null"
	})
}

// Restrict removes the conditions, and the changes of rows whose keys do not pass.
func (t *Transaction) Restrict(pass func(key []byte) bool) {
	t.conditions, t.versions = nil, nil
	t.changes = slices.DeleteFunc(t.changes, func(ch Change) bool { return !pass(ch.key) })
}

// SkipVersions has Apply return no versions, which take most of its time.
func (t *Transaction) SkipVersions() { t.unversioned = true }

// Apply makes all changes if all conditions hold, and returns the version of each row.
func (t *Transaction) Apply(tx *db.Tx) ([]string, error) {
	for i := range t.conditions {
		has, err := t.conditions[i].Version(tx)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, fmt.Errorf("condition %d: %w", i, err)
		}
		if has != t.versions[i] {
			return nil, fmt.Errorf("condition %d: %w: %q, not %.40q", i, wire.ErrChanged, has, t.versions[i])
		}
	}
	var versions []string
	for i := range t.changes {
		var version string
		var err error
		if t.unversioned {
			err = t.changes[i].apply(tx)
		} else {
			version, err = t.changes[i].Apply(tx)
			versions = append(versions, version)
		}
		if err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return versions, nil
}
