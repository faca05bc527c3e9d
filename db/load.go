package db

import (
	"context"
	"errors"
	"iter"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/txn"
)

// loadRow is the approximate memory in bytes that a row takes in addition to its vector.
const loadRow = 128

// Load puts many rows, in transactions of about 32 MiB, and returns how many of them are
// durable. The next transaction is filled while the previous one is written, so two of them are
// in memory at a time. A later row replaces an earlier one with the same key. The iterator may
// reuse the memory of a row once it is asked for the next one.
//
// An error, including one from rows, ends the load; then the first n rows are stored and the
// others are not.
//
// Errors: those of Update and of rows.
func (c Collection) Load(ctx context.Context, rows iter.Seq2[Row, error]) (int, error) {
	return c.load(ctx, rows, TxCollection.Put)
}

// LoadNew is Load for new rows: a row must not replace a stored row or an earlier one of the
// load. It returns ErrExists at the first transaction with such a row.
//
// Errors: those of Load, ErrExists.
func (c Collection) LoadNew(ctx context.Context, rows iter.Seq2[Row, error]) (int, error) {
	return c.load(ctx, rows, TxCollection.Insert)
}

// putFunc is the method with which a load writes a row.
type putFunc func(c TxCollection, r Row) error

func (c Collection) load(
	ctx context.Context, rows iter.Seq2[Row, error], put putFunc,
) (n int, err error) {
	d, err := c.writer()
	if err != nil {
		return 0, err
	}
	type loaded struct {
		rows int
		err  error
	}
	var writing chan loaded // the transaction that is being written
	wait := func() error {
		if writing == nil {
			return nil
		}
		l := <-writing
		writing = nil
		n += l.rows
		if report := kind.ProgressOf(ctx); l.err == nil && report != nil {
			report(kind.Progress{Stage: "load", Done: n})
		}
		return l.err
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	var left *Row // the row that did not fit the previous transaction
	for ended := false; !ended; {
		l := loaded{}
		fill := func(b *txn.Tx) error {
			coll := (&Tx{b}).Collection(c.name)
			for b.Bytes()+loadRow*b.Len() < txn.StageBytes {
				if left == nil {
					r, err, ok := next()
					if !ok {
						ended = true
						return nil
					}
					if err != nil {
						return err
					}
					left = &r
				}
				if err := put(coll, *left); err != nil {
					return err
				}
				left = nil
				l.rows++
			}
			return nil
		}
		b, err := d.txn.Fill(ctx, fill)
		failed := wait()
		switch {
		case failed != nil && err == nil:
			b.Discard()
			return n, failed
		case failed != nil || err != nil:
			return n, errors.Join(failed, err)
		}
		done := make(chan loaded, 1)
		writing = done
		go func() {
			l.err = b.Commit(ctx)
			if l.err != nil {
				l.rows = 0
			}
			done <- l
		}()
	}
	return n, wait()
}
