package txn

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// StageBytes is the approximate size of one of several transactions that write much: large enough for
// the disk, small enough that waiting writers wait briefly.
const StageBytes = 32 << 20

// update runs f in a write transaction, commits it, and publishes the new state. The caller
// holds m.write.
func (m *Manager) update(f func(tx *bbolt.Tx, cat *layout.Catalog) error) (err error) {
	if p := m.poison.Load(); p != nil {
		return m.errUnknown(*p)
	}
	s := m.File()
	tx, err := s.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // fails, as intended, after the commit
	if err = fill(s, tx, f); err == nil {
		err = s.Named()
	}
	if err != nil {
		return fail.System(err)
	}
	if err := m.commit(s, tx); err != nil {
		err = fail.System(err)
		if errors.Is(err, berrors.ErrMaxSizeReached) {
			// bbolt detects this while it allocates pages, before it writes any.
			return fail.Wrapf(err, "%s would grow beyond MaxSize, %d bytes", m.path, m.opts.MaxSize)
		}
		m.poison.CompareAndSwap(nil, &err)
		return m.errUnknown(err)
	}
	m.commits.Add(1)
	m.publish()
	s.Advise()
	// Nobody finds what was committed after another file had taken the path.
	if err := s.Named(); err != nil {
		m.poison.CompareAndSwap(nil, &err)
		return m.errUnknown(err)
	}
	return nil
}

// commit commits a transaction. After a panic in it nothing more is written, not even by functions
// that the panic runs: the list of free pages in memory lacks those that the transaction has taken.
func (m *Manager) commit(s *state.File, tx *bbolt.Tx) (err error) {
	err = errPanicked
	defer func() {
		if err == errPanicked {
			m.poison.CompareAndSwap(nil, &err)
		}
	}()
	return s.Commit(tx)
}

// fill runs f on the transaction's catalog and writes the catalog back.
func fill(s *state.File, tx *bbolt.Tx, f func(tx *bbolt.Tx, cat *layout.Catalog) error) (err error) {
	defer state.Guard(s, state.CatchFaults(), &err)
	if err := s.VerifyPages(layout.AllParts); err != nil {
		return err
	}
	cat, err := layout.ReadCatalog(tx)
	if err != nil {
		return err
	}
	if err := f(tx, cat); err != nil {
		return err
	}
	return layout.WriteCatalog(tx, cat)
}

// Exclusive runs f in a separate write transaction.
func (m *Manager) Exclusive(ctx context.Context, f func(tx *bbolt.Tx, cat *layout.Catalog) error) error {
	if err := m.Writable(ctx); err != nil {
		return err
	}
	return m.Locked(ctx, func() error { return m.update(f) })
}

// Locked calls f while no transaction is written, and not before the file can be written to.
func (m *Manager) Locked(ctx context.Context, f func() error) error {
	select {
	case m.write <- struct{}{}:
		defer func() { <-m.write }()
	case <-ctx.Done():
		return fmt.Errorf("db: %w", ctx.Err())
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	if err := m.File().Named(); err != nil {
		return err
	}
	return f()
}

// commitBytes is the approximate amount of data of waiting transactions that are committed
// together.
const commitBytes = 64 << 20

// request is a transaction waiting for a writer.
type request struct {
	ops   []apply.Op
	reads map[apply.Key]apply.Found
	file  *state.File // of the state that was read
	bytes int
	done  chan error
}

// submit queues a request and waits for its outcome. The first waiter that gets the write lock
// commits the requests of all.
func (m *Manager) submit(ctx context.Context, r *request) error {
	m.backlog.moving(1)
	defer m.backlog.moving(-1)
	m.queueMu.Lock()
	m.queue = append(m.queue, r)
	m.queueMu.Unlock()
	select {
	case err := <-r.done:
		return err
	case m.write <- struct{}{}:
		defer func() { <-m.write }()
		for {
			select {
			case err := <-r.done:
				return err
			default:
				m.awaitCompany()
				m.commitRequests(m.takeRequests())
			}
		}
	case <-ctx.Done():
		if m.withdraw(r) {
			return fmt.Errorf("db: %w", ctx.Err())
		}
		return <-r.done
	}
}

// awaitCompany lets goroutines that are ready to run submit their transactions, such as those
// that the last commit has just answered. Without it, the transactions of a steady load split
// into two groups that alternate.
func (m *Manager) awaitCompany() {
	for last := -1; ; {
		m.queueMu.Lock()
		n := len(m.queue)
		m.queueMu.Unlock()
		if n <= last {
			return
		}
		last = n
		runtime.Gosched()
	}
}

// takeRequests takes waiting requests, oldest first, with at most commitBytes in total.
func (m *Manager) takeRequests() []*request {
	m.queueMu.Lock()
	defer m.queueMu.Unlock()
	n, size := 0, 0
	for n < len(m.queue) && (n == 0 || size+m.queue[n].bytes <= commitBytes) {
		size += m.queue[n].bytes
		n++
	}
	taken := slices.Clone(m.queue[:n])
	m.queue = slices.Delete(m.queue, 0, n)
	return taken
}

// withdraw removes a request from the queue and reports whether it was still there.
func (m *Manager) withdraw(r *request) bool {
	m.queueMu.Lock()
	defer m.queueMu.Unlock()
	i := slices.Index(m.queue, r)
	if i < 0 {
		return false
	}
	m.queue = slices.Delete(m.queue, i, i+1)
	return true
}

// commitRequests applies requests in one transaction and answers each of them. A request that
// cannot be applied fails alone, before it changes anything.
func (m *Manager) commitRequests(reqs []*request) {
	if len(reqs) == 0 {
		return
	}
	failed := make([]error, len(reqs))
	err := m.errUnknown(errPanicked)
	defer func() {
		for i, r := range reqs {
			r.done <- errors.Join(failed[i], err)
		}
	}()
	if m.closing.Load() {
		err = m.errClosed()
		return
	}
	bytes := 0
	for _, r := range reqs {
		bytes += r.bytes
	}
	defer m.makeRoom(bytes)()
	var a *apply.Applier
	err = m.update(func(tx *bbolt.Tx, cat *layout.Catalog) error {
		a = apply.New(tx, cat)
		for i, r := range reqs {
			for j := range r.ops {
				o := &r.ops[j]
				if id := m.currentID(o.ID); id != o.ID {
					o.ID, o.Expired = id, nil // rows have other numbers
				}
			}
			if failed[i] = errors.Join(m.unchanged(a, r), a.Check(r.ops)); failed[i] != nil {
				continue
			}
			if err := a.Apply(r.ops); err != nil {
				return err
			}
		}
		return a.Finish()
	})
	if err == nil {
		m.watches.Add(a)
	}
}

// errPanicked is the reason for which transactions are not committed after a panic in a commit.
var errPanicked = errors.New("the commit panicked")

// unchanged checks what a transaction has read. A compaction renumbers rows, so reads from the file
// before a compaction conflict.
func (m *Manager) unchanged(a *apply.Applier, r *request) error {
	if len(r.reads) > 0 && r.file != m.file {
		return apply.ErrConflict
	}
	return a.Unchanged(r.reads)
}

// Apply commits changes of rows to a file that has no manager.
func Apply(s *state.File, ops []apply.Op) error {
	if len(ops) == 0 {
		return nil
	}
	tx, err := s.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // fails, as intended, after the commit
	err = fill(s, tx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		a := apply.New(tx, cat)
		if err := a.Check(ops); err != nil {
			return err
		}
		if err := a.Apply(ops); err != nil {
			return err
		}
		return a.Finish()
	})
	if err != nil {
		return err
	}
	return s.Commit(tx)
}
