package indexes

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Default selects the index of queries that name none.
type Default struct {
	command.InCollection
	Index string `arg:""`
}

func (c *Default) Run(a *command.App) error {
	return c.With(a, false, func(d *db.DB) error {
		if err := d.Collection(c.Collection).SetDefault(a.Ctx, c.Index); err != nil {
			return err
		}
		return a.Done(table.One("collection default", c.Collection, c.Index))
	})
}
