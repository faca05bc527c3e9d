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
	"github.com/anndb/anndb/db/internal/store"
)

// RepairedIndex is a damaged index that Repair has found.
type RepairedIndex struct {
	Collection, Index string
	// Damage is the first error found in the index.
	Damage error
	// Err is the reason why it could not be rebuilt; nil if it was.
	Err error
}

// Repair verifies every block and cross-reference of the indexes and rebuilds the damaged ones
// from their rows, with their stored settings and without tuning. The file holds two copies of
// these settings. An index stays as it is if both copies are lost, or the only copy in files of
// earlier versions: drop or build it. Repair does not repair rows; Salvage recovers what can be
// read of them.
//
// Errors: ErrCorrupt if an index could not be rebuilt, or if pages are damaged so that the file
// must not be written to.
func (d *DB) Repair(ctx context.Context) (found []RepairedIndex, err error) {
	if err := d.txn.Writable(ctx); err != nil {
		return nil, err
	}
	ctx, release, err := d.txn.Hold(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	repaired, err := d.indexes.Repair(ctx)
	for _, x := range repaired {
		found = append(found, RepairedIndex(x))
	}
	return found, err
}

// Restore copies a backup to the database file at path, which it replaces or creates. The
// backup is checked completely first, and then its copy. Only after that the copy is renamed to
// path: a crash leaves either the previous file or the backup. An existing file is replaced
// only if replace is set, and never while another process has it open.
//
// Errors: ErrCorrupt for a damaged backup, ErrExists, ErrLocked, those of Open.
func Restore(ctx context.Context, backup, path string, replace bool) (err error) {
	if err := checkFile(ctx, backup); err != nil {
		return fail.Wrapf(err, "restore: backup")
	}
	perm := fs.FileMode(0o600)
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
		o := Options{MustExist: true, AcceptOlder: true, Maintenance: &Maintenance{Manual: true}}
		old, opened := Open(path, &o)
		if errors.Is(opened, ErrLocked) {
			return opened
		}
		if opened == nil {
			defer func() { err = errors.Join(err, old.Close()) }()
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".restore-*")
	if err != nil {
		return fail.Wrapf(fail.System(err), "restore")
	}
	defer os.Remove(tmp.Name()) // fails, as intended, after the rename
	from, err := os.Open(backup)
	if err != nil {
		return errors.Join(fail.Wrapf(err, "restore"), tmp.Close())
	}
	_, err = io.Copy(&contextWriter{ctx, tmp}, from)
	err = errors.Join(err, from.Close(), tmp.Chmod(perm), tmp.Sync(), tmp.Close())
	if err != nil {
		return fail.Wrapf(fail.System(err), "restore")
	}
	if err := checkFile(ctx, tmp.Name()); err != nil {
		return fail.Wrapf(err, "restore: copy")
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fail.Wrapf(err, "restore")
	}
	return store.SyncDir(filepath.Dir(path))
}

// checkFile opens a database and checks it.
func checkFile(ctx context.Context, path string) error {
	d, err := Open(path, &Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return err
	}
	var first error
	err = d.Check(ctx, func(p *CorruptError) {
		if first == nil {
			first = p
		}
	})
	if err != nil && first != nil {
		err = fmt.Errorf("%w, the first: %w", err, fail.Inner{Err: first})
	}
	return errors.Join(err, d.Close())
}
