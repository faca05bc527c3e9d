package file

import (
	"errors"
	"fmt"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
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
	clean.Add(a.Shown(c.File), 0, time.Since(start).Seconds())
	return a.Print(clean)
}
