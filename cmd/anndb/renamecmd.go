package main

import (
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// renameCmd gives a collection another name.
type renameCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	To         string `arg:"" help:"Its new name, which no other collection has."`
}

// Run executes the command.
func (c *renameCmd) Run(a *app) error {
	return c.with(a, false, func(d *db.DB) error {
		if err := d.Rename(a.ctx, c.Collection, c.To); err != nil {
			return err
		}
		t := table.New("collection", "to")
		t.Add(c.Collection, c.To)
		return a.done(t)
	})
}
