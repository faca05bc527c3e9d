// Package compact rewrites an open file without free pages, and without deleted rows or in a new order
// of rows if that is requested, while transactions are committed to it.
package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
)

// Compactor compacts one file.
type Compactor struct {
	Txn *txn.Manager
	// Target is the name of the file without symbolic links, Path the one for messages.
	Target, Path string
	Store        store.Options // with which the file is open
	Log          *slog.Logger
}

// Stats is the length of the file before and after a compaction, in bytes: the fields of
// db.CompactStats.
type Stats struct{ Before, After int64 }

// Run rewrites the file. The caller holds all shares of row numbers.
func (c *Compactor) Run(ctx context.Context, n Numbers) (st Stats, err error) {
	name, err := store.Temp(c.Target)
	if err != nil {
		return st, fail.Wrapf(fail.System(err), "compact")
	}
	defer os.Remove(name) // fails after the rename, as intended
	before, err := os.Stat(c.Target)
	if err != nil {
		return st, fmt.Errorf("db: compact: %w", err)
	}
	if err := os.Chmod(name, before.Mode().Perm()); err != nil {
		return st, fmt.Errorf("db: compact: %w", err)
	}
	st.Before = before.Size()
	if st.After, err = c.replace(ctx, name, n); err != nil {
		return Stats{}, fail.Wrapf(fail.System(err), "compact")
	}
	return st, nil
}

// replace copies the latest state to the empty file name, applies the changes committed during the
// copy, and replaces the file with the copy. It returns the length of the new file.
func (c *Compactor) replace(ctx context.Context, name string, n Numbers) (size int64, err error) {
	f, err := c.Copy(ctx, name, n)
	if err != nil {
		return 0, err
	}
	defer f.End()
	replaced := false
	defer func() {
		if !replaced {
			err = errors.Join(err, f.File.Close())
		}
	}()
	for round, n := 0, catchUpBytes+1; n > catchUpBytes && round < catchUpRounds; round++ {
		if n, _, err = f.Follow(ctx); err != nil {
			return 0, err
		}
		if err := f.File.Sync(); err != nil {
			return 0, err
		}
	}
	err = c.Txn.Locked(ctx, func() error {
		_, last, err := f.Follow(ctx)
		if err != nil {
			return err
		}
		if err := f.File.Sync(); err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		size = info.Size()
		f.File.KeepNumberings(c.Txn.File(), f.Kept())
		replaced, err = c.Txn.Replace(txn.Replacement{
			File: f.File, Name: name, Target: c.Target, NoSync: c.Store.NoSync, Renumbered: f.Moved.numbers(), Last: last,
		})
		return err
	})
	return size, err
}

// open opens a copy of the file, without fsync until it takes the place of the file.
func (c *Compactor) open(name string) (*state.File, error) {
	o := c.Store
	o.NoSync = true
	return c.Txn.File().OpenCopy(name, o)
}
