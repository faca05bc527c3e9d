package file

import (
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Compact shrinks a file.
type Compact struct {
	command.InFile
	Reorder bool
}

func (c *Compact) Run(a *command.App) error {
	start := time.Now()
	return c.With(a, false, func(d *db.DB) error {
		before, err := d.Stats()
		if err != nil {
			return err
		}
		err = d.Compact(a.Ctx, &db.CompactOptions{Reorder: c.Reorder, Run: *a.Run()})
		a.Progress.End()
		if err != nil {
			return err
		}
		after, err := d.Stats()
		if err != nil {
			return err
		}
		from, to := table.Size(before.FileBytes), table.Size(after.FileBytes)
		took := time.Since(start).Seconds()
		return a.Done(table.One("file before after seconds:2", a.Shown(c.File), from, to, took))
	})
}
