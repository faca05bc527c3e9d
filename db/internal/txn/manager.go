// Package txn has the transactions of an open file: the latest committed state for readers, one
// writer at a time, the queue from which concurrent transactions are committed together, and the
// replacement of the file by a compacted one.
package txn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/semaphore"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/trace"
)

// Options selects how a Manager works: fields of db.Options.
type Options struct {
	ReadOnly bool
	MaxSize  int64
	// Backlog is the number of bytes of transactions that may wait for the disk.
	Backlog int64
	Trace   trace.Func
}

// Manager runs the transactions of one file. Its methods are safe for concurrent use. A nil one is
// closed.
type Manager struct {
	path string // as the program has given it, for messages
	opts Options
	// OnWait, if not nil, is called before Hold waits for shares that others hold. It is set
	// before the first call.
	OnWait func()

	write   chan struct{} // held by the one writer
	queueMu sync.Mutex
	queue   []*request // transactions waiting for a writer to commit them
	backlog backlog
	watches apply.Watches

	// numbering is held while row numbers must not change, see Hold.
	numbering *semaphore.Weighted

	closing atomic.Bool
	life    context.Context // ends when closing begins
	end     context.CancelFunc
	poison  atomic.Pointer[error] // set by the commit that failed
	// renumbered maps the old number of a collection to its new one, for the life of this
	// manager.
	renumbered sync.Map
	commits    atomic.Uint64 // number of transactions committed
	totals     totals

	mu     sync.Mutex
	file   *state.File       // current file; guarded by mu, replaced by Replace
	latest *state.Generation // latest generation handed out; guarded by mu
	closed bool              // Close has unmapped everything; guarded by mu
}

// New returns a manager of an open file, which Close closes. The path is for messages.
func New(path string, f *state.File, o Options) *Manager {
	m := &Manager{
		path: path, opts: o, file: f, write: make(chan struct{}, 1),
		numbering: semaphore.NewWeighted(AllShares), backlog: backlog{limit: o.Backlog},
	}
	m.life, m.end = context.WithCancel(context.Background())
	return m
}

// File returns the current file.
func (m *Manager) File() *state.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file
}

// Commits returns the number of transactions that this manager has committed.
func (m *Manager) Commits() uint64 { return m.commits.Load() }

// Watch begins to collect the rows that committed transactions change, until end is called. It is
// called before the state is read that the changes refer to.
func (m *Manager) Watch() (_ *apply.Watch, end func()) { return m.watches.Begin() }

// Latest returns the latest committed state. The caller releases it. Readers of one state share one
// read transaction and its tables.
func (m *Manager) Latest() (*state.Generation, error) {
	if m == nil || m.closing.Load() {
		return nil, m.errClosed()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.closing.Load() {
		return nil, m.errClosed()
	}
	commit := m.commits.Load()
	if g := m.latest; g != nil && g.Commit == commit && g.File == m.file {
		g.Acquire()
		return g, nil
	}
	g, err := state.OpenGeneration(m.file, commit)
	if err != nil {
		return nil, err
	}
	if old := m.latest; old != nil {
		m.latest = nil
		old.Release()
	}
	// An idle state is kept for the next reader, unless the file may soon outgrow its map: a
	// writer must then wait until all readers have ended.
	if m.file.Roomy() {
		g.Acquire()
		m.latest = g
	}
	return g, nil
}

// View calls f with the latest committed state. Faults of the map become errors.
func (m *Manager) View(f func(g *state.Generation) error) (err error) {
	g, err := m.Latest()
	if err != nil {
		return err
	}
	defer g.Release()
	defer state.Guard(g.File, state.CatchFaults(), &err)
	return f(g)
}

// Readers returns the number of readers, without the manager itself, and the age of the oldest state
// among theirs.
func (m *Manager) Readers() (n int, oldest time.Duration) {
	if m == nil {
		return 0, 0
	}
	m.mu.Lock()
	f, idle := m.file, m.latest
	m.mu.Unlock()
	return f.Readers(idle.Shared())
}

// publish makes the next call of Latest see the latest commit, and releases the manager's own
// reference to the previous state, whose pages can be reused once no reader holds it.
func (m *Manager) publish() {
	m.mu.Lock()
	old := m.latest
	m.latest = nil
	m.mu.Unlock()
	if old != nil {
		old.Release()
	}
}

// makeRoom releases the idle generation before a very large transaction, and lets none be kept
// until done is called.
func (m *Manager) makeRoom(bytes int) (done func()) {
	if bytes < store.LargeBytes {
		return func() {}
	}
	f := m.File()
	f.SetTight(true)
	m.publish()
	return func() { f.SetTight(false) }
}

// Writable returns an error if the file cannot be written to.
func (m *Manager) Writable(ctx context.Context) error {
	if err := m.open(ctx); err != nil || m.File().Named() == nil {
		return err
	}
	// A compaction may have renamed its copy, which is not the manager's file before it ends.
	return m.Locked(ctx, func() error { return nil })
}

// open returns an error if the file is not open for writing.
func (m *Manager) open(ctx context.Context) error {
	if err := fail.Context(ctx); err != nil {
		return err
	}
	switch {
	case m == nil || m.closing.Load():
		return m.errClosed()
	case m.opts.ReadOnly:
		return fmt.Errorf("%w: %s", fail.ErrReadOnly, m.path)
	}
	if p := m.poison.Load(); p != nil {
		return m.errUnknown(*p)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("db: %w", err)
	}
	return nil
}

func (m *Manager) errClosed() error {
	if m == nil {
		return fmt.Errorf("%w: the database was never opened", fail.ErrClosed)
	}
	return fmt.Errorf("%w: %s", fail.ErrClosed, m.path)
}

func (m *Manager) errUnknown(err error) error {
	return fmt.Errorf("%w: %s: %w", fail.ErrUnknownState, m.path, fail.Inner{Err: err})
}

// BeginClose makes new calls fail, and cancels the contexts that Hold has returned.
func (m *Manager) BeginClose() {
	m.closing.Store(true)
	m.end()
}

// Close waits for the writer and for readers until the deadline, and closes the file. If there are
// still readers then, it unmaps nothing. BeginClose comes first. The last transaction is what last does
// to a file that can be written to, unless it is nil; its failure is no error.
func (m *Manager) Close(deadline <-chan time.Time, last func(*bbolt.Tx, *layout.Catalog) error) error {
	select {
	case m.write <- struct{}{}:
		defer func() { <-m.write }()
	case <-deadline:
		return fmt.Errorf("%w: a writer", fail.ErrLocked)
	}
	m.mu.Lock()
	f, closed := m.file, m.closed
	m.mu.Unlock()
	if closed {
		return nil
	}
	if last != nil && !m.opts.ReadOnly && f.Roomy() { // otherwise it might wait for readers
		_ = m.update(last)
	}
	m.publish()
	for {
		if n, age := f.Readers(nil); n == 0 {
			break
		} else if !tick(deadline) {
			return fmt.Errorf("%w: %d held, the oldest for %v", fail.Held, n, age.Round(time.Millisecond))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if err := f.Close(); err != nil {
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
