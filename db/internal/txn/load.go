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
	type loaded struct {
		rows   int
		err    error
		memory []float32
	}
	var writing chan loaded // the transaction that is being written
	var memory []float32    // of one that has been written
	wait := func() error {
		if writing == nil {
			return nil
		}
		l := <-writing
		writing = nil
		n += l.rows
		memory = l.memory[:0]
		if report := kind.ProgressOf(ctx); l.err == nil && report != nil {
			report(kind.Progress{Stage: "load", Done: n})
		}
		return l.err
	}
	rows := 0 // of the last transaction, probably also of the next one
	for more := true; more; {
		l := loaded{}
		t, err := m.Fill(ctx, func(t *Tx) (err error) {
			t.ops = make([]apply.Op, 0, rows+rows/8)
			if t.memory, memory = memory, nil; rows > 0 { // not of the first one, which may be small
				t.room = loadBytes / 4
			}
			for t.bytes+apply.RowBytes*len(t.ops) < loadBytes {
				if more, err = next(t); err != nil || !more {
					return err
				}
				l.rows++
			}
			return nil
		})
		rows = l.rows
		failed := wait()
		switch {
		case failed != nil && err == nil:
			t.Discard()
			return n, failed
		case failed != nil || err != nil:
			return n, errors.Join(failed, err)
		}
		done := make(chan loaded, 1)
		writing = done
		go func() {
			if l.err = t.Commit(ctx); l.err != nil {
				l.rows = 0
			} else {
				l.memory = t.memory
			}
			done <- l
		}()
	}
	return n, wait()
}
