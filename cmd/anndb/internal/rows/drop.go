package rows

import (
	"errors"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Drop removes an index or a collection.
type Drop struct {
	command.InCollection
	Index   string `arg:"" optional:""`
	Yes     bool
	Missing bool
}

func (c *Drop) Run(a *command.App) error {
	if c.Index == "" && !c.Yes {
		// One that is not there is no reason to ask for --yes.
		err := c.WithCollection(a, func(*db.Snapshot, db.CollectionInfo) error { return nil })
		if err != nil && !(c.Missing && errors.Is(err, db.ErrNotFound)) {
			return err
		}
		return command.Usagef("this removes collection %q with all its rows: add --yes, or name an index",
			c.Collection)
	}
	return c.With(a, false, func(d *db.DB) error {
		what := any("index " + c.Index)
		var err error
		if c.Index != "" {
			err = c.dropIndex(a, d)
		} else {
			what = "collection"
			err = d.Drop(a.Ctx, c.Collection)
		}
		if c.Missing && errors.Is(err, db.ErrNotFound) {
			what, err = nil, nil
		}
		if err != nil {
			return err
		}
		return a.Done(table.One("collection dropped", c.Collection, what))
	})
}

// dropIndex removes the index, and notes the label models that find neighbours by it.
func (c *Drop) dropIndex(a *command.App, d *db.DB) error {
	list, err := d.Collection(c.Collection).Indexes()
	if err != nil {
		return err
	}
	if err := d.Collection(c.Collection).DropIndex(a.Ctx, c.Index); err != nil {
		return err
	}
	for _, i := range list {
		if indexes.LCIFOptions(i).Neighbors == c.Index {
			a.Note("label model %q found neighbours by index %q: now it scans all rows", i.Name, c.Index)
		}
	}
	return nil
}
