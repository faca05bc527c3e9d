package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// whereFlag restricts a command to the rows that pass a filter.
type whereFlag struct {
	Where string `help:"Only rows that pass this filter, as in: price < 20 and label in (boot, bag) and not key prefix \"tmp/\"." placeholder:"FILTER"`
}

// filter returns the filter of the flag, nil without one. An error shows where the text is wrong.
func (f whereFlag) filter() (*db.Filter, error) {
	if f.Where == "" {
		return nil, nil
	}
	filter, err := db.ParseFilter(f.Where)
	if at, ok := errors.AsType[*db.FilterError](err); ok {
		return nil, fmt.Errorf("--where: %w\n  %s", err, strings.ReplaceAll(at.Caret(), "\n", "\n  "))
	}
	return filter, err
}

// suits refuses a filter on attributes that no row of the collection ever had.
func (f whereFlag) suits(filter *db.Filter, info db.CollectionInfo) error {
	for _, name := range filter.Attributes() {
		if slices.Contains(info.Attributes, name) {
			continue
		}
		have := "they have none"
		if len(info.Attributes) > 0 {
			have = "they have " + strings.Join(info.Attributes, ", ")
		}
		return usagef("--where: rows of %q have no attribute %q: %s", info.Name, name, have)
	}
	return nil
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
		if err := c.whereFlag.suits(filter, info); err != nil {
			return err
		}
		n, err := s.Collection(info.Name).Count(a.ctx, filter)
		if err != nil {
			return err
		}
		t := table.New("collection", "rows")
		t.Add(info.Name, n)
		return a.Print(t)
	})
}
