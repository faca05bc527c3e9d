package db

import (
	"context"
	"errors"
	"iter"
)

// loadRow is about how much memory a row takes beside its vector.
const loadRow = 128

// Load puts many rows, in transactions of about 32 MiB, and returns how many
// of them are durable. The next transaction is filled while the one before is
// written, so that two of them are in memory at a time. A later row of a key
// replaces an earlier one. rows may reuse the memory of a row once it is asked
// for the next. progress, if not nil, is called after every transaction.
//
// An error, of rows among them, ends the load; the first n rows have then been
// written and the others not.
//
// Errors: those of Update and of rows.
func (d *DB) Load(ctx context.Context, coll string, rows iter.Seq2[Row, error], progress func(Progress)) (n int, err error) {
	return d.load(ctx, coll, rows, (*Tx).Put, progress)
}

// LoadNew is Load for rows that must replace none, neither one stored before nor an
// earlier one of rows: it ends with ErrExists at the transaction that would.
//
// Errors: those of Load, ErrExists.
func (d *DB) LoadNew(ctx context.Context, coll string, rows iter.Seq2[Row, error], progress func(Progress)) (n int, err error) {
	return d.load(ctx, coll, rows, (*Tx).Insert, progress)
}

// putFunc is how a load writes a row.
type putFunc func(b *Tx, coll string, r Row) error

func (d *DB) load(ctx context.Context, coll string, rows iter.Seq2[Row, error], put putFunc, progress func(Progress)) (n int, err error) {
	type loaded struct {
		rows int
		err  error
	}
	var writing chan loaded // the transaction under way
	wait := func() error {
		if writing == nil {
			return nil
		}
		l := <-writing
		writing = nil
		n += l.rows
		if l.err == nil && progress != nil {
			progress(Progress{Stage: "load", Done: n})
		}
		return l.err
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	var left *Row // what did not fit the transaction before
	for ended := false; !ended; {
		l := loaded{}
		fill := func(b *Tx) error {
			for b.bytes+loadRow*b.Len() < stageBytes {
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
				if err := put(b, coll, *left); err != nil {
					return err
				}
				left = nil
				l.rows++
			}
			return nil
		}
		b, err := d.fillTx(ctx, fill)
		failed := wait()
		switch {
		case failed != nil && err == nil:
			d.backlog.shrink(b.bytes)
			return n, failed
		case failed != nil || err != nil:
			return n, errors.Join(failed, err)
		}
		done := make(chan loaded, 1)
		writing = done
		go func() {
			l.err = d.applyTx(ctx, b)
			if l.err != nil {
				l.rows = 0
			}
			done <- l
		}()
	}
	return n, wait()
}
