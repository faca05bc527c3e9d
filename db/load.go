package db

import (
	"context"
	"fmt"
	"iter"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/txn"
)

// LoadOptions selects how Collection.Load writes rows.
type LoadOptions struct {
	// Insert ends the load with ErrExists at the first transaction with a row that would replace one.
	Insert bool
	Run
}

// Load puts many rows, in transactions of about 8 MiB of which two are in memory at a time, and
// returns how many rows are durable. The iterator may reuse the memory of a row once it is asked
// for the next one. An error, including one from rows, ends the load. nil options are the defaults.
func (c Collection) Load(ctx context.Context, rows iter.Seq2[Row, error], o *LoadOptions) (n int, err error) {
	if o == nil {
		o = &LoadOptions{}
	}
	put := TxCollection.Put
	if o.Insert {
		put = TxCollection.Insert
	}
	d, err := c.writer()
	if err != nil {
		return 0, err
	}
	if rows == nil {
		return 0, fmt.Errorf("%w: a load without rows", fail.Option)
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	return d.txn.Load(o.in(ctx), func(t *txn.Tx) (more bool, err error) {
		r, err, ok := next()
		if err != nil || !ok {
			return false, err
		}
		return true, put(TxCollection{t, c.name}, r)
	})
}
