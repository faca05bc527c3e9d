package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// chunk is how much of a stream of rows is sent, or read, at once.
const chunk = 64 << 10

// exportRows sends the rows that pass a filter as lines. It holds a snapshot as long as the client reads.
func exportRows(c *call) error {
	where, err := wire.Where(c.r.URL.Query().Get("where"))
	if err != nil {
		return err
	}
	form := c.r.URL.Query().Get("vectors")
	if form != "" && form != "base64" && form != "array" {
		return fmt.Errorf("%w: vectors=%.20q, want array or base64", db.ErrInvalid, form)
	}
	left := -1 // rows, all below 0
	if limit := c.r.URL.Query().Get("limit"); limit != "" {
		if left, err = strconv.Atoi(limit); err != nil || left < 1 {
			return fmt.Errorf("%w: limit=%.20q, want 1 or more rows", db.ErrInvalid, limit)
		}
	}
	return c.file.View(func(s *db.Snapshot) error {
		coll := s.Collection(c.coll.Name())
		info, err := coll.Info()
		if err != nil {
			return err
		}
		schema := rows.Schema(&info)
		schema.Base64 = form == "base64"
		var lines []byte
		for row, err := range coll.Rows(c.ctx, where) {
			if err == nil {
				lines, err = rows.AppendJSON(lines, &row, schema)
			}
			if err == nil && len(lines) >= chunk {
				err = c.sendLines(lines)
				lines = lines[:0]
			}
			if err != nil {
				return err
			}
			if left--; left == 0 {
				break
			}
		}
		return c.sendLines(lines)
	})
}

// sendLines sends a part of a stream. Before the first one the answer can still be an error.
func (c *call) sendLines(lines []byte) error {
	c.Header().Set("Content-Type", wire.Lines)
	_, err := c.Write(lines)
	return err
}

// importRows stores rows as they arrive. Of a body that is bad or ends too early, the rows before the error
// may be stored, which the answer counts.
func importRows(c *call) error {
	if err := c.typed(wire.Lines, "application/jsonl"); err != nil {
		return err
	}
	insert := c.r.URL.Query().Get("insert")
	if insert != "" && insert != "true" && insert != "false" {
		return fmt.Errorf("%w: insert=%.20q, want true or false", db.ErrInvalid, insert)
	}
	info, err := c.coll.Info()
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(c.body(), chunk)
	if _, err := in.Peek(1); err == io.EOF { // no rows, which files may not have
		c.answer(http.StatusOK, wire.Loaded{})
		return nil
	}
	o := wire.RowOptions(&info)
	o.Context = c.ctx
	lines, err := dataset.NewReader("body", in, o)
	if err != nil {
		return badRows(err)
	}
	defer lines.Close()
	c.rows, err = c.coll.Load(c.ctx, keyed(lines), &db.LoadOptions{Insert: insert == "true"})
	if err != nil {
		return badRows(err)
	}
	c.answer(http.StatusOK, wire.Loaded{Rows: c.rows})
	return nil
}

// keyed refuses rows that have no key; a file of these would have numbers for keys.
func keyed(lines dataset.Reader) func(yield func(db.Row, error) bool) {
	return func(yield func(db.Row, error) bool) {
		if !lines.Schema().Keyed {
			yield(db.Row{}, fmt.Errorf("%w: row 0 has no key", wire.ErrJSON))
			return
		}
		rows.Read(lines)(yield)
	}
}

// badRows returns an error of rows as one of the request, unless the connection is to blame.
func badRows(err error) error {
	if errors.Is(err, dataset.ErrFormat) && !errors.Is(err, wire.ErrSlow) && !errors.Is(err, wire.ErrCut) {
		return fmt.Errorf("%w: %w", wire.ErrJSON, err)
	}
	return err
}

// count answers with the number of rows that pass a filter.
func count(c *call) error {
	var in wire.Count
	if err := c.decode(&in); err != nil {
		return err
	}
	where, err := wire.Where(in.Where)
	if err != nil {
		return err
	}
	n, err := c.coll.Count(c.ctx, where)
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, wire.Counted{Rows: n})
	return nil
}
