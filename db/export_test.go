package db

import (
	"context"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
)

// The inside of a database, for the tests of package db_test.

func Kinds() map[string]kind.Kind { return kinds }

func Manager(d *DB) *txn.Manager { return d.txn }

func Inside(s *Snapshot) *state.Generation { return s.gen }

func MoveRestored(copied, path string, replace bool, old *DB) error {
	return moveRestored(copied, path, replace, old)
}

func CheckSnapshot(s *Snapshot, report func(*CorruptError)) error {
	return s.check(context.Background(), report)
}
