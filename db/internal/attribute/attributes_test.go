package attribute_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/vector"
)

// attributed is what a test expects of a collection: attributes and expiry by key.
type attributed map[string]db.Row

// verify compares all rows, and the rows of every attribute, with the expected ones.
func (want attributed) verify(t *testing.T, d *db.DB, coll string) {
	t.Helper()
	c := d.Collection(coll)
	found := 0
	for r, err := range c.Rows(t.Context(), nil) {
		dbtest.Must(t, err)
		w, ok := want[string(r.Key)]
		if !ok || !reflect.DeepEqual(r.Attributes, w.Attributes) || !r.ExpiresAt.Equal(w.ExpiresAt) {
			t.Fatalf("row %q has %v, %v; want %v, %v", r.Key, r.Attributes, r.ExpiresAt, w.Attributes, w.ExpiresAt)
		}
		found++
	}
	if found != len(want) {
		t.Fatalf("%d rows, want %d", found, len(want))
	}
	for _, c := range []struct {
		name  string
		value any
	}{{"price", int64(10)}, {"price", 30.5}, {"brand", "b3"}} {
		want.verifyRange(t, d, coll, c.name, filter.Range(c.name, nil, c.value), attribute.Less(c.value))
		want.verifyRange(t, d, coll, c.name, filter.Eq(c.name, c.value), attribute.Equal(c.value))
	}
	dbtest.Must(t, dbtest.Check(d))
}

// verifyRange compares the rows that a filter passes with those whose attribute is in a range.
func (want attributed) verifyRange(t *testing.T, d *db.DB, coll, name string, f *filter.Filter, in attribute.Range) {
	t.Helper()
	scan := roaring.New()
	for r, err := range d.Collection(coll).Rows(t.Context(), nil) {
		dbtest.Must(t, err)
		if v, ok := r.Attributes[name]; ok && in.Contains(attribute.AppendKey(nil, v)) {
			scan.Add(r.Row)
		}
	}
	got, err := d.Collection(coll).Matching(t.Context(), f)
	dbtest.Must(t, err)
	if !got.Equals(scan) {
		t.Fatalf("%s: rows %v, want %v", f, got, scan)
	}
}

// TestAttributes puts, changes and deletes rows with attributes at random, reopens and compacts, and
// compares everything with a model.
func TestAttributes(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d := dbtest.OpenAt(t, path, nil)
	if _, err := d.Create(ctx, "c", db.Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() (map[string]any, time.Time) {
		all := map[string]any{}
		if rng.IntN(4) > 0 {
			all["price"] = []any{int64(rng.IntN(50)), rng.Float64() * 50}[rng.IntN(2)]
		}
		if rng.IntN(3) > 0 {
			all["brand"] = fmt.Sprint("b", rng.IntN(8))
		}
		if rng.IntN(50) == 0 {
			all["new"], all["seen"] = true, time.Unix(int64(rng.IntN(1e9)), 0).UTC()
		}
		if len(all) == 0 {
			all = nil
		}
		if rng.IntN(5) == 0 {
			return all, time.Unix(4e9+int64(rng.IntN(1000)), 0).UTC()
		}
		return all, time.Time{}
	}
	want := attributed{}
	for round := range 12 {
		err := d.Update(ctx, func(tx *db.Tx) error {
			c := tx.Collection("c")
			for range 700 {
				key := fmt.Sprint("k", rng.IntN(4000))
				r, exists := want[key]
				a, at := draw()
				var err error
				switch what := rng.IntN(10); {
				case what == 0 && exists:
					err = c.Delete([]byte(key))
					delete(want, key)
					if err != nil {
						return err
					}
					continue
				case what < 4 && exists:
					err = c.SetAttributes([]byte(key), a)
					r.Attributes = a
				case what == 5 && exists:
					err = c.SetExpiry([]byte(key), at)
					r.ExpiresAt = at
				default:
					r = db.Row{Key: []byte(key), Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}},
						Attributes: a, ExpiresAt: at}
					err = c.Put(r)
				}
				if err != nil {
					return err
				}
				want[key] = r
			}
			return nil
		})
		dbtest.Must(t, err)
		switch round % 4 {
		case 1:
			dbtest.Must(t, d.Close())
			d = dbtest.OpenAt(t, path, nil)
		case 3:
			dbtest.Must(t, d.Compact(ctx, nil))
		}
		want.verify(t, d, "c")
	}
	dbtest.Must(t, d.Drop(ctx, "c"))
	dbtest.Must(t, dbtest.Check(d))
}

// TestAttributesRepaired: damage in a table of attributes is an error of the filter, found by Check, and
// mended by Repair.
func TestAttributesRepaired(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d := dbtest.OpenAt(t, path, nil)
	if _, err := d.Create(ctx, "c", db.Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	want := attributed{}
	put := func(from, to int) {
		dbtest.Fill(t, d, "c", from, to, func(i int) db.Row {
			r := db.Row{Key: fmt.Append(nil, i), Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}},
				Attributes: map[string]any{"price": int64(i % 50), "brand": fmt.Sprint("b", i%5)}}
			want[string(r.Key)] = r
			return r
		})
	}
	put(0, 1500)
	put(100, 150) // replaced: their numbers are new
	dbtest.Must(t, d.Close())
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	p, ok := f.Find(layout.BucketAttributes, codec.Key(f.Catalog.Collections[0].Attribute("price").Object, codec.KindAttribute, 0))
	if !ok {
		t.Fatal("no table of the attribute")
	}
	dbtest.Flip(t, path, p.At+codec.HeaderSize)
	d = dbtest.OpenAt(t, path, nil)
	if _, err := d.Collection("c").Count(ctx, filter.Exists("price")); !errors.Is(err, db.ErrCorrupt) {
		t.Fatalf("rows of a damaged table: %v", err)
	}
	if err := d.Check(ctx, func(*db.CorruptError) {}, nil); !errors.Is(err, db.ErrCorrupt) {
		t.Fatalf("check: %v", err)
	}
	found, err := d.Repair(ctx, nil)
	if err != nil || len(found) != 1 || found[0].Collection != "c" || !errors.Is(found[0].Damage, db.ErrCorrupt) {
		t.Fatalf("repaired %+v, %v", found, err)
	}
	want.verify(t, d, "c")
}
