package db

import (
	"context"

	"github.com/anndb/anndb/db/internal/check"
	"github.com/anndb/anndb/db/internal/fail"
)

// Check verifies the latest state without trusting any of it: every page, every checksum, and that
// rows, keys, labels and indexes agree. report is called for every problem; the error is ErrCorrupt
// if there was any. It reads the file once and keeps about 60 bytes for each key of the largest
// collection in memory. Its stages are pages, in MiB, rows and indexes.
func (d *DB) Check(ctx context.Context, report func(*CorruptError), run *Run) error {
	if err := fail.Context(ctx); err != nil {
		return err
	}
	s, err := d.Snapshot()
	if err != nil {
		return err
	}
	defer s.Release()
	return s.check(run.in(ctx), report)
}

func (s *Snapshot) check(ctx context.Context, report func(*CorruptError)) error {
	return check.Run(ctx, s.gen, s.d.path, func(found fail.Damage) {
		if report != nil {
			e := CorruptError(found)
			report(&e)
		}
	})
}
