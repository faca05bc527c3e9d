package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/change"
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
		line, err := rows.Line(&row, &info)
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
	if matches(c.r.Header.Get("If-None-Match"), "*") && o.Op == wire.Put {
		o.Op = wire.Insert
	}
	ch, err := change.New(o, c.key(), &info)
	if err != nil {
		return err
	}
	want := c.r.Header.Get("If-Match")
	version := ""
	err = c.file.Update(c.ctx, func(tx *db.Tx) error {
		if want != "" {
			has, err := ch.Version(tx)
			if err != nil && !errors.Is(err, db.ErrNotFound) {
				return err
			}
			if err != nil || !matches(want, etag(has)) {
				return fmt.Errorf("%w than If-Match has", wire.ErrChanged)
			}
		}
		version, err = ch.Apply(tx)
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
