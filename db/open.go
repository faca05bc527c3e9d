package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/semaphore"

	"github.com/anndb/anndb/codec"
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

	maintaining chan struct{} // held by the running maintenance
	steps       atomic.Uint64 // number of maintenance steps done by this handle
	background  *maintainer   // nil without Options.Maintenance
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
	store      *store      // current file; guarded by snapMu, replaced by Compact
	cur        *generation // latest generation handed out; guarded by snapMu
	finished   bool        // Close has unmapped everything; guarded by snapMu
}

// Open opens the database in the file at path, and creates it if it does not exist (unless
// Options prevent that). nil options mean the defaults.
//
// Both meta pages and the file's length are checked before anything is mapped. Open removes
// leftovers of interrupted builds and compactions, and makes the file's name durable.
//
// Errors: fs.ErrNotExist, ErrLocked, ErrNotDatabase, ErrNewerFormat,
// ErrTruncated, ErrCorrupt, ErrNoSpace, ErrOption.
func Open(path string, o *Options) (*DB, error) {
	return OpenContext(context.Background(), path, o)
}

// OpenContext is Open with a context, which can end it while it waits for the file's lock,
// walks the pages of a large file, or removes leftovers of an interrupted build. The next Open
// removes the remaining ones.
//
// Errors: those of Open, and the context's.
func OpenContext(ctx context.Context, path string, o *Options) (*DB, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !opts.ReadOnly && !opts.MustExist:
		if err := create(path, opts); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("db: open: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is no regular file", ErrNotDatabase, path)
	}
	s, err := openCurrent(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	d := newDB(path, opts, s)
	d.file, err = filepath.EvalSymlinks(path)
	if err == nil {
		err = d.settleName()
	}
	if err == nil {
		err = d.recoverState(ctx)
	}
	if err != nil {
		_ = s.close() // the first error matters more
		return nil, err
	}
	if !opts.ReadOnly {
		d.removeLeftovers()
		if opts.Maintenance != nil {
			d.startMaintenance(*opts.Maintenance)
		}
	}
	return d, nil
}

// newDB returns a handle of an open file.
func newDB(path string, o Options, s *store) *DB {
	d := &DB{
		path: path, file: path, opts: o, log: o.Logger,
		write: make(chan struct{}, 1), maintaining: make(chan struct{}, 1), store: s,
	}
	d.backlog.limit = o.BacklogBytes
	d.numbering = semaphore.NewWeighted(allShares)
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// openCurrent validates and opens the file that path names. While it waits for the lock, the
// process that holds the lock may replace the file by a compacted one, and anything written to
// the old file would be lost. Therefore path must still name the opened file once the lock is
// held.
func openCurrent(ctx context.Context, path string, o Options) (*store, error) {
	deadline := time.Now().Add(o.Timeout)
	o.Timeout = 1 // of each attempt
	for range 10 {
		s, err := openUnlocked(ctx, path, o, deadline)
		if err != nil {
			return nil, err
		}
		have, err1 := s.file.Stat()
		want, err2 := os.Stat(path)
		err = errors.Join(err1, err2)
		if err == nil && os.SameFile(have, want) {
			return s, nil
		}
		if err = errors.Join(err, s.close()); err != nil {
			return nil, fmt.Errorf("db: open: %w", err)
		}
	}
	return nil, fmt.Errorf("%w: %s is being replaced", ErrLocked, path)
}

// lockWait is the pause between attempts of Open to take the file's lock.
const lockWait = 10 * time.Millisecond

// openUnlocked validates and opens the file once no other process holds its lock.
func openUnlocked(ctx context.Context, path string, o Options, deadline time.Time) (*store, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("db: open: %w", err)
		}
		if err := validate(path, o); err != nil {
			return nil, err
		}
		s, err := openStore(path, o)
		if !errors.Is(err, ErrLocked) || !time.Now().Before(deadline) {
			return s, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(lockWait, time.Until(deadline))):
		}
	}
}

// removeLeftovers removes the files of compactions that a crash interrupted. Only the process
// that holds the database's lock compacts, so none of them is in use.
func (d *DB) removeLeftovers() {
	dir := filepath.Dir(d.file)
	entries, err := os.ReadDir(dir)
	if err != nil {
		d.log.Warn("db: look for interrupted compactions", "path", d.path, "err", err)
		return
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), compactPrefix(d.file))
		if !ok || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		d.log.Info("db: removing what an interrupted compaction left", "path", d.path, "file", e.Name())
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			d.log.Warn("db: remove an interrupted compaction", "path", d.path, "err", err)
		}
	}
}

// create makes a new, complete database under a temporary name and links it
// to path, so that a crash leaves either no file or a valid one.
func create(path string, o Options) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return wrapf(asSystem(err), "create")
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("db: create: %w", err)
	}
	b, err := newBolt(tmp.Name(), o)
	if err == nil {
		err = b.Update(func(tx *bbolt.Tx) error {
			for _, name := range rootBuckets {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			ballast := codec.Encode(ballastKey[:], codec.Header{Kind: codec.KindGeneric}, make([]byte, pageSize/4))
			for _, name := range [][]byte{bucketBlocks, bucketTail, bucketSets} {
				if err := tx.Bucket(name).Put(ballastKey[:], ballast); err != nil {
					return err
				}
			}
			return putCatalog(tx, &catalog{})
		})
		err = errors.Join(err, b.Close())
	}
	if err == nil {
		// Unlike a rename, a link never replaces a file that another process has created in the
		// meantime.
		if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
			return nil
		} else if err != nil {
			err = os.Rename(tmp.Name(), path)
		}
	}
	if err == nil && !o.NoSync {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return wrapf(asSystem(err), "create %s", path)
	}
	return nil
}

// newBolt opens path as an empty bbolt file with our page size.
func newBolt(path string, o Options) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: o.Timeout, NoSync: o.NoSync, NoGrowSync: o.NoSync,
		FreelistType: bbolt.FreelistMapType, PageSize: pageSize,
	})
}

// settleName makes the name of the file durable. It may not be if the process that created or
// compacted the file ended before it synced the directory. A power failure would then restore
// an older file under the name, and the transactions committed to this one would be lost.
func (d *DB) settleName() error {
	if d.opts.ReadOnly || d.opts.NoSync {
		return nil
	}
	err := syncDir(filepath.Dir(d.file))
	if errors.Is(err, fs.ErrPermission) {
		d.log.Warn("db: the directory cannot be synced", "path", d.path, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("db: open %s: sync directory: %w", d.path, err)
	}
	return nil
}

// syncDir makes a directory's entries durable. Windows has no such call, and needs none. It is
// a variable so that tests can make it fail.
var syncDir = func(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// validate checks both meta pages and the length of the file. Another process may be writing a
// meta page at this moment, so a page that looks damaged is read again; if there is such a
// writer, taking the lock fails next anyway.
func validate(path string, o Options) (err error) {
	for range 3 {
		if err = validateOnce(path, o); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

func validateOnce(path string, o Options) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("db: open: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("db: open: %w", err)
	}
	metas := readMetas(f)
	valid := metas.Valid()
	switch len(valid) {
	case 0:
		err := metas.Err[0]
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %s: %w", ErrNotDatabase, path, err)
		}
		return wrapf(err, "open %s", path)
	case 1:
		err := cmp.Or(metas.Err[0], metas.Err[1])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %s: %w", ErrTruncated, path, err)
		}
		if !o.AcceptOlder {
			return corruptf("", "%s: one of two meta pages is damaged (%v); "+
				"the other may be one transaction older, AcceptOlder opens it", path, err)
		}
		o.Logger.Warn("db: a meta page is damaged, opened from the other, which may be one transaction older",
			"path", path, "err", err)
	}
	if want := valid[0].Bytes(); info.Size() < want {
		return fmt.Errorf("%w: %s has %d bytes, its pages need %d", ErrTruncated, path, info.Size(), want)
	}
	return nil
}

// recoverState checks that the file is a database of this package, reads its catalog, and
// removes leftovers of interrupted builds.
func (d *DB) recoverState(ctx context.Context) (err error) {
	if err := d.store.soundIn(ctx, soundMeta); err != nil {
		return err
	}
	var orphans []uint64
	err = d.viewTx(func(tx *bbolt.Tx) error {
		for _, name := range rootBuckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: %s has no bucket %q", ErrNotDatabase, d.path, name)
			}
		}
		if _, err := getCatalog(tx); err != nil {
			return err
		}
		orphans = orphanMarks(tx)
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
	defer guard(d.store, setFaults(), &err)
	tx, err := d.store.begin(false)
	if err != nil {
		return err
	}
	defer d.store.end(tx)
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
		old.release()
		d.snapMu.Lock()
	}
	s := d.store
	d.snapMu.Unlock()
	for {
		if n, age := s.readers(nil); n == 0 {
			break
		} else if !tick(deadline.C) {
			return fmt.Errorf("%w: %d held, the oldest for %v", ErrBusy, n, age.Round(time.Millisecond))
		}
	}
	d.snapMu.Lock()
	defer d.snapMu.Unlock()
	d.finished = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.close(); err != nil {
		return fmt.Errorf("db: close: %w", err)
	}
	return nil
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
