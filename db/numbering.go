package db

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Row numbers, and the set of collections and indexes, stay as they are while a
// share of DB.numbering is held. Builds, steps of maintenance, and what creates or
// drops take a share; a compaction takes them all. The semaphore serves requests
// in their order, so that neither can starve the other.
const allShares = 1 << 30

// hold takes shares of d.numbering. The context it returns also ends when the
// database is closed. release gives the shares back and makes ErrClosed of an
// error for which that is the reason.
func (d *DB) hold(parent context.Context, shares int64) (_ context.Context, release func(*error), err error) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(d.life, cancel)
	finish := func(err *error) {
		stop()
		cancel()
		if errors.Is(*err, context.Canceled) && parent.Err() == nil && d.closing.Load() {
			*err = fmt.Errorf("%w: %s", ErrClosed, d.path)
		}
	}
	if err := d.numbering.Acquire(ctx, shares); err != nil {
		err = fmt.Errorf("db: %w", err)
		finish(&err)
		return nil, nil, err
	}
	return ctx, func(err *error) {
		d.numbering.Release(shares)
		finish(err)
	}, nil
}

// restructure is exclusive for what creates or drops collections and indexes. f
// returns the objects that nothing refers to any more; they are removed before the
// share is given back, since a compaction would copy their marks and leave them.
func (d *DB) restructure(ctx context.Context, f func(tx *bbolt.Tx, cat *catalog) (gone []uint64, err error)) (err error) {
	if err := d.writable(ctx); err != nil {
		return err
	}
	ctx, release, err := d.hold(ctx, 1)
	if err != nil {
		return err
	}
	defer release(&err)
	var gone []uint64
	err = d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) (err error) {
		if gone, err = f(tx, cat); err != nil {
			return err
		}
		for _, id := range gone {
			if err := putMark(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.sweep(gone)
}
