// Package store opens the bbolt file of a database: it validates the file before bbolt maps it,
// reserves address space, takes the lock, verifies pages before bbolt reads them, turns faults
// in the map and panics of bbolt into errors, and replaces the file by another one.
//
// It knows neither rows nor kinds of index nor the catalog. A Layout tells it which buckets
// there are.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/db/internal/page"
)

// ErrLocked is the reason of a *page.Error if another process, or another handle of this process,
// has the file open.
var ErrLocked = errors.New("file is locked")

// Options selects how a file is opened.
type Options struct {
	ReadOnly bool
	// NoSync commits without fsync.
	NoSync bool
	// AcceptOlder opens a file of which one meta page is damaged. Its state may be one
	// transaction older than the latest one.
	AcceptOlder bool
	// Timeout is the time to wait for the file's lock.
	Timeout time.Duration
	// Reserve is the number of bytes of address space to reserve.
	Reserve int64
	// Memory is the number of bytes of memory that the process may use; zero means what the system says.
	Memory int64
	// MaxSize is the largest size of the file; zero means no limit.
	MaxSize int64
	Logger  *slog.Logger
	Layout  *Layout
}

// File is an open bbolt file. Its methods are safe for concurrent use.
type File struct {
	bolt    *bbolt.DB
	file    *os.File    // bbolt's own handle, for bounds-checked reads
	path    string      // absolute, as the file was opened
	info    os.FileInfo // which file it is
	opts    Options
	reserve int64       // bytes of address space reserved
	tight   atomic.Bool // see SetTight

	beginMu sync.Mutex
	broken  atomic.Pointer[error] // set if bbolt's locks are lost, see Begin

	verifyMu sync.Mutex
	verified atomic.Uint32 // Parts found valid
	invalid  [32]error     // the errors found in the other parts; guarded by verifyMu

	mu     sync.Mutex
	states map[*State]struct{}
	retire bool // closed with its last state
	closed bool
	base   uintptr // address at which the map was last advised
	length int64   // the largest that mapped has seen
	large  bool    // the file was larger than the memory then
}

// reserves returns the map reservations to try, largest first.
func reserves(want, size int64) []int64 {
	out := []int64{want}
	for _, r := range []int64{64 << 30, 4*size + 1<<30, 0} {
		if r < out[len(out)-1] {
			out = append(out, r)
		}
	}
	return out
}

// OpenValid opens a file that is known to be complete, such as one that this process has
// written. It takes the lock, or fails after Options.Timeout.
//
// Errors: *page.Error, those of the operating system.
func OpenValid(path string, o Options) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	var last error
	for _, r := range reserves(o.Reserve, info.Size()) {
		if int64(int(r)) != r {
			continue
		}
		f, err := tryOpen(path, o, int(r))
		if err == nil {
			f.Advise()
			return f, nil
		}
		if last = err; !mapFailed(err) {
			break
		}
		o.Logger.Warn("db: reserving address space failed, trying less", "path", path, "bytes", r, "err", err)
	}
	return nil, last
}

// mapFailed reports whether bbolt could not map the file with the requested size.
func mapFailed(err error) bool {
	return errors.Is(err, berrors.ErrInvalidMapping) || errors.Is(err, syscall.ENOMEM) ||
		strings.Contains(err.Error(), "mmap")
}

// tryOpen opens path with one reservation. On a damaged freelist page bbolt panics or faults:
// tryOpen converts that to an error, and closes the file handle that bbolt has left open, so
// that its lock does not outlive the attempt.
func tryOpen(path string, o Options, reserve int) (f *File, err error) {
	// The process may change its working directory.
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	var file *os.File
	defer func(old bool) {
		r := recover()
		debug.SetPanicOnFault(old)
		if r != nil {
			f, err = nil, refuse(page.ErrDamaged, "open %s: %v", path, r)
		}
		if err != nil && file != nil {
			// If bbolt returned an error, the file is closed already. If it panicked, its map
			// remains, and would keep the lock as well.
			unlock(file)
			_ = file.Close()
		}
	}(debug.SetPanicOnFault(true))
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         o.Timeout,
		ReadOnly:        o.ReadOnly,
		NoSync:          o.NoSync,
		NoGrowSync:      o.NoSync,
		FreelistType:    bbolt.FreelistMapType,
		PageSize:        page.Size,
		InitialMmapSize: reserve,
		MaxSize:         int(o.MaxSize),
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			file = f
			return f, err
		},
	})
	if err != nil {
		return nil, openError(path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, b.Close()))
	}
	return &File{
		bolt: b, file: file, path: full, info: info, opts: o, reserve: int64(reserve),
		states: map[*State]struct{}{},
	}, nil
}

// openError returns the error for one of bbolt.Open.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return refuse(ErrLocked, "%s", path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return refuse(page.ErrForeign, "%s: %w", path, err)
	case errors.Is(err, berrors.ErrChecksum):
		return refuse(page.ErrDamaged, "%s: %w", path, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// refuse returns a *page.Error without an offset.
func refuse(reason error, format string, a ...any) error {
	return &page.Error{Reason: reason, Offset: -1, Err: fmt.Errorf(format, a...)}
}

// ReadAt reads from the file, without the map.
func (f *File) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// Size returns the length of the file.
func (f *File) Size() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Reserved returns the number of bytes of address space that are reserved for the map.
func (f *File) Reserved() int64 { return f.reserve }

// PageSize returns the page size.
func (f *File) PageSize() int { return f.bolt.Info().PageSize }

// Stats returns bbolt's statistics.
func (f *File) Stats() bbolt.Stats { return f.bolt.Stats() }

// Advise reverts bbolt's MADV_RANDOM, which makes cold scans ten times slower, if the map is
// new. It is called after each commit. A file that does not fit into memory keeps it: readahead of pages
// that a search reads here and there takes the memory of those that all searches read.
func (f *File) Advise() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	length := f.mapped()
	if base := f.bolt.Info().Data; base != f.base {
		f.base = base
		limit := cmp.Or(f.opts.Memory, memory())
		if size, err := f.Size(); err == nil && float64(size) > fits*float64(limit) {
			f.large = true
			return
		}
		adviseNormal(f.bolt.Info(), length)
	}
}

// fits is the share of the memory that a file may take to be kept in memory.
const fits = 0.75

// Requests returns a function that asks the system to read a part of the map, at least some hundred KiB that
// are about to be used, or nil if the file fits into memory, where the system reads ahead.
func (f *File) Requests() func([]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.large {
		return nil
	}
	return willNeed
}

// mapped returns a length that is certainly mapped, also after the file has been truncated. The
// caller holds mu.
func (f *File) mapped() int64 {
	if n, err := f.Size(); err == nil {
		f.length = max(f.length, n)
	}
	return max(f.length, f.reserve)
}

// roomBytes is the least space that must be left in the map for an idle state to be kept: four
// times the size of a large transaction.
const roomBytes = 4 * LargeBytes

// LargeBytes is the size of a transaction from which on SetTight should be called before it.
const LargeBytes = 128 << 20

// Roomy reports whether the file can at least double, and also take a large transaction, before
// bbolt must remap. A remap waits for every reader, and no reader would release an idle state;
// so one may be kept only if the file is roomy.
func (f *File) Roomy() bool {
	size, err := f.Size()
	return err == nil && !f.tight.Load() && f.reserve-size >= max(size, roomBytes)
}

// SetTight makes Roomy return false until it is called with false. It precedes a transaction
// that may outgrow the map.
func (f *File) SetTight(tight bool) { f.tight.Store(tight) }

// Offset returns the file offset of an address in the map, or -1.
func (f *File) Offset(addr uintptr) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || addr < f.base || int64(addr-f.base) >= f.mapped() {
		return -1
	}
	return int64(addr - f.base)
}

// Begin begins a transaction. If the file no longer has its meta pages, bbolt faults in Begin
// and keeps its locks forever. The file is then marked as broken, so that no call waits for
// those locks again.
//
// Errors: *page.Error, those of bbolt.
func (f *File) Begin(write bool) (tx *bbolt.Tx, err error) {
	f.beginMu.Lock()
	defer f.beginMu.Unlock()
	if p := f.broken.Load(); p != nil {
		return nil, *p
	}
	returned := false
	defer func() {
		if !returned {
			f.broken.Store(&err)
		}
	}()
	defer f.guard(CatchFaults(), &err)
	tx, err = f.bolt.Begin(write)
	returned = true
	if err != nil {
		err = fmt.Errorf("begin: %w", err)
	}
	return tx, err
}

// End ends a read transaction.
func (f *File) End(tx *bbolt.Tx) {
	if f.broken.Load() == nil {
		_ = tx.Rollback() // a read transaction has no changes to lose
	}
}

// The file grows by an eighth of its length, within these bounds: each growth costs an fsync, and what
// is beyond the last page is no use to a small file.
const (
	leastGrowth = 1 << 20
	mostGrowth  = 16 << 20
)

// Commit commits a transaction and returns panics of bbolt as errors. A transaction that
// panicked must release bbolt's writer lock, or Close would wait for ever.
//
// Errors: *page.Error, those of bbolt and the operating system.
func (f *File) Commit(tx *bbolt.Tx) (err error) {
	defer func() {
		if err != nil {
			_ = tx.Rollback() // fails if Commit has already rolled back
		}
	}()
	defer f.guard(CatchFaults(), &err)
	f.bolt.AllocSize = leastGrowth
	if f.opts.MaxSize == 0 { // which refuses a step as a whole
		f.bolt.AllocSize = int(min(max(tx.Size()/8, leastGrowth), mostGrowth))
	}
	return tx.Commit()
}

// Sync makes a file durable that was written with Options.NoSync.
func (f *File) Sync() error { return f.bolt.Sync() }

// Close closes the file. No state may be in use. A second call has no effect.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return f.close()
}

// close closes the file. The map of a broken file remains.
func (f *File) close() error {
	if f.broken.Load() == nil {
		return f.bolt.Close()
	}
	unlock(f.file)
	return f.file.Close()
}

// Retire closes the file as soon as no state of it is in use.
func (f *File) Retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retire = true
	f.closeIdle()
}

func (f *File) closeIdle() {
	if f.retire && len(f.states) == 0 && !f.closed {
		f.closed = true
		_ = f.close() // there is nothing left to write; another file is in its place
	}
}
