package segment

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/txntest"
)

func build(t *testing.T, ix *Indexer, r Request) (*kind.Manifest, error) {
	t.Helper()
	if r.Collection == "" {
		r.Collection = "sparse"
	}
	r.Options = &index.Postings{}
	return ix.Build(t.Context(), r)
}

// indexes returns the names of the indexes of the sparse collection.
func indexes(t *testing.T, m *txn.Manager) (names []string) {
	t.Helper()
	err := m.View(func(g *state.Generation) error {
		names = g.Collections["sparse"].Entry.IndexNames()
		return nil
	})
	txntest.Must(t, err)
	return names
}

// drop removes an index.
func drop(m *txn.Manager, name string) error {
	return m.Restructure(context.Background(), func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		c, err := cat.Find("sparse")
		if err != nil {
			return nil, err
		}
		removed := c.Index(name).Objects()
		c.Indexes = slices.DeleteFunc(c.Indexes, func(r layout.IndexRef) bool { return r.Name == name })
		return removed, nil
	})
}

// TestBuild: an index is published under its name and replaces one of that name; one that the
// program builds replaces the automatic one; what does not suit is refused and leaves nothing.
func TestBuild(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "sparse", 0, 50)
	ix := New(m)
	if x, err := build(t, ix, Request{Name: layout.Auto, Auto: true}); err != nil || x.Info.Rows != 50 || !x.Auto {
		t.Fatal(x, err)
	}
	if _, err := build(t, ix, Request{Name: layout.Auto, Auto: true}); !errors.Is(err, ErrOvertaken) {
		t.Errorf("a second automatic index: %v", err)
	}
	for range 2 {
		if _, err := build(t, ix, Request{Name: "main"}); err != nil {
			t.Fatal(err)
		}
		if got := indexes(t, m); !slices.Equal(got, []string{"main"}) {
			t.Errorf("indexes %q", got)
		}
	}
	if _, err := build(t, ix, Request{Collection: "dense", Name: "x"}); !errors.Is(err, fail.Kind) {
		t.Errorf("an inverted index over dense rows: %v", err)
	}
	if _, err := build(t, ix, Request{Collection: "none", Name: "x"}); !errors.Is(err, fail.NoCollection) {
		t.Errorf("an index of no collection: %v", err)
	}
	txntest.Check(t, m, path)
}

// TestMaintain: steps bring an index up to date, and their number is kept.
func TestMaintain(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "sparse", 0, 50)
	ix := New(m)
	if _, err := build(t, ix, Request{Name: "main"}); err != nil {
		t.Fatal(err)
	}
	if steps, err := ix.Maintain(t.Context(), Effort{}); err != nil || len(steps) != 0 {
		t.Errorf("nothing has changed: %+v, %v", steps, err)
	}
	txntest.Put(t, m, "sparse", 50, 60)
	txntest.Delete(t, m, "sparse", 0, 10)
	if steps, err := ix.Maintain(t.Context(), Effort{Share: 0.5}); err != nil || len(steps) != 0 {
		t.Errorf("less than half has changed: %+v, %v", steps, err)
	}
	steps, err := ix.Maintain(t.Context(), Effort{})
	if err != nil || len(steps) == 0 || ix.Steps() != uint64(len(steps)) {
		t.Errorf("%+v, %v, %d in total", steps, err, ix.Steps())
	}
	if s, err := ix.Maintain(t.Context(), Effort{Once: true}); s != nil || err != nil {
		t.Errorf("maintained twice: %+v, %v", s, err)
	}
	txntest.Check(t, m, path)
}

// TestRepair: a damaged index is found and rebuilt, also if it is dropped after it was found.
func TestRepair(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "sparse", 0, 50)
	ix := New(m)
	if found, err := ix.Repair(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("without indexes: %+v, %v", found, err)
	}
	x, err := build(t, ix, Request{Name: "main"})
	txntest.Must(t, err)
	again := inPlaceOf(t.Context(), nil, x, &layout.IndexRef{Object: x.Object})
	damage(t, m, x.Segments[0].Object)
	found, err := ix.Repair(t.Context())
	if err != nil || len(found) != 1 || found[0].Damage == nil || found[0].Err != nil ||
		found[0].Index != "main" {
		t.Errorf("%+v, %v", found, err)
	}
	txntest.Check(t, m, path)
	if _, err := ix.Rebuild(t.Context(), "sparse", again); !errors.Is(err, ErrOvertaken) {
		t.Errorf("an index that was replaced was rebuilt: %v", err)
	}
	txntest.Must(t, drop(m, "main"))
	if _, err := ix.Rebuild(t.Context(), "sparse", again); !errors.Is(err, ErrOvertaken) {
		t.Errorf("an index that was dropped was rebuilt: %v", err)
	}
	txntest.Check(t, m, path)
}

// TestRepairSegment: an index whose small segment has lost its blocks is built again.
func TestRepairSegment(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "sparse", 0, 50)
	ix := New(m)
	if _, err := build(t, ix, Request{Name: "main"}); err != nil {
		t.Fatal(err)
	}
	txntest.Put(t, m, "sparse", 50, 55)
	if steps, err := ix.Maintain(t.Context(), Effort{}); err != nil || len(steps) != 1 || steps[0].Action != "segment" {
		t.Fatalf("%+v, %v", steps, err)
	}
	var small uint64
	txntest.Must(t, m.View(func(g *state.Generation) error {
		x, err := g.Collections["sparse"].ManifestNamed("main")
		if err == nil {
			small = x.Segments[1].Object
		}
		return err
	}))
	damage(t, m, small)
	if found, err := ix.Repair(t.Context()); err != nil || len(found) != 1 || found[0].Err != nil {
		t.Errorf("%+v, %v", found, err)
	}
	txntest.Check(t, m, path)
}

// damage removes the blocks of an object, without its manifest.
func damage(t *testing.T, m *txn.Manager, object uint64) {
	t.Helper()
	err := m.Exclusive(t.Context(), func(tx *bbolt.Tx, _ *layout.Catalog) error {
		b := tx.Bucket(layout.BucketBlocks)
		c := b.Cursor()
		var keys [][]byte
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if of, section, _ := codec.ParseKey(k); of == object && section != codec.KindManifest {
				keys = append(keys, slices.Clone(k))
			}
		}
		if len(keys) == 0 {
			t.Error("the index has no blocks")
		}
		for _, k := range keys {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	txntest.Must(t, err)
}
