package txn

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/state"
)

// backlog bounds the memory of transactions that are being filled or wait to be written. A
// caller that adds to it waits while it is full, but only while a submitted transaction has not
// been answered: otherwise a transaction that is filled inside another one would wait for
// itself.
type backlog struct {
	limit int64

	mu    sync.Mutex
	bytes int64         // of all transactions that Update has not answered yet
	moves int           // number of transactions submitted and not answered
	freed chan struct{} // closed when waiters should check again; nil if there are none
}

// full reports whether a caller must wait.
func (b *backlog) full() bool { return b.bytes >= b.limit && b.moves > 0 }

// grow adds bytes once the backlog is not full.
func (b *backlog) grow(ctx context.Context, bytes int) error {
	b.mu.Lock()
	for b.full() {
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("db: %w", ctx.Err())
		}
		b.mu.Lock()
	}
	b.bytes += int64(bytes)
	b.mu.Unlock()
	return nil
}

// shrink subtracts bytes.
func (b *backlog) shrink(bytes int) { b.change(-int64(bytes), 0) }

// moving adds n to the number of submitted transactions.
func (b *backlog) moving(n int) { b.change(0, n) }

func (b *backlog) change(bytes int64, moves int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += bytes
	b.moves += moves
	if b.freed != nil && !b.full() {
		close(b.freed)
		b.freed = nil
	}
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
