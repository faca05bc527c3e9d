package file

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/internal/table"
)

// Repair rebuilds damaged indexes, or saves the rows of a damaged file.
type Repair struct {
	command.InFile
	To        string `placeholder:"NEW" type:"path"`
	NoIndexes bool   `with:"to"`
	command.ForceFlag
}

func (c *Repair) Run(a *command.App) error {
	if c.To != "" {
		return c.salvage(a)
	}
	if c.Force {
		return command.Usagef("--force goes with --to")
	}
	return c.With(a, false, func(d *db.DB) error {
		found, err := d.Repair(a.Ctx, a.Run())
		a.Progress.End()
		t := table.New("collection", "index", "damage", "rebuilt")
		for _, x := range found {
			t.Add(x.Collection, x.Index, command.Message(x.Damage), x.Err == nil)
		}
		if err = errors.Join(a.Print(t), err); err == nil {
			err = d.Check(a.Ctx, nil, a.Run()) // rows are another matter
			a.Progress.End()
		}
		return err
	})
}

// salvage writes what can be read to another file.
func (c *Repair) salvage(a *command.App) error {
	if err := c.Refuse([]string{c.To}, c.File); err != nil {
		return err
	}
	// A file that is written to would be read in the middle of a change.
	switch d, err := c.Open(a, true); {
	case a.Program.Host.Database(c.File) != nil:
		return command.Explain(c.File, fmt.Errorf("%w: %s", db.ErrLocked, c.File))
	case errors.Is(err, db.ErrLocked):
		return err
	case err == nil:
		if err := d.Close(); err != nil {
			return err
		}
	}
	lost := &lostRows{}
	to := c.To
	if command.Exists(to) { // it stays until the rows are saved
		to += ".partial"
		defer os.Remove(to)
	}
	r, err := rescue.Salvage(a.Ctx, c.File, to, &rescue.Options{
		NoIndexes: c.NoIndexes, Lost: lost.add, Run: *a.Run(),
	})
	a.Progress.End()
	if err == nil && to != c.To {
		err = os.Rename(to, c.To)
	}
	switch {
	case errors.Is(err, db.ErrCorrupt) && !errors.Is(err, db.ErrNotDatabase):
		err := fmt.Errorf("%s: neither a catalog nor a row of a database can be read", c.File)
		if looks := command.LooksLike(c.File); looks != command.LikeNothing && looks != command.LikeBolt {
			err = fmt.Errorf("%w: %s", err, looks)
		}
		return err
	case err != nil:
		return command.Explain(c.File, err)
	}
	return c.report(a, &r, lost)
}

// report prints what was saved, and returns an error if rows were lost.
func (c *Repair) report(a *command.App, r *rescue.Report, lost *lostRows) error {
	sum := table.New("file", "rows", "lost", "indexes")
	sum.Add(a.Shown(c.To), r.Rows, r.Lost, len(r.Indexes))
	if r.Searched != nil { // how many there were is lost as well
		sum = table.New("file", "rows", "indexes")
		sum.Add(a.Shown(c.To), r.Rows, len(r.Indexes))
	}
	notes := table.New("note")
	if r.Searched != nil {
		notes.Add(fmt.Sprintf("rows were searched for in all pages, since %s: some may be missing, "+
			"or of an earlier state", oneLine(command.Message(r.Searched))))
	}
	for _, name := range r.Revived {
		notes.Add(fmt.Sprintf("collection %q: deleted rows may have come back", name))
	}
	for name, err := range r.NotBuilt {
		notes.Add(fmt.Sprintf("index %s was not built: %v", name, command.Message(err)))
	}
	err := a.Report(sum.As("saved", ""), lost.table().As("lost", "Lost rows"), notes.As("notes", "Notes"))
	switch {
	case err != nil:
		return err
	case r.Lost > 0:
		return fmt.Errorf("%s: rows saved: %d, lost: %d", c.File, r.Rows, r.Lost)
	case r.Searched != nil:
		return fmt.Errorf("%s: rows saved: %d, some may be missing", c.File, r.Rows)
	}
	return nil
}

// oneLine joins the lines of a text, each once: the two headers of a file often have the same fault.
func oneLine(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
