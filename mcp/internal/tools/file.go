package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

const (
	// idleTime is the time after which a file is closed: other programs wait a second for it by default.
	idleTime = time.Second / 2
	lockTime = 5 * time.Second // how long a call waits for other programs
)

// File is a database file. It is open for reading while calls read it and for idleTime after the last of
// them, and for writing while one writes it, so that other programs can use it in between.
type File struct {
	path string
	wait time.Duration // for other programs
	// mu is held for reading by reads, and for writing by what closes the file.
	mu      sync.RWMutex
	opening sync.Mutex
	d       *db.DB // guarded by opening; nil while the file is closed
	idle    *time.Timer
}

// Open returns the database in a file. It fails if there is none, but not while another program writes it.
func Open(ctx context.Context, path string) (*File, error) {
	if strings.Contains(path, "://") {
		return nil, fmt.Errorf("%s is an address: anndb-mcp opens files only", path)
	}
	f := &File{path: path, wait: lockTime}
	f.idle = time.AfterFunc(idleTime, f.release)
	err := f.read(ctx, func(*db.Snapshot) error { return nil })
	if errors.Is(err, db.ErrLocked) {
		err = nil
	}
	return f, err
}

func (f *File) open(ctx context.Context, readOnly bool) (*db.DB, error) {
	return db.Open(ctx, f.path, &db.Options{
		ReadOnly: readOnly, MustExist: true, Timeout: f.wait,
		Maintenance: &maintenance.Policy{Manual: true}, // calls are short: it is left to other programs
	})
}

// read calls use with the latest state.
func (f *File) read(ctx context.Context, use func(*db.Snapshot) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	d, err := f.forReading(ctx)
	if err == nil {
		err = d.View(use)
	}
	return f.explain(err)
}

func (f *File) forReading(ctx context.Context) (_ *db.DB, err error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.idle.Reset(idleTime)
	if f.d == nil {
		f.d, err = f.open(ctx, true)
	}
	return f.d, err
}

// update runs a transaction.
func (f *File) update(ctx context.Context, change func(*db.Tx) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.close(); err != nil {
		return err
	}
	d, err := f.open(ctx, false)
	if err != nil {
		return f.explain(err)
	}
	return f.explain(errors.Join(d.Update(ctx, change), d.Close()))
}

// release closes the file unless a call uses it.
func (f *File) release() {
	if !f.mu.TryLock() {
		f.idle.Reset(idleTime)
		return
	}
	defer f.mu.Unlock()
	_ = f.close() // nothing has been written
}

// Close closes the file.
func (f *File) Close() error {
	f.idle.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

// close closes the file. mu is held.
func (f *File) close() (err error) {
	if f.d != nil {
		err, f.d = f.d.Close(), nil
	}
	return err
}

// explain adds to an error of the file what can be done.
func (f *File) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: anndb import and anndb create make a database", f.path, fs.ErrNotExist)
	case errors.Is(err, db.ErrLocked):
		return fmt.Errorf("%w: another program has %s open; try again when it has ended", err, f.path)
	case errors.Is(err, db.ErrCorrupt):
		return fmt.Errorf("%w: the file is damaged; tell the user to run: anndb check %s", err, f.path)
	}
	return err
}
