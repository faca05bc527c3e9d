package file

import (
	"fmt"
	"io"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/internal/table"
)

// Report writes a page about a database.
type Report struct {
	command.InFile
	Out string `default:"report.html" type:"path"`
	command.ForceFlag
	Check bool
}

func (c *Report) Run(a *command.App) error {
	mode, err := c.Allow(c.File, c.Out)
	if err != nil {
		return err
	}
	err = c.With(a, true, func(d *db.DB) error {
		o := report.Options{Check: c.Check, Now: time.Now(), Run: *a.Run()}
		if c.Out == command.Standard {
			return report.Write(a.Ctx, a.W, d, o)
		}
		return command.WriteFile(c.Out, mode, func(w io.Writer) error { return report.Write(a.Ctx, w, d, o) })
	})
	a.Progress.End()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if c.Out == command.Standard {
		return nil
	}
	return a.Done(table.One("report", a.Shown(c.Out)))
}
