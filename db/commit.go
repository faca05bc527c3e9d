package db

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// update runs f in a write transaction, commits it, and publishes the new state. The caller
// holds d.write.
func (d *DB) update(f func(tx *bbolt.Tx, cat *layout.Catalog) error) (err error) {
	if p := d.poison.Load(); p != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknownState, d.path, fail.Inner{Err: *p})
	}
	d.snapMu.Lock()
	s := d.store
	d.snapMu.Unlock()
	tx, err := s.Begin(true)
	if err != nil {
		return err
	}
	if err := fill(s, tx, f); err != nil {
		_ = tx.Rollback() // nothing was written; err is the reason
		return asSystem(err)
	}
	if err := s.Commit(tx); err != nil {
		err = asSystem(err)
		if errors.Is(err, berrors.ErrMaxSizeReached) {
			// bbolt detects this while it allocates pages, before it writes any.
			return fail.Wrapf(err, "%s would grow beyond MaxSize, %d bytes", d.path, d.opts.MaxSize)
		}
		d.poison.CompareAndSwap(nil, &err)
		return fmt.Errorf("%w: %s: %w", ErrUnknownState, d.path, fail.Inner{Err: err})
	}
	d.commits.Add(1)
	d.publish()
	s.Advise()
	return nil
}

// fill runs f on the transaction's catalog and writes the catalog back.
func fill(s *state.File, tx *bbolt.Tx, f func(tx *bbolt.Tx, cat *layout.Catalog) error) (err error) {
	defer state.Guard(s, state.CatchFaults(), &err)
	if err := s.VerifyPages(layout.AllParts); err != nil {
		return err
	}
	cat, err := layout.ReadCatalog(tx)
	if err != nil {
		return err
	}
	if err := f(tx, cat); err != nil {
		return err
	}
	return layout.WriteCatalog(tx, cat)
}

// exclusive runs f in a separate write transaction.
func (d *DB) exclusive(ctx context.Context, f func(tx *bbolt.Tx, cat *layout.Catalog) error) error {
	if err := d.writable(ctx); err != nil {
		return err
	}
	select {
	case d.write <- struct{}{}:
		defer func() { <-d.write }()
	case <-ctx.Done():
		return fmt.Errorf("db: %w", ctx.Err())
	}
	if err := d.writable(ctx); err != nil {
		return err
	}
	return d.update(f)
}

// commitRequests applies requests in one transaction and answers each of them. A request that
// cannot be applied fails alone, before it changes anything.
func (d *DB) commitRequests(reqs []*request) {
	if len(reqs) == 0 {
		return
	}
	var err error
	if d.closing.Load() {
		err = fmt.Errorf("%w: %s", ErrClosed, d.path)
	}
	bytes := 0
	for _, r := range reqs {
		bytes += r.bytes
	}
	defer d.makeRoom(bytes)()
	failed := make([]error, len(reqs))
	if err == nil {
		var a *apply.Applier
		err = d.update(func(tx *bbolt.Tx, cat *layout.Catalog) error {
			a = apply.New(tx, cat)
			for i, r := range reqs {
				for j := range r.ops {
					r.ops[j].ID = d.currentID(r.ops[j].ID)
				}
				if failed[i] = errors.Join(d.unchanged(a, r), a.Check(r.ops)); failed[i] != nil {
					continue
				}
				if err := a.Apply(r.ops); err != nil {
					return err
				}
			}
			return a.Finish()
		})
		if err == nil {
			d.watches.Add(a)
		}
	}
	for i, r := range reqs {
		r.done <- errors.Join(failed[i], err)
	}
}

// unchanged checks what a transaction has read. A compaction renumbers rows, so reads from the file
// before a compaction conflict.
func (d *DB) unchanged(a *apply.Applier, r *request) error {
	if len(r.reads) > 0 && r.store != d.store {
		return apply.ErrConflict
	}
	return a.Unchanged(r.reads)
}
