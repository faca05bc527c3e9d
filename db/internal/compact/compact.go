// Package compact rewrites an open file without free pages, and without deleted rows or in a new order
// of rows if that is requested, while transactions are committed to it.
package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/trace"
)

// Compactor compacts one file.
type Compactor struct {
	Txn *txn.Manager
	// Target is the name of the file without symbolic links, Path the one for messages.
	Target, Path string
	Store        store.Options // with which the file is open
	Log          *slog.Logger
	// Convert, if not nil, changes the descriptions of collections and reports whether it has. Their rows are
	// written again in the new form, with new numbers, and their indexes are rebuilt, or the run fails.
	Convert func(c *layout.Collection) bool
}

// Stats is the length of the file before and after a compaction, in bytes.
type Stats struct{ Before, After int64 }

// Run rewrites the file. The caller holds all shares of row numbers.
func (c *Compactor) Run(ctx context.Context, n Numbers) (st Stats, err error) {
	start := c.Txn.Start()
	defer func() {
		c.Txn.End(ctx, trace.Span{Name: trace.Compact, Start: start, Bytes: st.After, Err: err})
	}()
	if err := c.Txn.File().Replaceable(c.Target); err != nil { // Replace looks again
		return st, fail.Wrapf(err, "compact")
	}
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
		// A process that opens another file under the path removes the copy as what a crash has left.
		if replaced := c.Txn.File().Named(); replaced != nil {
			err = replaced
		}
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
		f.File.Samples = c.Txn.File().Samples.Renumbered(f.Moved.numbers())
		replaced, err = c.Txn.Replace(txn.Replacement{
			File: f.File, Name: name, Target: c.Target, NoSync: c.Store.NoSync,
			Renumbered: f.Moved.numbers(), Last: last,
		})
		return err
	})
	return size, err
}

// Space is the length of a file in bytes, and the part of it in free pages.
type Space struct{ File, Free int64 }

// Space measures the file in its latest state.
func (c *Compactor) Space() (s Space, err error) {
	err = c.Txn.View(func(g *state.Generation) (err error) {
		s, err = c.SpaceOf(g)
		return err
	})
	return s, err
}

// SpaceOf measures the file in a state.
func (c *Compactor) SpaceOf(g *state.Generation) (s Space, err error) {
	size, err := g.File.Size()
	if err != nil {
		return s, fmt.Errorf("db: stats: %w", err)
	}
	free, err := g.File.FreePages()
	if err != nil {
		return s, fail.Wrapf(state.Translate(err), "stats: %s", c.Path)
	}
	return Space{File: size, Free: int64(free) * int64(g.File.PageSize())}, nil
}

// Disk returns the number of bytes that are free on the disk.
func (c *Compactor) Disk() int64 { return store.Room(filepath.Dir(c.Target)) }

// Room returns the number of bytes that a file of a size can still take, without its free pages.
func (c *Compactor) Room(s Space) int64 {
	room := c.Disk()
	if limit := c.Store.MaxSize; limit > 0 {
		room = min(room, limit-s.File)
	}
	return max(0, room)
}

// open opens a copy of the file, without fsync until it takes the place of the file.
func (c *Compactor) open(name string) (*state.File, error) {
	o := c.Store
	o.NoSync = true
	return c.Txn.File().OpenCopy(name, o)
}
