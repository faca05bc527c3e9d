package file

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// Check verifies a file.
type Check struct {
	command.InFile
}

// errProblems is the error of a check that has found damage.
var errProblems = errors.New("the file is damaged")

func (c *Check) Run(a *command.App) error {
	start := time.Now()
	t := table.New("problem", "collection", "object", "section", "chunk", "offset")
	err := c.With(a, true, func(d *db.DB) error {
		return d.Check(a.Ctx, func(p *db.CorruptError) {
			t.Add(command.Message(p.Err), p.Collection, p.Object, p.Section, p.Chunk, p.Offset)
		}, a.Run())
	})
	a.Progress.End()
	if err != nil && t.Len() == 0 {
		return err
	}
	if t.Len() > 0 {
		if werr := a.Print(t); werr != nil {
			return werr
		}
		return fmt.Errorf("%s: %w: problems: %d "+
			"(anndb repair %s rebuilds indexes, with --to NEW it saves the rows)",
			c.File, errProblems, t.Len(), c.File)
	}
	clean := table.New("file", "problems", "seconds:2")
	clean.Add(c.File, 0, time.Since(start).Seconds())
	return a.Print(clean)
}

// Backup copies a database.
type Backup struct {
	command.InFile
	Output string `arg:""`
	command.ForceFlag
}

func (c *Backup) Run(a *command.App) error {
	if c.Output == command.Standard {
		return c.stream(a)
	}
	if err := c.Refuse([]string{c.Output}, c.File); err != nil {
		return err
	}
	mode, err := command.ModeOf(c.File)
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
		return command.WriteFile(c.Output, mode, func(w io.Writer) (err error) {
			n, err = d.Backup(a.Ctx, &meter{w: w, total: st.FileBytes, progress: a.Progress})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("backup to %s: %w", c.Output, err)
	}
	a.Progress.End()
	t := table.New("file", "size", "seconds:2")
	t.Add(c.Output, table.Size(n), time.Since(start).Seconds())
	return a.Done(t)
}

// stream writes the copy to standard output.
func (c *Backup) stream(a *command.App) error {
	if command.Terminal(a.W) != nil {
		return command.Usagef("a backup is no text for a terminal: name a file, or pipe it")
	}
	return c.With(a, true, func(d *db.DB) error {
		st, err := d.Stats()
		if err != nil {
			return err
		}
		_, err = d.Backup(a.Ctx, &meter{w: a.W, total: st.FileBytes, progress: a.Progress})
		return err
	})
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
		from, to := before.FileBytes, after.FileBytes
		t := table.New("file", "before", "after", "seconds:2")
		t.Add(c.File, table.Size(from), table.Size(to), time.Since(start).Seconds())
		return a.Done(t)
	})
}
