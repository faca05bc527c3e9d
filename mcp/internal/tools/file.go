package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/wire"
)

const (
	// idleTime is the time after which a file is closed: other programs wait a second for it by default.
	idleTime = time.Second / 2
	lockTime = 5 * time.Second // how long a call waits for other programs
)

// Database is what the tools read and write: a file, or one of a server.
type Database interface {
	name() string
	// read calls use with the latest state, update calls change in a transaction of a collection.
	read(ctx context.Context, use func(state) error) error
	update(ctx context.Context, collection string, change func(writes) error) error
	Close() error
}

// state is one state of a database.
type state interface {
	Collections(ctx context.Context) ([]db.CollectionInfo, error)
	Collection(name string) reads
}

// reads are the calls that read a collection.
type reads interface {
	Get(ctx context.Context, key []byte) (db.Row, error)
	Rows(ctx context.Context, where *filter.Filter) iter.Seq2[db.Row, error]
	Count(ctx context.Context, where *filter.Filter) (int, error)
	Search(ctx context.Context, q db.Query, o *db.SearchOptions) (db.Result, error)
	Predict(ctx context.Context, q db.Query, o *db.PredictOptions) (db.Predictions, error)
	Indexes(ctx context.Context) ([]index.Info, error)
	Labels(ctx context.Context) (map[string]int, error)
}

// writes are the calls of a transaction.
type writes interface {
	Get(key []byte) (db.Row, error)
	Put(r db.Row) error
	Delete(key []byte) error
}

// snapshot and collection are a state of a file.
type (
	snapshot   struct{ *db.Snapshot }
	collection struct{ db.Collection }
)

func (s snapshot) Collections(context.Context) ([]db.CollectionInfo, error) {
	return s.Snapshot.Collections(), nil
}
func (s snapshot) Collection(name string) reads { return collection{s.Snapshot.Collection(name)} }

func (c collection) Get(_ context.Context, key []byte) (db.Row, error) { return c.Collection.Get(key) }
func (c collection) Indexes(context.Context) ([]index.Info, error)     { return c.Collection.Indexes() }
func (c collection) Labels(context.Context) (map[string]int, error)    { return c.Collection.Labels() }

// file is a database file. It is open for reading while calls read it and for idleTime after the last of
// them, and for writing while one writes it, so that other programs can use it in between.
type file struct {
	path string
	wait time.Duration // for other programs
	// mu is held for reading by reads, and for writing by what closes the file.
	mu      sync.RWMutex
	opening sync.Mutex
	d       *db.DB // guarded by opening; nil while the file is closed
	idle    *time.Timer
}

// Open returns the database in a file. It fails if there is none, but not while another program writes it.
func Open(ctx context.Context, path string) (Database, error) {
	f := &file{path: path, wait: lockTime}
	f.idle = time.AfterFunc(idleTime, f.release)
	err := f.read(ctx, func(state) error { return nil })
	if errors.Is(err, db.ErrLocked) {
		err = nil
	}
	return f, err
}

func (f *file) name() string { return f.path }

func (f *file) open(ctx context.Context, readOnly bool) (*db.DB, error) {
	return db.Open(ctx, f.path, &db.Options{
		ReadOnly: readOnly, MustExist: true, Timeout: f.wait,
		Maintenance: &maintenance.Policy{Manual: true}, // calls are short: it is left to other programs
	})
}

// served returns the server that has the file open, if there is one.
func (f *file) served(ctx context.Context) (Database, bool) {
	socket := wire.Socket(f.path)
	if _, err := os.Stat(socket); err != nil {
		return nil, false
	}
	d, err := Dial(ctx, socket, "", "")
	return d, err == nil
}

func (f *file) read(ctx context.Context, use func(state) error) error {
	if s, ok := f.served(ctx); ok {
		return errors.Join(s.read(ctx, use), s.Close())
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	d, err := f.forReading(ctx)
	if err == nil {
		err = d.View(func(s *db.Snapshot) error { return use(snapshot{s}) })
	}
	return f.explain(err)
}

func (f *file) forReading(ctx context.Context) (_ *db.DB, err error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.idle.Reset(idleTime)
	if f.d == nil {
		f.d, err = f.open(ctx, true)
	}
	return f.d, err
}

func (f *file) update(ctx context.Context, collection string, change func(writes) error) error {
	if s, ok := f.served(ctx); ok {
		return errors.Join(s.update(ctx, collection, change), s.Close())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.close(); err != nil {
		return err
	}
	d, err := f.open(ctx, false)
	if err != nil {
		return f.explain(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error { return change(tx.Collection(collection)) })
	return f.explain(errors.Join(err, d.Close()))
}

// release closes the file unless a call uses it.
func (f *file) release() {
	if !f.mu.TryLock() {
		f.idle.Reset(idleTime)
		return
	}
	defer f.mu.Unlock()
	_ = f.close() // nothing has been written
}

// Close closes the file.
func (f *file) Close() error {
	f.idle.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

// close closes the file. mu is held.
func (f *file) close() (err error) {
	if f.d != nil {
		err, f.d = f.d.Close(), nil
	}
	return err
}

// explain adds to an error of the file what can be done.
func (f *file) explain(err error) error {
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
