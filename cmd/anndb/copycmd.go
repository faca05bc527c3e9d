package main

import (
	"context"
	"errors"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// copyCmd copies the rows of a collection.
type copyCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	To         string `arg:"" help:"Collection to make. Indexes are not copied: build them."`
	whereFlag
}

// Run executes the command.
func (c *copyCmd) Run(a *app) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	return c.with(a, false, func(d *db.DB) error {
		n := 0
		err := d.View(func(s *db.Snapshot) error {
			info, err := s.Collection(c.Collection).Info()
			if err != nil {
				return err
			}
			to, err := d.Create(a.ctx, c.To, info.Schema)
			if err != nil {
				return err
			}
			o := db.LoadOptions{Insert: true}
			o.Progress = func(_ string, done, _ int) { a.progress.Update("copy", done, info.Live) }
			n, err = to.Load(a.ctx, s.Collection(c.Collection).Rows(a.ctx, filter), &o)
			if err != nil { // half a copy is none
				err = errors.Join(err, d.Drop(context.WithoutCancel(a.ctx), c.To))
			}
			return err
		})
		a.progress.End()
		if err != nil {
			return err
		}
		t := table.New("collection", "to", "rows")
		t.Add(c.Collection, c.To, n)
		return a.done(t)
	})
}
