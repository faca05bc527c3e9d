package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	records "github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

type getInput struct {
	where
	Key  string `json:"key"`
	From int    `json:"from,omitempty"`
}

type getOutput struct {
	Row  row `json:"row"`
	Next int `json:"next,omitempty"`
}

func get(c *call, in *getInput) (out getOutput, err error) {
	r, err := c.rows.Get(c, []byte(in.Key))
	if err != nil {
		return out, err
	}
	length := utf8.RuneCountInString(r.Text)
	if in.From < 0 || in.From > length {
		return out, fmt.Errorf("from is %d: the text has %d characters", in.From, length)
	}
	out.Row = newRow(&r, func(s string) string { return part(s, in.From, mostText) }, mostText)
	if next := in.From + mostText; next < length {
		out.Next = next
	}
	return out, nil
}

type rowsInput struct {
	where
	Filter  string `json:"filter,omitempty"`
	Skip    int    `json:"skip,omitempty"`
	N       int    `json:"n,omitempty"`
	MaxText int    `json:"max_text,omitempty"`
}

type rowsOutput struct {
	Count int      `json:"count"`
	Rows  []row    `json:"rows"`
	Next  int      `json:"next,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

func rows(c *call, in *rowsInput) (out rowsOutput, err error) {
	n, err := atMost("n", in.N, 10, mostRows)
	if err != nil {
		return out, err
	}
	most, err := atMost("max_text", in.MaxText, usualText, mostText)
	if err != nil {
		return out, err
	}
	selected, err := wire.Where(in.Filter)
	if err != nil {
		return out, err
	}
	if out.Count, err = c.rows.Count(c, selected); err != nil {
		return out, err
	}
	out.Rows = []row{}
	first, at, show := max(in.Skip, 0), 0, passage(c.info, "", most)
	for r, err := range c.rows.Rows(c, selected) {
		if err != nil {
			return out, err
		}
		if at++; at > first {
			out.Rows = append(out.Rows, newRow(&r, show, mostValue))
		}
		if len(out.Rows) == n {
			break
		}
	}
	out.Rows, out.Notes, err = bounded(out.Rows)
	if next := first + len(out.Rows); next < out.Count {
		out.Next = next
	}
	return out, err
}

// rowInput is a row to put, as in a jsonl file.
type rowInput struct {
	Key        string             `json:"key"`
	Text       string             `json:"text,omitempty"`
	Vector     []float32          `json:"vector,omitempty"`
	Features   map[string]float32 `json:"features,omitempty"`
	Labels     []string           `json:"labels,omitempty"`
	Attributes map[string]any     `json:"attributes,omitempty"`
	Expires    string             `json:"expires,omitempty"`
	Payload    string             `json:"payload,omitempty"`
}

type putInput struct {
	where
	Rows    []rowInput `json:"rows"`
	Replace bool       `json:"replace,omitempty"`
}

type putOutput struct {
	Added   int `json:"added"`
	Changed int `json:"changed"`
}

func put(c *call, in *putInput) (out putOutput, err error) {
	if n := len(in.Rows); n == 0 || n > mostRows {
		return out, fmt.Errorf("there are %d rows: put 1 to %d at a time", n, mostRows)
	}
	for i := range in.Rows {
		new := &in.Rows[i]
		stored, err := c.writes.Get([]byte(new.Key))
		switch {
		case errors.Is(err, db.ErrNotFound):
			out.Added++
		case err != nil:
			return out, err
		default:
			out.Changed++
		}
		r, err := new.row(&stored, err == nil && !in.Replace, c.info)
		if err != nil {
			return out, fmt.Errorf("row %q: %w", new.Key, err)
		}
		if err := c.writes.Put(r); err != nil {
			return out, err
		}
	}
	return out, nil
}

// row returns the row of the database, with what it lacks of the stored row if keep is set.
func (in *rowInput) row(stored *db.Row, keep bool, info *db.CollectionInfo) (r db.Row, err error) {
	for name, v := range in.Attributes {
		if f, ok := v.(float64); ok && math.Abs(f) > 1<<53 && f == math.Trunc(f) {
			return r, fmt.Errorf("attribute %q: integers beyond 2^53 are not passed exactly", name)
		}
	}
	fields := map[string]json.RawMessage{}
	if keep {
		line, err := records.AppendJSON(nil, stored, records.Schema(info))
		if err == nil {
			err = json.Unmarshal(line, &fields)
		}
		if err != nil {
			return r, err
		}
	}
	if in.Payload != "" {
		delete(fields, "payload_base64")
	}
	line, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(line, &fields) // over those of the stored row
	}
	if err == nil {
		line, err = json.Marshal(fields)
	}
	if err != nil {
		return r, err
	}
	return wire.ParseRow(line, info)
}

type deleteInput struct {
	where
	Keys []string `json:"keys"`
}

type deleteOutput struct {
	Deleted int      `json:"deleted"`
	Missing []string `json:"missing,omitempty"`
}

func deleteRows(c *call, in *deleteInput) (out deleteOutput, err error) {
	if n := len(in.Keys); n == 0 || n > mostRows {
		return out, fmt.Errorf("there are %d keys: delete 1 to %d at a time", n, mostRows)
	}
	for _, key := range in.Keys {
		switch _, err := c.writes.Get([]byte(key)); {
		case errors.Is(err, db.ErrNotFound):
			out.Missing = append(out.Missing, key)
			continue
		case err != nil:
			return out, err
		}
		out.Deleted++
		if err := c.writes.Delete([]byte(key)); err != nil {
			return out, err
		}
	}
	return out, nil
}
