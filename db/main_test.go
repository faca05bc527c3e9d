package db

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/vector"
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
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.anndb"), o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
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

// create is DB.Create without the handle.
func create(ctx context.Context, d *DB, name string, s Schema) error {
	_, err := d.Create(ctx, name, s)
	return err
}

// must ends a test that has got an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filterOf makes a filter from the latest state.
func filterOf(t *testing.T, d *DB, coll string, rows *roaring.Bitmap) *filter.Filter {
	t.Helper()
	f, err := d.Collection(coll).RowFilter(rows)
	must(t, err)
	return f
}

// randomSparse draws n features of dim with values in (0, 1].
func randomSparse(rng *rand.Rand, n, dim int) vector.Sparse {
	picked := rng.Perm(dim)[:n]
	slices.Sort(picked)
	var s vector.Sparse
	for _, f := range picked {
		s.Index = append(s.Index, uint32(f))
		s.Value = append(s.Value, 1-rng.Float32())
	}
	return s
}
