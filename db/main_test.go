package db

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
)

// TestMain runs the tests and fails when they leave goroutines behind.
func TestMain(m *testing.M) {
	maintainByDefault = false
	goleak.VerifyTestMain(m)
}

// openTemp opens a new database that is closed at the test's end.
func openTemp(t *testing.T, o *Options) *DB {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.anndb"), o)
}

// openAt opens a database that is closed at the test's end.
func openAt(t *testing.T, path string, o *Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, o)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// viewTx calls f with the read transaction of the latest state.
func viewTx(d *DB, f func(tx *bbolt.Tx) error) error {
	return d.View(func(s *Snapshot) error { return f(s.gen.Tx) })
}

// mustLeaveNothing checks that only the database is in its directory, that no
// object is marked, and that every stored object belongs to something.
func mustLeaveNothing(d *DB) error {
	entries, err := os.ReadDir(filepath.Dir(d.Path()))
	if err != nil {
		return err
	}
	for _, e := range entries {
		// A kill during creation may leave its temporary file: nobody can know
		// that no other process is about to link it.
		if e.Name() != filepath.Base(d.Path()) && !strings.Contains(e.Name(), ".new-") {
			return fmt.Errorf("left behind: %s", e.Name())
		}
	}
	return viewTx(d, func(tx *bbolt.Tx) error {
		if marks := layout.OrphanMarks(tx); len(marks) > 0 {
			return fmt.Errorf("objects %v are still marked", marks)
		}
		cat, err := layout.ReadCatalog(tx)
		if err != nil {
			return err
		}
		known := map[uint64]bool{0: true}
		for _, c := range cat.Collections {
			known[c.ID] = true
			for _, x := range c.Indexes {
				for _, object := range x.Objects() {
					known[object] = true
				}
			}
		}
		if err := tx.Bucket(layout.BucketLabels).ForEach(func(k, v []byte) error {
			object, err := layout.LabelObject("", k, v)
			known[object] = true
			return err
		}); err != nil {
			return err
		}
		for _, name := range [][]byte{layout.BucketBlocks, layout.BucketSets, layout.BucketTail, layout.BucketMeta} {
			if err := tx.Bucket(name).ForEach(func(k, _ []byte) error {
				if object, kind, _ := codec.ParseKey(k); !known[object] {
					return fmt.Errorf("orphan of object %d, section %v in bucket %q", object, kind, name)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestMaintainedByDefault: a database maintains itself unless it is told not to, or cannot.
func TestMaintainedByDefault(t *testing.T) {
	maintainByDefault = true
	defer func() { maintainByDefault = false }()
	path := filepath.Join(t.TempDir(), "a.anndb")
	for _, c := range []struct {
		o    *Options
		want bool
	}{
		{nil, true}, {&Options{}, true}, {&Options{Maintenance: &Maintenance{}}, true},
		{&Options{Maintenance: &Maintenance{Manual: true}}, false}, {&Options{ReadOnly: true}, false},
	} {
		d, err := Open(t.Context(), path, c.o)
		must(t, err)
		st, err := d.Stats()
		if st.Maintenance.Background != c.want || err != nil {
			t.Errorf("%+v: in the background %t, %v", c.o, st.Maintenance.Background, err)
		}
		must(t, d.Close())
	}
}
