package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/semaphore"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
)

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	path string // as given to Open
	file string // path with symbolic links resolved
	opts Options
	log  *slog.Logger

	write   chan struct{} // held by the one writer
	queueMu sync.Mutex
	queue   []*request // transactions waiting for a writer to commit them
	backlog backlog
	watches apply.Watches

	maintaining chan struct{} // held by the running maintenance
	steps       atomic.Uint64 // number of maintenance steps done by this handle
	background  *maintainer   // nil if maintenance is manual
	// unmaintained has the reason why an index is not maintained, by its object.
	unmaintained sync.Map

	// numbering is held while row numbers must not change, see hold.
	numbering *semaphore.Weighted

	closing atomic.Bool
	life    context.Context // ends when Close begins
	end     context.CancelFunc
	poison  atomic.Pointer[error] // set by the commit that failed
	// renumbered maps the old number of a collection to its new one, for the life of this
	// handle.
	renumbered sync.Map
	commits    atomic.Uint64 // number of transactions committed by this handle
	snapMu     sync.Mutex
	store      *state.File       // current file; guarded by snapMu, replaced by Compact
	cur        *state.Generation // latest generation handed out; guarded by snapMu
	finished   bool              // Close has unmapped everything; guarded by snapMu
}

// Open opens the database in the file at path, and creates it if it does not exist (unless
// Options prevent that). nil options mean the defaults.
//
// Both meta pages and the file's length are checked before anything is mapped. Open removes
// leftovers of interrupted builds and compactions, and makes the file's name durable.
//
// Errors: fs.ErrNotExist, ErrLocked, ErrNotDatabase, ErrInvalid.
func Open(path string, o *Options) (*DB, error) {
	return OpenContext(context.Background(), path, o)
}

// OpenContext is Open with a context, which can end it while it waits for the file's lock,
// walks the pages of a large file, or removes leftovers of an interrupted build. The next Open
// removes the remaining ones.
//
// Errors: those of Open.
func OpenContext(ctx context.Context, path string, o *Options) (*DB, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !opts.ReadOnly && !opts.MustExist:
		if err := createFile(path, opts); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("db: open: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is no regular file", ErrNotDatabase, path)
	}
	f, err := store.Open(ctx, path, opts.storeOptions())
	if err != nil {
		return nil, state.FileError(asSystem(err))
	}
	d := newDB(path, opts, state.NewFile(f, state.VerifyMode(opts.Verify), kindOf))
	d.file, err = filepath.EvalSymlinks(path)
	if err == nil {
		err = d.settleName()
	}
	if err == nil {
		err = d.recoverState(ctx)
	}
	if err != nil {
		_ = f.Close() // the first error matters more
		return nil, err
	}
	if !opts.ReadOnly {
		store.RemoveLeftovers(d.file, d.log)
		if !opts.Maintenance.Manual {
			d.startMaintenance(*opts.Maintenance)
		}
	}
	return d, nil
}

// newDB returns a handle of an open file.
func newDB(path string, o Options, f *state.File) *DB {
	d := &DB{
		path: path, file: path, opts: o, log: o.Logger,
		write: make(chan struct{}, 1), maintaining: make(chan struct{}, 1), store: f,
	}
	d.backlog.limit = o.BacklogBytes
	d.numbering = semaphore.NewWeighted(allShares)
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// createFile makes a new, complete database at path. A crash leaves either no file or a valid one.
func createFile(path string, o Options) error {
	err := store.Create(path, o.storeOptions(), func(tx *bbolt.Tx) error {
		for _, name := range layout.RootBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		padding := make([]byte, layout.PageSize/4)
		ballast := codec.Encode(layout.BallastKey[:], codec.Header{Kind: codec.KindGeneric}, padding)
		for _, name := range [][]byte{layout.BucketBlocks, layout.BucketTail, layout.BucketSets} {
			if err := tx.Bucket(name).Put(layout.BallastKey[:], ballast); err != nil {
				return err
			}
		}
		return layout.WriteCatalog(tx, &layout.Catalog{})
	})
	if err != nil {
		return fail.Wrapf(asSystem(err), "create %s", path)
	}
	return nil
}

// settleName makes the name of the file durable. It may not be if the process that created or
// compacted the file ended before it synced the directory. A power failure would then restore
// an older file under the name, and the transactions committed to this one would be lost.
func (d *DB) settleName() error {
	if d.opts.ReadOnly || d.opts.Sync == Off {
		return nil
	}
	err := store.SyncDir(filepath.Dir(d.file))
	if errors.Is(err, fs.ErrPermission) {
		d.log.Warn("db: the directory cannot be synced", "path", d.path, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("db: open %s: sync directory: %w", d.path, err)
	}
	return nil
}

// recoverState checks that the file is a database of this package, reads its catalog, and
// removes leftovers of interrupted builds.
func (d *DB) recoverState(ctx context.Context) (err error) {
	if err := d.store.VerifyPagesOf(ctx, layout.PartMeta); err != nil {
		return err
	}
	var orphans []uint64
	err = d.viewTx(func(tx *bbolt.Tx) error {
		for _, name := range layout.RootBuckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: %s has no bucket %q", ErrNotDatabase, d.path, name)
			}
		}
		if _, err := layout.ReadCatalog(tx); err != nil {
			return err
		}
		orphans = layout.OrphanMarks(tx)
		return nil
	})
	if err != nil || len(orphans) == 0 || d.opts.ReadOnly {
		return err
	}
	d.log.Info("db: removing what an interrupted build left", "path", d.path, "objects", len(orphans))
	for _, id := range orphans {
		for done := false; !done; {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("db: open: %w", err)
			}
			if done, err = d.removeMarked(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// viewTx runs f in a short read transaction and converts faults to errors.
func (d *DB) viewTx(f func(tx *bbolt.Tx) error) (err error) {
	defer state.Guard(d.store, state.CatchFaults(), &err)
	tx, err := d.store.Begin(false)
	if err != nil {
		return err
	}
	defer d.store.End(tx)
	return f(tx)
}

// Path returns the path that the database was opened with.
func (d *DB) Path() string { return d.path }

// Close waits for the writer and for open snapshots, at most Options.CloseTimeout, and closes
// the file. From its start on, new calls fail with ErrClosed. If snapshots are still open at
// the deadline, it returns ErrBusy and unmaps nothing; call it again after they are released.
func (d *DB) Close() error {
	d.closing.Store(true)
	d.end()
	deadline := time.NewTimer(d.opts.CloseTimeout)
	defer deadline.Stop()
	if err := d.stopMaintenance(deadline.C); err != nil {
		return err
	}
	select {
	case d.write <- struct{}{}:
		defer func() { <-d.write }()
	case <-deadline.C:
		return fmt.Errorf("%w: a writer", ErrBusy)
	}
	d.snapMu.Lock()
	if d.finished {
		d.snapMu.Unlock()
		return nil
	}
	if d.cur != nil {
		old := d.cur
		d.cur = nil
		d.snapMu.Unlock()
		old.Release()
		d.snapMu.Lock()
	}
	s := d.store
	d.snapMu.Unlock()
	for {
		if n, age := s.Readers(nil); n == 0 {
			break
		} else if !tick(deadline.C) {
			return fmt.Errorf("%w: %d held, the oldest for %v", fail.Held, n, age.Round(time.Millisecond))
		}
	}
	d.snapMu.Lock()
	defer d.snapMu.Unlock()
	d.finished = true
	if err := s.Close(); err != nil {
		return fmt.Errorf("db: close: %w", err)
	}
	return nil
}

// makeRoom releases the idle generation before a very large transaction, and lets none be kept
// until done is called.
func (d *DB) makeRoom(bytes int) (done func()) {
	if bytes < store.LargeBytes {
		return func() {}
	}
	d.snapMu.Lock()
	f := d.store
	d.snapMu.Unlock()
	f.SetTight(true)
	d.publish()
	return func() { f.SetTight(false) }
}

// tick waits a millisecond and reports whether the deadline has not passed.
func tick(deadline <-chan time.Time) bool {
	select {
	case <-deadline:
		return false
	case <-time.After(time.Millisecond):
		return true
	}
}

// storeOptions returns the options of a database for its file.
func (o *Options) storeOptions() store.Options {
	return store.Options{
		ReadOnly: o.ReadOnly, NoSync: o.Sync == Off, AcceptOlder: o.AcceptOlder, Trust: o.Verify == VerifyNever,
		Timeout: o.Timeout, Reserve: o.MapReserve, MaxSize: o.MaxSize, Logger: o.Logger, Layout: &layout.OfFile,
	}
}

// openValid opens a file that is known to be complete.
func openValid(path string, o Options) (*state.File, error) {
	f, err := store.OpenValid(path, o.storeOptions())
	if err != nil {
		return nil, state.FileError(err)
	}
	return state.NewFile(f, state.VerifyMode(o.Verify), kindOf), nil
}
