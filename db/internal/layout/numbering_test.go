package layout_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/vector"
)

// TestNumberingStays: a collection's numbering is kept by whatever rewrites the
// file, and unknown features are called by it.
func TestNumberingStays(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	d, err := dbtest.Open(ctx, filepath.Join(dir, "a.anndb"), nil)
	dbtest.Must(t, err)
	if _, err := d.Create(ctx, "x", db.Schema{Sparse: true, Numbering: "2"}); !errors.Is(err, fail.Option) {
		t.Errorf("numbering from 2: %v", err)
	}
	if _, err := d.Create(ctx, "x", db.Schema{Dim: 1, Numbering: "one"}); !errors.Is(err, fail.Option) {
		t.Errorf("numbering from one: %v", err)
	}
	steps := []func() error{
		func() error { return dbtest.Create(ctx, d, "s", db.Schema{Sparse: true, Numbering: "1"}) },
		func() error { return dbtest.Create(ctx, d, "d", db.Schema{Dim: 1, Numbering: "0"}) },
		func() error {
			return d.Update(ctx, func(b *db.Tx) error {
				return b.Collection("s").Put(db.Row{Key: []byte("k"), Sparse: vector.Sparse{Index: []uint32{3}, Value: []float32{1}}})
			})
		},
		func() error { return d.Compact(ctx, nil) },
		func() error { return d.Compact(ctx, &db.CompactOptions{Reorder: true}) },
		d.Close,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if _, err := rescue.Salvage(ctx, d.Path(), filepath.Join(dir, "b.anndb"), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.anndb", "b.anndb"} {
		if d, err = dbtest.Open(ctx, filepath.Join(dir, name), nil); err != nil {
			t.Fatal(err)
		}
		err := d.View(func(s *db.Snapshot) error {
			for coll, want := range map[string]string{"s": "1", "d": "0"} {
				if info, err := s.Collection(coll).Info(); err != nil || info.Numbering != want {
					t.Errorf("%s: %s has numbering %q, %v", name, coll, info.Numbering, err)
				}
			}
			q := db.Query{Sparse: vector.Sparse{Index: []uint32{3, 8}, Value: []float32{1, 1}}}
			_, stats, err := dbtest.Nearest(ctx, s.Collection("s"), q, 1, nil)
			if !slices.Equal(stats.Unknown, []string{"9"}) {
				t.Errorf("%s: unknown features %q", name, stats.Unknown)
			}
			return err
		})
		dbtest.Must(t, errors.Join(err, d.Close()))
	}
}
