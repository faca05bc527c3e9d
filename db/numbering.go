package db

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/layout"
)

// Row numbers and the set of collections and indexes do not change while a share of
// DB.numbering is held. Builds, maintenance steps, and operations that create or drop
// collections or indexes take one share; a compaction takes all. The semaphore serves requests
// in order, so neither can starve the other.
const allShares = 1 << 30

// hold takes shares of d.numbering. If it would have to wait for a build or a compaction of
// background maintenance, it cancels that. The returned context also ends when the database is
// closed. release returns the shares, and replaces an error that was caused by closing with
// ErrClosed.
func (d *DB) hold(
	parent context.Context, shares int64,
) (_ context.Context, release func(*error), err error) {
	if ctx, release, ok := d.tryHold(parent, shares); ok {
		return ctx, release, nil
	}
	d.background.cancelLarge()
	ctx, finish := d.untilClosed(parent)
	if err := d.numbering.Acquire(ctx, shares); err != nil {
		err = fmt.Errorf("db: %w", err)
		finish(&err)
		return nil, nil, err
	}
	return ctx, d.releasing(shares, finish), nil
}

// tryHold is hold if it does not have to wait. Otherwise it returns false.
func (d *DB) tryHold(
	parent context.Context, shares int64,
) (_ context.Context, release func(*error), ok bool) {
	if parent.Err() != nil || d.closing.Load() || !d.numbering.TryAcquire(shares) {
		return nil, nil, false
	}
	ctx, finish := d.untilClosed(parent)
	return ctx, d.releasing(shares, finish), true
}

// releasing returns the function that releases shares.
func (d *DB) releasing(shares int64, finish func(*error)) func(*error) {
	return func(err *error) {
		d.numbering.Release(shares)
		finish(err)
	}
}

// untilClosed returns a context that also ends when the database is closed. finish ends it, and
// replaces an error that was caused by closing with ErrClosed.
func (d *DB) untilClosed(parent context.Context) (_ context.Context, finish func(*error)) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(d.life, cancel)
	return ctx, func(err *error) {
		stop()
		cancel()
		if errors.Is(*err, context.Canceled) && parent.Err() == nil && d.closing.Load() {
			*err = fmt.Errorf("%w: %s", ErrClosed, d.path)
		}
	}
}

// restructure is exclusive for operations that create or drop collections and indexes. f
// returns the objects that are no longer referenced. They are removed before the share is
// released, since a compaction would copy them with their marks.
func (d *DB) restructure(
	ctx context.Context, f func(tx *bbolt.Tx, cat *layout.Catalog) (removed []uint64, err error),
) (err error) {
	if err := d.writable(ctx); err != nil {
		return err
	}
	ctx, release, err := d.hold(ctx, 1)
	if err != nil {
		return err
	}
	defer release(&err)
	var removed []uint64
	err = d.exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) (err error) {
		if removed, err = f(tx, cat); err != nil {
			return err
		}
		for _, id := range removed {
			if err := layout.PutMark(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.sweep(removed)
}
