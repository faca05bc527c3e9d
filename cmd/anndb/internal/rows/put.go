package rows

import (
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Put writes one row.
type Put struct {
	command.InCollection
	Key    string   `arg:""`
	Values []string `arg:"" optional:""`
	Text   *string  `placeholder:"TEXT"`
	partFlags
	New bool
}

func (c *Put) Run(a *command.App) error {
	row := db.Row{Key: []byte(c.Key), Labels: c.Label}
	var err error
	if row.Attributes, err = c.attributes(); err != nil {
		return err
	}
	if row.ExpiresAt, err = c.expiry(time.Now()); err != nil {
		return err
	}
	if c.Payload != nil {
		row.Payload = []byte(*c.Payload)
	}
	return c.With(a, false, func(d *db.DB) error {
		info, err := d.Collection(c.Collection).Info()
		if err != nil {
			return err
		}
		if err := c.body(&row, info); err != nil {
			return err
		}
		replaced := false
		err = d.Update(a.Ctx, func(tx *db.Tx) (err error) {
			rows := tx.Collection(c.Collection)
			if replaced, err = rows.Has(row.Key); err != nil {
				return err
			}
			if c.New {
				return rows.Insert(row)
			}
			return rows.Put(row)
		})
		if err != nil {
			return err
		}
		return a.Done(table.One("collection key replaced", c.Collection, c.Key, replaced))
	})
}

// body fills in the text, the vector or the features of the row.
func (c *Put) body(row *db.Row, info db.CollectionInfo) error {
	switch texts := info.Text != nil; {
	case texts && info.Dim > 0:
		return c.both(row, info)
	case texts && (c.Text == nil || len(c.Values) > 0):
		return command.Usagef("collection %q is of texts: give the text with --text, and nothing else", info.Name)
	case texts:
		row.Text = *c.Text
		return nil
	case c.Text != nil:
		return command.Usagef("--text is for collections of texts; %q is %s", info.Name, command.KindOf(info))
	}
	q, err := input.Literal(c.Values, info, command.NumberingOf(info))
	row.Vector, row.Sparse, row.Features = q.Vector, q.Sparse, q.Features
	return err
}

// both fills in the text and the vector, of which one can be missing.
func (c *Put) both(row *db.Row, info db.CollectionInfo) (err error) {
	if c.Text == nil && len(c.Values) == 0 {
		return command.Usagef("collection %q is of texts and vectors: give the text with --text, the vector as "+
			"[1, 2, 3], or both", info.Name)
	}
	if c.Text != nil {
		row.Text = *c.Text
	}
	if len(c.Values) > 0 {
		row.Vector, err = input.VectorOf(strings.Join(c.Values, " "), info)
	}
	return err
}
