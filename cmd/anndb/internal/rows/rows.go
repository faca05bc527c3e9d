// Package rows has the commands that make, change, show and delete collections and rows.
package rows

import (
	"errors"
	"iter"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
)

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
	selected := c.Where.Filter
	if c.Prefix != "" {
		selected = filter.And(selected, filter.KeyPrefix([]byte(c.Prefix)))
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		coll := s.Collection(c.Collection)
		list := coll.Rows(a.Ctx, selected)
		if c.Where.Filter == nil && (c.Prefix != "" || c.From != "") {
			list = c.byKey(a, coll)
		}
		shown := 0
		err := printRows(a, info, c.Values, func(yield func(db.Row, error) bool) {
			for r, err := range list {
				if err == nil && string(r.Key) < c.From {
					continue
				}
				if c.Limit > 0 && shown == c.Limit {
					return
				}
				if shown++; !yield(r, err) {
					return
				}
			}
		})
		if err != nil || c.Limit == 0 || shown < c.Limit {
			return err
		}
		all, err := coll.Count(a.Ctx, selected)
		if all > shown {
			a.Summary("rows shown: %d of %d; --limit 0 shows all", shown, all)
		}
		return err
	})
}

// byKey iterates over the rows of a prefix in the order of keys.
func (c *Rows) byKey(a *command.App, coll db.Collection) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		for key, err := range coll.Keys([]byte(c.Prefix), []byte(c.From)) {
			var row db.Row
			if err = errors.Join(err, a.Ctx.Err()); err == nil {
				row, err = coll.Get(key)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
