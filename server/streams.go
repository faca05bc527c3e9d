package server

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/par"
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
	most := 0 // rows, all
	if limit := c.r.URL.Query().Get("limit"); limit != "" {
		if most, err = strconv.Atoi(limit); err != nil || most < 1 {
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
		for lines, err := range par.Ahead(chunks(coll.Rows(c.ctx, where), schema, most)) {
			if err = cmp.Or(err, c.ctx.Err()); err == nil {
				err = c.sendLines(lines)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// chunks iterates over the lines of rows, some at a time, at most so many rows, all for 0. The memory of
// lines is that of the next but one.
func chunks(of iter.Seq2[db.Row, error], schema dataset.Schema, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var lines, other []byte
		for row, err := range of {
			if err == nil {
				lines, err = rows.AppendJSON(lines, &row, schema)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if most--; most == 0 {
				break
			}
			if len(lines) >= chunk {
				if !yield(lines, nil) {
					return
				}
				lines, other = other[:0], lines
			}
		}
		yield(lines, nil)
	}
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
	c.rows, err = c.coll.Load(c.ctx, rowsOf(lines), &db.LoadOptions{Insert: insert == "true"})
	if err != nil {
		return badRows(err)
	}
	c.answer(http.StatusOK, wire.Loaded{Rows: c.rows})
	return nil
}

// rowsOf iterates over the rows of a body, which are decoded while those before are stored. It refuses rows
// that have no key; a file of these would have numbers for keys.
func rowsOf(lines dataset.Reader) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		if !lines.Schema().Keyed {
			yield(db.Row{}, fmt.Errorf("%w: row 0 has no key", wire.ErrJSON))
			return
		}
		for list, err := range par.Ahead(batches(lines)) {
			if err != nil {
				yield(db.Row{}, err)
				return
			}
			for _, row := range list {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// batches iterates over rows, some at a time. The memory of a batch is that of the next but one.
func batches(lines dataset.Reader) iter.Seq2[[]db.Row, error] {
	type batch struct {
		records [64]dataset.Record
		rows    [64]db.Row
	}
	return func(yield func([]db.Row, error) bool) {
		now, other := &batch{}, &batch{}
		for {
			n, bytes, err := 0, 0, error(nil)
			for n < len(now.rows) && bytes < 4*chunk && err == nil {
				rec := &now.records[n]
				if err = lines.Read(rec); err == nil {
					rows.Of(&now.rows[n], rec, lines.Schema())
					bytes += 4*len(rec.Vector) + 8*rec.Features.Len() + len(rec.Text) + len(rec.Payload)
					n++
				}
			}
			if n > 0 && !yield(now.rows[:n], nil) || err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if bytes > 8*chunk { // of a long row, which would be kept
				now = &batch{}
			}
			now, other = other, now
		}
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
func count(c *call, in *wire.Count) (any, error) {
	where, err := wire.Where(in.Where)
	if err != nil {
		return nil, err
	}
	n, err := c.coll.Count(c.ctx, where)
	return wire.Counted{Rows: n}, err
}
