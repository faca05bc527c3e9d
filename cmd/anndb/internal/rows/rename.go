package rows

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Rename gives a collection another name.
type Rename struct {
	command.InCollection
	To string `arg:""`
}

func (c *Rename) Run(a *command.App) error {
	return c.With(a, false, func(d *db.DB) error {
		if err := d.Rename(a.Ctx, c.Collection, c.To); err != nil {
			return err
		}
		return a.Done(table.One("collection to", c.Collection, c.To))
	})
}
