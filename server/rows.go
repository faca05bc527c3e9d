package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// key returns the key of the path.
func (c *call) key() []byte { return []byte(c.r.PathValue("key")) }

// getRow answers with a row as a line of a jsonl file.
func getRow(c *call) error {
	return c.file.View(func(s *db.Snapshot) error {
		coll := s.Collection(c.coll.Name())
		info, err := coll.Info()
		if err != nil {
			return err
		}
		row, err := coll.Get(c.key())
		if err != nil {
			return err
		}
		line, err := rows.AppendJSON(nil, &row, rows.Schema(&info))
		if err != nil {
			return err
		}
		tag := etag(wire.Version(line))
		c.Header().Set("ETag", tag)
		if matches(c.r.Header.Get("If-None-Match"), tag) {
			c.WriteHeader(http.StatusNotModified)
			return nil
		}
		c.send(http.StatusOK, wire.JSON, line)
		return nil
	})
}

func etag(version string) string { return `"` + version + `"` }

// matches reports whether a header lists a tag.
func matches(header, tag string) bool {
	for item := range strings.SplitSeq(header, ",") {
		if item = strings.TrimSpace(item); item == tag || item == "*" {
			return true
		}
	}
	return false
}

// putRow stores the row of the body.
func putRow(c *call) error {
	line, err := c.bytes()
	if err != nil {
		return err
	}
	return c.change(&wire.Operation{Op: wire.Put, Key: wire.NewKey(c.key()), Row: line})
}

// updateRow replaces the parts of a row that the body has.
func updateRow(c *call) error {
	parts, err := c.bytes()
	if err != nil {
		return err
	}
	return c.change(&wire.Operation{Op: wire.Update, Key: wire.NewKey(c.key()), Row: parts})
}

// deleteRow deletes a row. That there is none is no error, unless the request has a condition.
func deleteRow(c *call) error {
	return c.change(&wire.Operation{Op: wire.Delete, Key: wire.NewKey(c.key())})
}

// change changes the row of the path if it has a version that the request wants.
func (c *call) change(o *wire.Operation) error {
	info, err := c.coll.Info()
	if err != nil {
		return err
	}
	ch := change{coll: c.coll.Name(), info: info, key: c.key()}
	if err := ch.parse(o); err != nil {
		return err
	}
	if matches(c.r.Header.Get("If-None-Match"), "*") && o.Op == wire.Put {
		ch.op = wire.Insert
	}
	want := c.r.Header.Get("If-Match")
	version := ""
	err = c.file.Update(c.ctx, func(tx *db.Tx) error {
		if want != "" {
			has, err := ch.version(tx)
			if err != nil && !errors.Is(err, db.ErrNotFound) {
				return err
			}
			if err != nil || !matches(want, etag(has)) {
				return fmt.Errorf("%w than If-Match has", wire.ErrChanged)
			}
		}
		version, err = ch.apply(tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case o.Op == wire.Delete:
		c.WriteHeader(http.StatusNoContent)
	default:
		c.Header().Set("ETag", etag(version))
		c.answer(http.StatusOK, wire.Stored{Version: version})
	}
	return nil
}

// change is a change of one row.
type change struct {
	coll string
	info db.CollectionInfo
	op   string
	key  []byte
	row  db.Row // of Put and Insert
	// parts are the fields of a row that Update replaces.
	parts map[string]json.RawMessage
}

// parse sets the change to an operation on the row with the key, if that is not empty.
func (ch *change) parse(o *wire.Operation) (err error) {
	ch.op = o.Op
	if ch.key == nil {
		if ch.key, err = o.Key.Get(); err != nil {
			return err
		}
	}
	switch o.Op {
	case wire.Put, wire.Insert:
		if ch.row, err = wire.ParseRow(o.Row, &ch.info); err != nil {
			return err
		}
		if len(ch.row.Key) == 0 {
			ch.row.Key = ch.key
		}
		if ch.key == nil {
			ch.key = ch.row.Key
		}
		if !bytes.Equal(ch.row.Key, ch.key) {
			return fmt.Errorf("%w: the row has the key %.40q, and not %.40q", wire.ErrJSON, ch.row.Key, ch.key)
		}
	case wire.Update:
		if err := wire.Unmarshal(o.Row, &ch.parts); err != nil {
			return err
		}
	case wire.Delete:
	default:
		return fmt.Errorf("%w: operation %.20q, want put, insert, update or delete", wire.ErrJSON, o.Op)
	}
	return nil
}

// apply makes the change, and returns the version that the row has then, "" without one.
func (ch *change) apply(tx *db.Tx) (string, error) {
	coll := tx.Collection(ch.coll)
	var err error
	switch ch.op {
	case wire.Put:
		err = coll.Put(ch.row)
	case wire.Insert:
		err = coll.Insert(ch.row)
	case wire.Update:
		err = ch.update(tx)
	case wire.Delete:
		return "", coll.Delete(ch.key)
	}
	if err != nil {
		return "", err
	}
	version, err := ch.version(tx)
	if errors.Is(err, db.ErrNotFound) { // it has expired
		err = nil
	}
	return version, err
}

// version returns the version that the row has in a transaction.
func (ch *change) version(tx *db.Tx) (string, error) {
	row, err := tx.Collection(ch.coll).Get(ch.key)
	if err != nil {
		return "", err
	}
	line, err := rows.AppendJSON(nil, &row, rows.Schema(&ch.info))
	return wire.Version(line), err
}
