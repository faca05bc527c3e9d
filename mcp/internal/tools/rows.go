package tools

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/anndb/anndb/db"
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
	r, err := c.rows.Get([]byte(in.Key))
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
	selected, err := filterOf(in.Filter)
	if err != nil {
		return out, err
	}
	passing, err := c.rows.Matching(c, selected)
	if err != nil {
		return out, err
	}
	out.Count, out.Rows = int(passing.GetCardinality()), []row{}
	first, show := min(max(in.Skip, 0), out.Count), passage(c.info, "", most)
	for i := first; i < min(first+n, out.Count); i++ {
		number, err := passing.Select(uint32(i))
		if err != nil {
			return out, err
		}
		r, err := c.rows.GetRow(number)
		if err != nil {
			return out, err
		}
		out.Rows = append(out.Rows, newRow(&r, show, mostValue))
	}
	out.Rows, out.Notes, err = bounded(out.Rows)
	if next := first + len(out.Rows); next < out.Count {
		out.Next = next
	}
	return out, err
}

// rowInput is a row to put.
type rowInput struct {
	Key        string             `json:"key"`
	Text       string             `json:"text,omitempty"`
	Vector     []float32          `json:"vector,omitempty"`
	Features   map[string]float32 `json:"features,omitempty"`
	Labels     []string           `json:"labels,omitempty"`
	Attributes map[string]any     `json:"attributes,omitempty"`
	Expires    string             `json:"expires,omitempty"`
	Payload    *string            `json:"payload,omitempty"`
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
		r, err := in.Rows[i].row()
		if err != nil {
			return out, fmt.Errorf("row %q: %w", in.Rows[i].Key, err)
		}
		switch stored, err := c.writes.Get(r.Key); {
		case errors.Is(err, db.ErrNotFound):
			out.Added++
		case err != nil:
			return out, err
		default:
			out.Changed++
			if !in.Replace {
				keep(&r, &stored)
			}
		}
		if err := c.writes.Put(r); err != nil {
			return out, err
		}
	}
	return out, nil
}

// row returns the row of the database.
func (in *rowInput) row() (r db.Row, err error) {
	r = db.Row{
		Key: []byte(in.Key), Text: in.Text, Vector: in.Vector, Features: featuresOf(in.Features), Labels: in.Labels,
	}
	if in.Attributes != nil {
		r.Attributes = map[string]any{}
	}
	for name, v := range in.Attributes {
		if r.Attributes[name], err = attributeOf(v); err != nil {
			return r, fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	if in.Payload != nil {
		r.Payload = []byte(*in.Payload)
	}
	if in.Expires != "" {
		r.ExpiresAt, err = timeOf(in.Expires)
	}
	return r, err
}

// keep gives a row what it lacks of the stored one.
func keep(r, stored *db.Row) {
	if r.Text == "" && r.Features == nil {
		r.Text, r.Features, r.Sparse = stored.Text, stored.Features, stored.Sparse
	}
	if r.Vector == nil {
		r.Vector = stored.Vector
	}
	if r.Labels == nil {
		r.Labels = stored.Labels
	}
	if r.Attributes == nil {
		r.Attributes = stored.Attributes
	}
	if r.ExpiresAt.IsZero() {
		r.ExpiresAt = stored.ExpiresAt
	}
	if r.Payload == nil {
		r.Payload = stored.Payload
	}
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
		exists, err := c.writes.Has([]byte(key))
		if err != nil {
			return out, err
		}
		if !exists {
			out.Missing = append(out.Missing, key)
			continue
		}
		out.Deleted++
		if err := c.writes.Delete([]byte(key)); err != nil {
			return out, err
		}
	}
	return out, nil
}
