package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/db/internal/check"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
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
	type damagedIndex struct {
		RepairedIndex
		again *rebuild
		why   error // why there is no manifest
	}
	var damaged []damagedIndex
	err = d.View(func(s *Snapshot) (err error) {
		defer state.Guard(s.gen.File, state.CatchFaults(), &err)
		if err := s.gen.File.VerifyPages(layout.AllParts); err != nil {
			return err
		}
		for _, c := range s.gen.Catalog.Collections {
			st := s.gen.Collections[c.Name]
			for i := range c.Indexes {
				r := &c.Indexes[i]
				wrong := check.IndexBlocks(ctx, st, r)
				if err := ctx.Err(); err != nil {
					return fail.Wrapf(err, "repair")
				}
				if wrong != nil {
					x := damagedIndex{RepairedIndex: RepairedIndex{Collection: c.Name, Index: r.Name, Damage: wrong}}
					m, err := st.ManifestOf(r)
					if err != nil {
						if copied, e := st.ReadManifest(r, layout.BucketBlocks); e == nil {
							m, err = copied, nil
						}
					}
					if x.why = err; err == nil {
						x.again = newRebuild(ctx, st, m)
						x.again.replaces = r.Object
					}
					damaged = append(damaged, x)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, x := range damaged {
		if x.Err = x.why; x.Err == nil {
			_, x.Err = d.rebuild(ctx, x.Collection, x.again)
			if errors.Is(x.Err, errOvertaken) {
				x.Err = nil // the damaged index was dropped
			}
		}
		found = append(found, x.RepairedIndex)
		if x.Err != nil {
			failed = append(failed, fmt.Errorf("index %q of %q: %w", x.Index, x.Collection, fail.Inner{Err: x.Err}))
		}
		if err := d.txn.Writable(ctx); err != nil {
			return found, errors.Join(append(failed, err)...)
		}
	}
	if len(failed) > 0 {
		return found, fmt.Errorf("%w: not repaired: %w", ErrCorrupt, errors.Join(failed...))
	}
	return found, nil
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
