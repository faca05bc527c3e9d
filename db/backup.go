package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/maintenance"
)

// Backup writes a copy of the latest state, a complete database, to w and returns its length in
// bytes. Writers run concurrently; the pages of the copied state are not reused until the backup
// ends.
func (d *DB) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	if err := fail.Context(ctx); err != nil {
		return 0, err
	}
	if w == nil {
		return 0, fmt.Errorf("%w: Backup without a writer", fail.Option)
	}
	s, err := d.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Release()
	return backup(ctx, s.gen, w)
}

func backup(ctx context.Context, g *state.Generation, w io.Writer) (n int64, err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	n, err = g.Tx.WriteTo(&contextWriter{ctx, w})
	if stop := ctx.Err(); err != nil && stop != nil {
		return n, fmt.Errorf("db: backup: %w", stop) // bbolt's error does not wrap it
	}
	if err != nil {
		return n, fail.Wrapf(fail.System(err), "backup")
	}
	return n, nil
}

// contextWriter is a writer that fails once its context is cancelled.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// Restore copies a backup to the database file at path. Backup and copy are verified before the
// copy is renamed: a crash leaves the previous file or the backup. An existing file is replaced
// only if replace is set, and never while another process has it open, or if it is another one at the
// end than at the beginning. Errors: ErrExists, ErrLocked, ErrReplaced, those of Open.
func Restore(ctx context.Context, backup, path string, replace bool) (err error) {
	if err := fail.Context(ctx); err != nil {
		return err
	}
	if err := checkFile(ctx, backup); err != nil {
		return fail.Wrapf(err, "restore: backup")
	}
	perm := fs.FileMode(0o600)
	var old *DB // the database to replace
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fail.Wrapf(err, "restore")
	case !replace:
		return fmt.Errorf("%w: %s", ErrExists, path)
	default:
		// If path is a symbolic link, its target is replaced.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fail.Wrapf(err, "restore")
		}
		info, err := os.Stat(path)
		if err != nil {
			return fail.Wrapf(err, "restore")
		}
		perm = info.Mode().Perm()
		// A process that holds the lock would continue with the old file and lose its writes. A
		// damaged file may be impossible to open; it is replaced.
		o := Options{MustExist: true, AcceptOlder: true, Maintenance: &maintenance.Policy{Manual: true}}
		d, opened := Open(ctx, path, &o)
		if errors.Is(opened, ErrLocked) {
			return opened
		}
		if opened == nil {
			old = d
			defer func() { err = errors.Join(err, old.Close()) }()
		}
	}
	name, err := store.Temp(path)
	if err != nil {
		return fail.Wrapf(fail.System(err), "restore")
	}
	defer os.Remove(name) // fails, as intended, after a rename
	tmp, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fail.Wrapf(err, "restore")
	}
	from, err := os.Open(backup)
	if err != nil {
		return errors.Join(fail.Wrapf(err, "restore"), tmp.Close())
	}
	_, err = io.Copy(&contextWriter{ctx, tmp}, from)
	err = errors.Join(err, from.Close(), tmp.Chmod(perm), tmp.Sync(), tmp.Close())
	if err != nil {
		return fail.Wrapf(fail.System(err), "restore")
	}
	if err := checkFile(ctx, name); err != nil {
		return fail.Wrapf(err, "restore: copy")
	}
	if err := moveRestored(name, path, replace, old); err != nil {
		return err
	}
	return store.SyncDir(filepath.Dir(path))
}

// moveRestored gives a restored file its name. It replaces no file that another process has put there
// since old was opened, which is nil if there was none or if it could not be opened.
func moveRestored(name, path string, replace bool, old *DB) (err error) {
	switch {
	case old != nil:
		if err = old.txn.File().Named(); err == nil {
			err = os.Rename(name, path)
		}
	case replace:
		err = os.Rename(name, path)
	default:
		if err = store.Link(name, path); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s", ErrExists, path)
		}
	}
	if err != nil {
		return fail.Wrapf(err, "restore")
	}
	return nil
}

// checkFile opens a database and checks it.
func checkFile(ctx context.Context, path string) error {
	d, err := Open(ctx, path, &Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return err
	}
	var first error
	err = d.Check(ctx, func(p *CorruptError) {
		if first == nil {
			first = p
		}
	}, nil)
	if err != nil && first != nil {
		err = fmt.Errorf("%w, the first: %w", err, fail.Inner{Err: first})
	}
	return errors.Join(err, d.Close())
}
