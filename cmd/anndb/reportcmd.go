package main

import (
	"fmt"
	"io"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/internal/table"
)

// reportCmd writes a page about a database.
type reportCmd struct {
	inFile
	Out string `help:"HTML file to write; - for standard output." default:"report.html"`
	forceFlag
	Check   bool `help:"Also verify the whole file and list the damage."`
	MapRows int  `help:"Rows to draw of a collection." default:"2000"`
}

// Run executes the command.
func (c *reportCmd) Run(a *app) error {
	if c.MapRows < 3 || c.MapRows > 100_000 {
		return usagef("--map-rows %d (want 3 to 100,000)", c.MapRows)
	}
	if err := c.refuse([]string{c.Out}, c.File); err != nil {
		return err
	}
	mode, err := modeOf(c.File)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	err = c.with(a, true, func(d *db.DB) error {
		o := report.Options{Check: c.Check, MapRows: c.MapRows, Now: time.Now(), Run: *a.run()}
		if c.Out == standard {
			return report.Write(a.ctx, a.W, d, o)
		}
		return writeFile(c.Out, mode, func(w io.Writer) error { return report.Write(a.ctx, w, d, o) })
	})
	a.progress.End()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if c.Out == standard {
		return nil
	}
	t := table.New("report")
	t.Add(c.Out)
	return a.done(t)
}
