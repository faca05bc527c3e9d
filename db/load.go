package db

import (
	"context"
	"iter"

	"github.com/anndb/anndb/db/internal/txn"
)

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
	next, stop := iter.Pull2(rows)
	defer stop()
	return d.txn.Load(ctx, func(t *txn.Tx) (more bool, err error) {
		r, err, ok := next()
		if err != nil || !ok {
			return false, err
		}
		return true, put(TxCollection{t, c.name}, r)
	})
}
