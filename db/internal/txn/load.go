package txn

import (
	"context"
	"errors"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/kind"
)

// loadBytes is about how much a transaction of a load holds. Larger ones take more memory and are not
// faster: with 32 MiB an import of IMDB takes 300 MB instead of 150, in the same time.
const loadBytes = 8 << 20

// Load fills transactions of about loadBytes by calls of next, which adds one row to a transaction or
// reports that there are no more. The next transaction is filled while the previous one is written,
// so two of them are in memory at a time. It returns the number of rows that are durable, and ends at
// the first error.
func (m *Manager) Load(ctx context.Context, next func(t *Tx) (more bool, err error)) (n int, err error) {
	var memory []float32 // of a transaction that has been written
	var writing *loaded
	wait := func() error {
		l := writing
		if writing = nil; l == nil {
			return nil
		}
		if <-l.done; l.panicked != nil {
			panic(l.panicked)
		}
		n += l.rows
		memory = l.memory[:0]
		if report := kind.ProgressOf(ctx); l.err == nil && report != nil {
			report(kind.Progress{Stage: "load", Done: n})
		}
		return l.err
	}
	defer func() {
		if writing != nil { // after a panic
			<-writing.done
		}
	}()
	rows := 0 // of the last transaction, probably also of the next one
	for more := true; more; {
		filled := 0
		t, err := m.Fill(ctx, func(t *Tx) (err error) {
			t.ops = make([]apply.Op, 0, rows+rows/8)
			if t.memory, memory = memory, nil; rows > 0 { // not of the first one, which may be small
				t.room = loadBytes / 4
			}
			for t.bytes+apply.RowBytes*len(t.ops) < loadBytes {
				if more, err = next(t); err != nil || !more {
					return err
				}
				filled++
			}
			return nil
		})
		rows = filled
		if err != nil {
			return n, errors.Join(wait(), err)
		}
		if err := t.after(wait); err != nil {
			return n, err
		}
		writing = &loaded{rows: rows, done: make(chan struct{})}
		go writing.write(ctx, t)
	}
	return n, wait()
}

// after calls f, and discards the transaction unless f returns nil.
func (t *Tx) after(f func() error) error {
	ok := false
	defer func() {
		if !ok {
			t.Discard()
		}
	}()
	err := f()
	ok = err == nil
	return err
}

// loaded is a transaction of a load that is being written.
type loaded struct {
	done     chan struct{} // closed when the others are set
	rows     int           // that are durable
	err      error
	panicked any
	memory   []float32 // of its vectors, free for another transaction
}

// write commits the transaction.
func (l *loaded) write(ctx context.Context, t *Tx) {
	defer close(l.done)
	defer func() { l.panicked = recover() }()
	if l.err = t.Commit(ctx); l.err != nil {
		l.rows = 0
		return
	}
	l.memory = t.memory
}
