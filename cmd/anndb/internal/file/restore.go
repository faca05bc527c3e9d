package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Restore puts a backup in the place of a database.
type Restore struct {
	Backup string `arg:"" type:"path"`
	File   string `arg:"" type:"path"`
	command.ForceFlag
}

func (c *Restore) Run(a *command.App) error {
	if err := c.Refuse([]string{c.File}, c.Backup); err != nil {
		return err
	}
	if _, err := os.Stat(c.Backup); err != nil {
		return fmt.Errorf("backup %s: %w", c.Backup, command.Cause(err))
	}
	start := time.Now()
	if err := db.Restore(a.Ctx, c.Backup, c.File, c.Force); err != nil {
		switch {
		case errors.Is(err, db.ErrLocked) && command.Exists(c.File):
			return command.Explain(c.File, err)
		case errors.Is(err, db.ErrLocked): // the backup
			return command.Explain(c.Backup, err)
		}
		if dir := filepath.Dir(c.File); !command.Exists(dir) {
			return fmt.Errorf("%s: there is no folder %s: %w", c.File, dir, fs.ErrNotExist)
		}
		return fmt.Errorf("backup %w", command.Explain(c.Backup, err))
	}
	return a.Done(table.One("file seconds:2", c.File, time.Since(start).Seconds()))
}
