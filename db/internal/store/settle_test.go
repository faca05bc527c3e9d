package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/store"
)

// TestNameNotDurable lets the fsync of the directory fail after a compaction and
// after a creation. Until the name is durable nothing may be committed: a power
// cut could bring the old file back, or none, without what was acknowledged.
func TestNameNotDurable(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.anndb")
	synced, fails := 0, true
	defer func(old func(string) error) { store.SyncDir = old }(store.SyncDir)
	store.SyncDir = func(string) error {
		if synced++; fails {
			return syscall.EIO
		}
		return nil
	}
	small := &db.Options{MapReserve: 1 << 32}
	if _, err := dbtest.Open(ctx, path, small); !errors.Is(err, syscall.EIO) {
		t.Fatalf("created without a durable name: %v", err)
	}
	if _, err := dbtest.Open(ctx, path, small); !errors.Is(err, syscall.EIO) {
		t.Fatalf("opened without a durable name: %v", err)
	}
	fails = false
	d, err := dbtest.Open(ctx, path, small)
	dbtest.Must(t, err)
	put := func(key string) error {
		return d.Update(ctx, func(b *db.Tx) error { return b.Collection("c").Put(db.Row{Key: []byte(key), Vector: []float32{1}}) })
	}
	dbtest.Must(t, errors.Join(dbtest.Create(ctx, d, "c", db.Schema{Dim: 1}), put("before")))
	fails = true
	if err := d.Compact(ctx, nil); !errors.Is(err, db.ErrUnknownState) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("compacted without a durable name: %v", err)
	}
	fails = false
	if err := put("after"); !errors.Is(err, db.ErrUnknownState) {
		t.Fatalf("committed to a file without a durable name: %v", err)
	}
	if err := errors.Join(d.View(func(s *db.Snapshot) error { _, err := s.Collection("c").Get([]byte("before")); return err }), d.Close()); err != nil {
		t.Fatalf("reading goes on: %v", err)
	}
	before := synced
	if d, err = dbtest.Open(ctx, path, small); err != nil || synced == before {
		t.Fatalf("reopened with %d fsyncs of the directory: %v", synced-before, err)
	}
	dbtest.Must(t, errors.Join(put("after"), dbtest.Check(d), d.Close()))
	before = synced
	d, err = dbtest.Open(ctx, path, &db.Options{ReadOnly: true})
	if err != nil || synced != before {
		t.Fatalf("reading only, with %d fsyncs of the directory: %v", synced-before, err)
	}
	dbtest.Must(t, d.Close())
}
