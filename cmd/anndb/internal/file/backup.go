package file

import (
	"fmt"
	"io"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// Backup copies a database.
type Backup struct {
	command.InFile
	Output string `arg:"" type:"path"`
	command.ForceFlag
}

func (c *Backup) Run(a *command.App) error {
	if c.Output == command.Standard && command.IsTerminal(a.W) {
		return command.Usagef("a backup is no text for a terminal: name a file, or pipe it")
	}
	mode, err := c.Allow(c.File, c.Output)
	if err != nil {
		return err
	}
	start := time.Now()
	var n int64
	err = c.With(a, true, func(d *db.DB) error {
		st, err := d.Stats()
		if err != nil {
			return err
		}
		fill := func(w io.Writer) (err error) {
			n, err = d.Backup(a.Ctx, &meter{w: w, total: st.FileBytes, progress: a.Progress})
			return err
		}
		if c.Output == command.Standard {
			return fill(a.W)
		}
		return command.WriteFile(c.Output, mode, fill)
	})
	a.Progress.End()
	switch {
	case err != nil:
		return fmt.Errorf("backup to %s: %w", c.Output, err)
	case c.Output == command.Standard:
		return nil
	}
	took := time.Since(start).Seconds()
	return a.Done(table.One("file size seconds:2", a.Shown(c.Output), table.Size(n), took))
}

// meter reports how much was written through it.
type meter struct {
	w        io.Writer
	n, total int64
	progress *progress.Line
}

// Write passes p on and counts it.
func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.n += int64(n)
	// In MiB, so that a terabyte fits an int of 32 bits.
	m.progress.Update("backup", int(m.n>>20), int(m.total>>20))
	return n, err
}
