package txn

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// Sweep removes marked objects. The next Recover removes what this call cannot, so a database that
// is closing is not an error.
func (m *Manager) Sweep(objects []uint64) error {
	for _, id := range objects {
		for done := false; !done; {
			var err error
			if done, err = m.sweepSome(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepSome removes a part of a marked object, so that waiting writers do not wait for the
// entire removal. done reports whether nothing is left to remove.
func (m *Manager) sweepSome(id uint64) (done bool, err error) {
	m.write <- struct{}{}
	defer func() { <-m.write }()
	if m.closing.Load() {
		return true, nil
	}
	return m.removeMarked(id)
}

// removeMarked deletes a part of what is stored under a marked object in one transaction, and
// deletes the mark with the last part. The caller holds m.write or is Recover.
func (m *Manager) removeMarked(id uint64) (done bool, err error) {
	err = m.update(func(tx *bbolt.Tx, _ *layout.Catalog) (err error) {
		if done, err = layout.RemoveObject(tx, id); err == nil && done {
			err = layout.DeleteMark(tx, id)
		}
		return err
	})
	if err == nil && done {
		m.file.Forget(id)
	}
	return done, err
}

// Recover checks that the file has the buckets and the catalog of a database, and removes what
// interrupted builds have left, unless the file is opened read-only. It comes before other calls.
func (m *Manager) Recover(ctx context.Context, log *slog.Logger) error {
	if err := m.file.VerifyPagesOf(ctx, layout.PartMeta); err != nil {
		return err
	}
	marked, err := m.leftovers()
	if err != nil || len(marked) == 0 || m.opts.ReadOnly {
		return err
	}
	log.Info("db: removing what an interrupted build left", "path", m.path, "objects", len(marked))
	for _, id := range marked {
		for done := false; !done; {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("db: open: %w", err)
			}
			if done, err = m.removeMarked(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftovers returns the marked objects, and an error if the file lacks a part of a database.
func (m *Manager) leftovers() (marked []uint64, err error) {
	defer state.Guard(m.file, state.CatchFaults(), &err)
	tx, err := m.file.Begin(false)
	if err != nil {
		return nil, err
	}
	defer m.file.End(tx)
	for _, name := range layout.RootBuckets {
		if tx.Bucket(name) == nil {
			return nil, fmt.Errorf("%w: %s has no bucket %q", fail.ErrNotDatabase, m.path, name)
		}
	}
	if _, err := layout.ReadCatalog(tx); err != nil {
		return nil, err
	}
	return layout.OrphanMarks(tx), nil
}
