package main

import (
	"fmt"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// whereFlag restricts a command to the rows that pass a filter.
type whereFlag struct {
	Where string `help:"Only rows that pass this filter, as in: price < 20 and label in (boot, bag) and not key prefix \"tmp/\"." placeholder:"FILTER"`
}

// filter returns the filter of the flag, nil without one.
func (f whereFlag) filter() (*db.Filter, error) {
	if f.Where == "" {
		return nil, nil
	}
	filter, err := db.ParseFilter(f.Where)
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return filter, nil
}

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
	return c.collection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		n, err := s.Collection(info.Name).Count(a.ctx, filter)
		if err != nil {
			return err
		}
		t := table.New("collection", "rows")
		t.Add(info.Name, n)
		return a.Print(t)
	})
}
