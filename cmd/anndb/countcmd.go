package main

import (
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// countCmd counts rows.
type countCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	whereFlag
}

// Run executes the command.
func (c *countCmd) Run(a *app) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	return c.withCollection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		n, err := s.Collection(info.Name).Count(a.ctx, filter)
		if err != nil {
			return err
		}
		t := table.New("collection", "rows")
		t.Add(info.Name, n)
		return a.Print(t)
	})
}
