package main

import (
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// defaultCmd selects the index of queries that name none.
type defaultCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	Index      string `arg:"" help:"Index that searches, or predictions, use if they name none."`
}

// Run executes the command.
func (c *defaultCmd) Run(a *app) error {
	return c.with(a, false, func(d *db.DB) error {
		if err := d.Collection(c.Collection).SetDefault(a.ctx, c.Index); err != nil {
			return err
		}
		t := table.New("collection", "default")
		t.Add(c.Collection, c.Index)
		return a.done(t)
	})
}
