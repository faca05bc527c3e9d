package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// checkCmd verifies a file.
type checkCmd struct {
	inFile
}

// errProblems is the error of a check that has found damage.
var errProblems = errors.New("the file is damaged")

// Run executes the command.
func (c *checkCmd) Run(a *app) error {
	start := time.Now()
	t := table.New("problem", "collection", "object", "section", "chunk", "offset")
	err := c.with(a, true, func(d *db.DB) error {
		return d.Check(a.ctx, func(p *db.CorruptError) {
			t.Add(message(p.Err), p.Collection, p.Object, p.Section, p.Chunk, p.Offset)
		}, a.run())
	})
	a.progress.End()
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

// backupCmd copies a database.
type backupCmd struct {
	inFile
	Output string `arg:"" help:"File to write; - for standard output."`
	forceFlag
}

// Run executes the command.
func (c *backupCmd) Run(a *app) error {
	if c.Output == standard {
		return c.stream(a)
	}
	if err := c.refuse([]string{c.Output}, c.File); err != nil {
		return err
	}
	mode, err := modeOf(c.File)
	if err != nil {
		return err
	}
	start := time.Now()
	var n int64
	err = c.with(a, true, func(d *db.DB) error {
		st, err := d.Stats()
		if err != nil {
			return err
		}
		return writeFile(c.Output, mode, func(w io.Writer) (err error) {
			n, err = d.Backup(a.ctx, &meter{w: w, total: st.FileBytes, progress: a.progress})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("backup to %s: %w", c.Output, err)
	}
	a.progress.End()
	t := table.New("file", "size", "seconds:2")
	t.Add(c.Output, table.Size(n), time.Since(start).Seconds())
	return a.done(t)
}

// stream writes the copy to standard output.
func (c *backupCmd) stream(a *app) error {
	if terminal(a.W) != nil {
		return usagef("a backup is no text for a terminal: name a file, or pipe it")
	}
	return c.with(a, true, func(d *db.DB) error {
		st, err := d.Stats()
		if err != nil {
			return err
		}
		_, err = d.Backup(a.ctx, &meter{w: a.W, total: st.FileBytes, progress: a.progress})
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

// compactCmd shrinks a file.
type compactCmd struct {
	inFile
	Reorder bool `help:"Also give near rows of dense collections near numbers, which makes searches in large ones faster. Indexes are rebuilt: best before the first build."`
}

// Run executes the command.
func (c *compactCmd) Run(a *app) error {
	start := time.Now()
	return c.with(a, false, func(d *db.DB) error {
		before, err := d.Stats()
		if err != nil {
			return err
		}
		err = d.Compact(a.ctx, &db.CompactOptions{Reorder: c.Reorder, Run: *a.run()})
		a.progress.End()
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
		return a.done(t)
	})
}
