package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/db/internal/background"
	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
)

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	path string // as given to Open
	opts Options
	log  *slog.Logger

	txn        *txn.Manager
	indexes    *segment.Indexer
	compactor  *compact.Compactor
	background *background.Maintainer // nil if maintenance is manual
}

// Open opens the database in the file at path, and creates it if it does not exist or is empty, unless
// Options prevent that; nil options are the defaults. The context has no effect on the open database.
// Errors: fs.ErrNotExist, ErrLocked, ErrNotDatabase.
func Open(ctx context.Context, path string, o *Options) (*DB, error) {
	if err := fail.Context(ctx); err != nil {
		return nil, err
	}
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("%w: the path of a database is empty", fail.Option)
	}
	info, err := os.Stat(path)
	create := !opts.ReadOnly && !opts.MustExist
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		err = createFile(path, opts)
	case err != nil:
		err = fmt.Errorf("db: open: %w", err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: %s is no regular file", ErrNotDatabase, path)
	case info.Size() == 0 && create:
		err = state.FileError(fail.System(store.Fill(path, opts.storeOptions(), layout.Init)))
	}
	if err != nil {
		return nil, err
	}
	f, err := store.Open(ctx, path, opts.storeOptions())
	if err != nil {
		return nil, state.FileError(fail.System(err))
	}
	d := newDB(path, opts, state.NewFile(f, kindOf))
	d.compactor.Target, err = targetOf(path)
	if err == nil {
		err = d.settleName()
	}
	if err == nil {
		err = d.txn.Recover(ctx, d.log)
	}
	if err != nil {
		_ = f.Close() // the first error matters more
		return nil, err
	}
	if !opts.ReadOnly {
		store.RemoveLeftovers(d.compactor.Target, d.log)
		if !opts.Maintenance.Manual {
			d.background = d.newMaintainer()
			d.background.Start()
		}
	}
	return d, nil
}

// targetOf returns the absolute path of the file that path leads to.
func targetOf(path string) (string, error) {
	full, err := filepath.Abs(path) // the process may change its working directory
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return "", fmt.Errorf("db: open %s: %w", path, err)
	}
	return full, nil
}

// newDB returns a handle of an open file.
func newDB(path string, o Options, f *state.File) *DB {
	f.Samples = sample.New(max(0, o.SampleQueries))
	m := txn.New(path, f, txn.Options{
		ReadOnly: o.ReadOnly, MaxSize: o.MaxSize, Backlog: backlog, Trace: o.Trace,
	})
	return &DB{
		path: path, opts: o, log: o.Logger, txn: m, indexes: segment.New(m),
		compactor: &compact.Compactor{Txn: m, Path: path, Target: path, Store: o.storeOptions(), Log: o.Logger},
	}
}

// createFile makes a new, complete database at path. A crash leaves either no file or a valid one.
func createFile(path string, o Options) error {
	err := store.Create(path, o.storeOptions(), layout.Init)
	if err != nil {
		return fail.Wrapf(fail.System(err), "create %s", path)
	}
	return nil
}

// settleName makes the name of the file durable. It may not be if the process that created or
// compacted the file ended before it synced the directory. A power failure would then restore
// an older file under the name, and the transactions committed to this one would be lost.
func (d *DB) settleName() error {
	if d.opts.ReadOnly || d.opts.NoSync {
		return nil
	}
	err := store.SyncDir(filepath.Dir(d.compactor.Target))
	if errors.Is(err, fs.ErrPermission) {
		d.log.Warn("db: the directory cannot be synced", "path", d.path, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("db: open %s: sync directory: %w", d.path, err)
	}
	return nil
}

// manager returns the manager of the transactions; nil, which is a closed one, of a zero DB.
func (d *DB) manager() *txn.Manager {
	if d == nil {
		return nil
	}
	return d.txn
}

// Path returns the path that the database was opened with.
func (d *DB) Path() string {
	if d == nil {
		return ""
	}
	return d.path
}

// Close waits for the writer and for open snapshots, also those of loops over Rows, at most
// Options.CloseTimeout, and closes the file. If snapshots are still open, it returns ErrLocked and unmaps
// nothing: call it again.
func (d *DB) Close() error {
	if d.manager() == nil {
		return fmt.Errorf("%w: the database was never opened", ErrClosed)
	}
	d.txn.BeginClose()
	deadline := time.NewTimer(d.opts.CloseTimeout)
	defer deadline.Stop()
	if err := d.background.Stop(deadline.C); err != nil {
		return err
	}
	return d.txn.Close(deadline.C, d.indexes.UnstoredQueries(1))
}

// storeOptions returns the options of a database for its file.
func (o *Options) storeOptions() store.Options {
	return store.Options{
		ReadOnly: o.ReadOnly, NoSync: o.NoSync, AcceptOlder: o.AcceptOlder,
		Timeout: o.Timeout, Reserve: o.MapReserve, MaxSize: o.MaxSize, Logger: o.Logger, Layout: &layout.OfFile,
	}
}
