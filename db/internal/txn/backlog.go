package txn

import (
	"context"
	"fmt"
	"sync"
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
