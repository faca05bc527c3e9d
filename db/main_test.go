package db

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/anndb/anndb/db/maintenance"
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

// TestMaintainedByDefault: a database maintains itself unless it is told not to, or cannot.
func TestMaintainedByDefault(t *testing.T) {
	maintainByDefault = true
	defer func() { maintainByDefault = false }()
	path := filepath.Join(t.TempDir(), "a.anndb")
	for _, c := range []struct {
		o    *Options
		want bool
	}{
		{nil, true}, {&Options{}, true}, {&Options{Maintenance: &maintenance.Policy{}}, true},
		{&Options{Maintenance: &maintenance.Policy{Manual: true}}, false}, {&Options{ReadOnly: true}, false},
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
