package db

import (
	"bytes"
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
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/vector"
)

// attributed is what a test expects of a collection: attributes and expiry by key.
type attributed map[string]Row

// verify compares all rows, and the rows of every attribute, with the expected ones.
func (want attributed) verify(t *testing.T, d *DB, coll string) {
	t.Helper()
	c := d.Collection(coll)
	found := 0
	for r, err := range c.Rows(t.Context(), nil) {
		must(t, err)
		w, ok := want[string(r.Key)]
		if !ok || !reflect.DeepEqual(r.Attributes, w.Attributes) || !r.ExpiresAt.Equal(w.ExpiresAt) {
			t.Fatalf("row %q has %v, %v; want %v, %v", r.Key, r.Attributes, r.ExpiresAt, w.Attributes, w.ExpiresAt)
		}
		found++
	}
	if found != len(want) {
		t.Fatalf("%d rows, want %d", found, len(want))
	}
	for _, name := range []string{"price", "brand", "none"} {
		for _, v := range []any{int64(10), 30.5, "b3"} {
			want.verifyRange(t, d, coll, name, attribute.AtMost(v))
			want.verifyRange(t, d, coll, name, attribute.Equal(v))
		}
	}
	must(t, mustCheck(d))
}

// verifyRange compares the rows that the tables of an attribute give with a scan.
func (want attributed) verifyRange(t *testing.T, d *DB, coll, name string, in attribute.Range) {
	t.Helper()
	scan := roaring.New()
	c := d.Collection(coll)
	for r, err := range c.Rows(t.Context(), nil) {
		must(t, err)
		if v, ok := r.Attributes[name]; ok && in.Contains(attribute.AppendKey(nil, v)) {
			scan.Add(r.Row)
		}
	}
	err := c.read(context.Background(), func(st *state.Collection) error {
		got, err := st.AttributeRows(name, []attribute.Range{in})
		if err == nil {
			if err = st.Load(context.Background()); err == nil && st.DeletedSet() != nil {
				got.AndNot(st.DeletedSet())
			}
		}
		if err == nil && !got.Equals(scan) {
			err = fmt.Errorf("attribute %q in %q: rows %v, want %v", name, in, got, scan)
		}
		return err
	})
	must(t, err)
}

// TestAttributes puts, changes and deletes rows with attributes at random, reopens and compacts, and
// compares everything with a model.
func TestAttributes(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d := openAt(t, path, nil)
	if _, err := d.Create(ctx, "c", Schema{Sparse: true}); err != nil {
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
		err := d.Update(ctx, func(tx *Tx) error {
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
					r = Row{Key: []byte(key), Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}},
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
		must(t, err)
		switch round % 4 {
		case 1:
			must(t, d.Close())
			d = openAt(t, path, nil)
		case 3:
			must(t, d.Compact(ctx, nil))
		}
		want.verify(t, d, "c")
	}
	must(t, d.Drop(ctx, "c"))
	must(t, mustCheck(d))
}

// TestAttributesSalvaged: a salvaged database has the attributes of all rows.
func TestAttributesSalvaged(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	d := openAt(t, filepath.Join(dir, "a.anndb"), nil)
	c, err := d.Create(ctx, "c", Schema{Dim: 1})
	must(t, err)
	want := attributed{}
	err = d.Update(ctx, func(tx *Tx) error {
		for i := range 20 {
			r := Row{Key: fmt.Append(nil, i), Vector: []float32{float32(i)},
				Attributes: map[string]any{"price": int64(i)}, ExpiresAt: time.Unix(5e9, 0).UTC()}
			want[string(r.Key)] = r
			if err := tx.Collection("c").Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	r, err := c.Get([]byte("3"))
	if err != nil || !bytes.Equal(r.Key, []byte("3")) {
		t.Fatal(r, err)
	}
	must(t, d.Close())
	to := filepath.Join(dir, "b.anndb")
	if _, err := Salvage(ctx, filepath.Join(dir, "a.anndb"), to, nil); err != nil {
		t.Fatal(err)
	}
	want.verify(t, openAt(t, to, nil), "c")
}

// TestExpire: maintenance deletes the rows that have expired, and no others.
func TestExpire(t *testing.T) {
	ctx := context.Background()
	d := openTemp(t, nil)
	c, err := d.Create(ctx, "c", Schema{Dim: 1})
	must(t, err)
	now := time.Now()
	err = d.Update(ctx, func(tx *Tx) error {
		for i := range 9000 {
			r := Row{Key: fmt.Append(nil, i), Vector: []float32{float32(i)}}
			switch i % 3 {
			case 0:
				r.ExpiresAt = now.Add(-time.Second)
			case 1:
				r.ExpiresAt = now.Add(time.Hour)
			}
			if err := tx.Collection("c").Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	// A row that has replaced an expired one stays.
	err = d.Update(ctx, func(tx *Tx) error {
		return tx.Collection("c").Put(Row{Key: []byte("3"), Vector: []float32{3}, ExpiresAt: now.Add(time.Hour)})
	})
	must(t, err)
	steps, err := d.Maintain(ctx, 0, nil)
	if err != nil || len(steps) != 1 || steps[0].Action != "expire" || steps[0].Rows != 2999 {
		t.Fatalf("steps %+v, %v", steps, err)
	}
	if n, err := c.Count(t.Context(), nil); err != nil || n != 6001 {
		t.Fatal(n, err)
	}
	if r, err := c.Get([]byte("3")); err != nil || !r.ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Fatal(r, err)
	}
	must(t, mustCheck(d))
}

// TestAttributesRepaired: damage in a table of attributes is an error of the filter, found by Check, and
// mended by Repair.
func TestAttributesRepaired(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d := openAt(t, path, nil)
	if _, err := d.Create(ctx, "c", Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	want := attributed{}
	put := func(from, to int) {
		err := d.Update(ctx, func(tx *Tx) error {
			for i := from; i < to; i++ {
				r := Row{Key: fmt.Append(nil, i), Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}},
					Attributes: map[string]any{"price": int64(i % 50), "brand": fmt.Sprint("b", i%5)}}
				want[string(r.Key)] = r
				if err := tx.Collection("c").Put(r); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
	put(0, 1500)
	put(100, 150) // replaced: their numbers are new
	object := d.Collection("c")
	var key [codec.KeySize]byte
	must(t, object.read(context.Background(), func(st *state.Collection) error {
		key = codec.Key(st.Entry.Attribute("price").Object, codec.KindAttribute, 0)
		return nil
	}))
	must(t, d.Close())
	flipValue(t, path, layout.BucketAttributes, key)
	d = openAt(t, path, nil)
	err := d.Collection("c").read(context.Background(), func(st *state.Collection) error {
		_, err := st.AttributeRows("price", []attribute.Range{attribute.All()})
		return err
	})
	if !errors.Is(err, ErrCorrupt) {
		t.Fatalf("rows of a damaged table: %v", err)
	}
	if err := d.Check(ctx, func(*CorruptError) {}, nil); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("check: %v", err)
	}
	found, err := d.Repair(ctx, nil)
	if err != nil || len(found) != 1 || found[0].Collection != "c" || !errors.Is(found[0].Damage, ErrCorrupt) {
		t.Fatalf("repaired %+v, %v", found, err)
	}
	want.verify(t, d, "c")
}
