package txn

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/layout"
)

// AllShares is the number of shares that a compaction takes. Row numbers and the set of collections
// and indexes do not change while a share is held. Builds, maintenance steps, and operations that
// create or drop collections or indexes take one share. The semaphore serves requests in order, so
// neither can starve the other.
const AllShares = 1 << 30

// Hold takes shares. Before it waits for others to release them, it calls OnWait. The returned context
// also ends when the database is closed. release returns the shares, and replaces an error that was
// caused by closing with ErrClosed.
func (m *Manager) Hold(
	parent context.Context, shares int64,
) (_ context.Context, release func(*error), err error) {
	if ctx, release, ok := m.TryHold(parent, shares); ok {
		return ctx, release, nil
	}
	if m.OnWait != nil {
		m.OnWait()
	}
	ctx, finish := m.untilClosed(parent)
	if err := m.numbering.Acquire(ctx, shares); err != nil {
		err = fmt.Errorf("db: %w", err)
		finish(&err)
		return nil, nil, err
	}
	return ctx, m.releasing(shares, finish), nil
}

// TryHold is Hold if it does not have to wait. Otherwise it returns false.
func (m *Manager) TryHold(
	parent context.Context, shares int64,
) (_ context.Context, release func(*error), ok bool) {
	if parent.Err() != nil || m.closing.Load() || !m.numbering.TryAcquire(shares) {
		return nil, nil, false
	}
	ctx, finish := m.untilClosed(parent)
	return ctx, m.releasing(shares, finish), true
}

// releasing returns the function that releases shares.
func (m *Manager) releasing(shares int64, finish func(*error)) func(*error) {
	return func(err *error) {
		m.numbering.Release(shares)
		finish(err)
	}
}

// untilClosed returns a context that also ends when the database is closed. finish ends it, and
// replaces an error that was caused by closing with ErrClosed.
func (m *Manager) untilClosed(parent context.Context) (_ context.Context, finish func(*error)) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(m.life, cancel)
	return ctx, func(err *error) {
		stop()
		cancel()
		if errors.Is(*err, context.Canceled) && parent.Err() == nil && m.closing.Load() {
			*err = m.errClosed()
		}
	}
}

// Restructure is Exclusive for operations that create or drop collections and indexes. f
// returns the objects that are no longer referenced. They are removed before the share is
// released, since a compaction would copy them with their marks.
func (m *Manager) Restructure(
	ctx context.Context, f func(tx *bbolt.Tx, cat *layout.Catalog) (removed []uint64, err error),
) (err error) {
	if err := m.Writable(ctx); err != nil {
		return err
	}
	ctx, release, err := m.Hold(ctx, 1)
	if err != nil {
		return err
	}
	defer release(&err)
	var removed []uint64
	err = m.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) (err error) {
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
	return m.Sweep(removed)
}
