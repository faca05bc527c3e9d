// Package rows has the commands that make, change, show and delete collections and rows.
package rows

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/vector"
)

// Get shows rows.
type Get struct {
	command.InCollection
	Keys []string `arg:""`
}

func (c *Get) Run(a *command.App) error {
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		if a.Format == table.Text { // a row has more than fits on a line
			a.Format = table.Vertical
		}
		return printRows(a, info, true, func(add func(*db.Row) error) error {
			for _, key := range c.Keys {
				row, err := s.Collection(c.Collection).Get([]byte(key))
				if err != nil {
					return err
				}
				if err := add(&row); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Rows lists rows.
type Rows struct {
	command.InCollection
	command.WhereFlag
	Prefix string `placeholder:"TEXT"`
	From   string `placeholder:"KEY"`
	Limit  int    `default:"20" want:"0"`
	Values bool   `name:"vectors"`
}

func (c *Rows) Run(a *command.App) error {
	filter, err := c.Filter()
	if err != nil {
		return err
	}
	if c.Prefix != "" && filter != nil {
		filter = db.And(filter, db.KeyPrefix([]byte(c.Prefix)))
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		shown := 0
		err := printRows(a, info, c.Values, func(add func(*db.Row) error) error {
			return c.each(a, s, filter, func(r *db.Row) error {
				if c.Limit > 0 && shown == c.Limit {
					return errEnough
				}
				shown++
				return add(r)
			})
		})
		if err != nil || c.Limit == 0 || shown < c.Limit {
			return err
		}
		if c.Prefix != "" && filter == nil {
			filter = db.KeyPrefix([]byte(c.Prefix))
		}
		all, err := s.Collection(c.Collection).Count(a.Ctx, filter)
		if all > shown {
			a.Summary("rows shown: %d of %d; --limit 0 shows all", shown, all)
		}
		return err
	})
}

// errEnough ends an iteration that has shown all that it should.
var errEnough = errors.New("enough rows")

// each calls f with the rows that the flags select until it returns an error.
func (c *Rows) each(a *command.App, s *db.Snapshot, filter *db.Filter, f func(*db.Row) error) error {
	rows := s.Collection(c.Collection)
	err := error(nil)
	switch {
	case c.Prefix == "" && c.From == "":
		err = command.Scan(a, s, c.Collection, filter, f)
	case filter != nil: // a key at a time would evaluate the filter by itself
		err = command.Scan(a, s, c.Collection, filter, func(r *db.Row) error {
			if bytes.Compare(r.Key, []byte(c.From)) < 0 {
				return nil
			}
			return f(r)
		})
	default:
		for key, keyErr := range rows.Keys([]byte(c.Prefix), []byte(c.From)) {
			if err = keyErr; err != nil {
				break
			}
			if err = a.Ctx.Err(); err != nil {
				break
			}
			row, getErr := rows.Get(key)
			if err = getErr; err != nil {
				break
			}
			if err = f(&row); err != nil {
				break
			}
		}
	}
	if err == errEnough {
		return nil
	}
	return err
}

// printRows writes the rows that each adds as one table, with the columns that the collection has.
func printRows(
	a *command.App, info db.CollectionInfo, values bool, each func(add func(*db.Row) error) error,
) error {
	shown := func(r *db.Row) any { return ValuesShown(r, info, a.Output) }
	if !values {
		shown = nil
	}
	return Print(a, info, shown, each)
}

// Print is printRows with the description of the collection, and what is shown of vectors or
// features; nil for nothing.
func Print(
	a *command.App, info db.CollectionInfo, values func(*db.Row) any, each func(add func(*db.Row) error) error,
) error {
	columns := []string{"key", "labels"}
	if len(info.Attributes) > 0 {
		columns = append(columns, "attributes")
	}
	if info.Expires {
		columns = append(columns, "expires")
	}
	columns = append(columns, "payload:?")
	if values != nil && info.Sparse {
		columns = append(columns, "features")
	} else if values != nil {
		columns = append(columns, "vector")
	}
	out, err := a.Stream(columns...)
	if err != nil {
		return err
	}
	err = each(func(r *db.Row) error {
		cells := []any{string(r.Key), r.Labels}
		if len(info.Attributes) > 0 {
			shown, err := AttributesShown(r.Attributes, a.Output)
			if err != nil {
				return fmt.Errorf("row %q: %w", r.Key, err)
			}
			cells = append(cells, shown)
		}
		if info.Expires {
			cells = append(cells, ExpiryShown(r.ExpiresAt))
		}
		cells = append(cells, string(r.Payload))
		if values != nil {
			cells = append(cells, values(r))
		}
		out.Add(cells...)
		return out.Err()
	})
	if err != nil {
		return out.Discard(err)
	}
	return out.Close()
}

// ValuesShown is the vector or the features of a row: an array or object in JSON, and otherwise text
// that put and search take.
func ValuesShown(r *db.Row, info db.CollectionInfo, o table.Output) any {
	switch {
	case !info.Sparse && o.InJSON():
		return r.Vector
	case !info.Sparse:
		parts := make([]string, len(r.Vector))
		for i, v := range r.Vector {
			parts[i] = Float(v)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case o.InJSON():
		features := map[string]float32{}
		for _, f := range namedFeatures(r, info) {
			features[f.Name] = f.Value
		}
		return features
	}
	var parts []string
	for _, f := range namedFeatures(r, info) {
		parts = append(parts, f.Name+"="+Float(f.Value))
	}
	return strings.Join(parts, " ")
}

// namedFeatures are the features of a row, those with numbers called as in files.
func namedFeatures(r *db.Row, info db.CollectionInfo) []db.Feature {
	if info.Named {
		return r.Features
	}
	return numberedFeatures(r.Sparse, command.NumberingOf(info))
}

func numberedFeatures(s vector.Sparse, first uint32) []db.Feature {
	out := make([]db.Feature, len(s.Index))
	for i, f := range s.Index {
		out[i] = db.Feature{Name: fmt.Sprint(f + first), Value: s.Value[i]}
	}
	return out
}

// Float is the shortest text of a number.
func Float(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }
