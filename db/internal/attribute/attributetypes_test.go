package attribute_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
)

// typedRow is a row with one attribute.
func typedRow(key, name string, value any) db.Row {
	return db.Row{Key: []byte(key), Vector: []float32{1}, Attributes: map[string]any{name: value}}
}

// TestAttributeTypes: an attribute has values of one type, that of the first one, until a compaction
// that renumbers rows finds no row with it. A transaction with another type changes nothing.
func TestAttributeTypes(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d := dbtest.OpenAt(t, path, nil)
	if _, err := d.Create(ctx, "c", db.Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := dbtest.Put(d, "c", typedRow("a", "n", 1), typedRow("b", "n", 1.5), typedRow("c", "s", "x"),
		typedRow("d", "t", now), typedRow("e", "b", true)); err != nil {
		t.Fatal(err)
	}
	refused := func(want string, rows ...db.Row) {
		t.Helper()
		err := dbtest.Put(d, "c", rows...)
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	for range 2 {
		refused(`collection "c": key "z": "n" is a number, and here a string`, typedRow("z", "n", "1"))
		refused(`key "z": "s" is a string, and here a bool`, typedRow("y", "n", 7), typedRow("z", "s", false))
		refused(`key "a": "b" is a bool, and here a time`, typedRow("a", "b", now))
		refused(`key "z": "new" is a time, and here a number`, typedRow("y", "new", now), typedRow("z", "new", 3))
		err := d.Update(ctx, func(tx *db.Tx) error {
			return tx.Collection("c").SetAttributes([]byte("a"), map[string]any{"t": 3})
		})
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), `key "a": "t" is a time, and here a number`) {
			t.Errorf("SetAttributes: %v", err)
		}
		dbtest.Must(t, d.Close())
		d = dbtest.OpenAt(t, path, nil)
	}
	info, err := d.Collection("c").Info()
	if n, counted := d.Collection("c").Count(ctx, nil); n != 5 || counted != nil || err != nil ||
		strings.Join(info.Attributes, " ") != "b n s t" {
		t.Errorf("%d rows, %v, attributes %q", n, errors.Join(err, counted), info.Attributes)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		c := tx.Collection("c")
		return errors.Join(c.Delete([]byte("c")), c.Delete([]byte("d")), c.Delete([]byte("e")))
	})
	dbtest.Must(t, err)
	refused(`"s" is a string`, typedRow("c", "s", 3))
	dbtest.Must(t, d.Compact(ctx, nil))
	if err := dbtest.Put(d, "c", typedRow("c", "s", 3)); err != nil {
		t.Errorf("after a compaction: %v", err)
	}
	if err := dbtest.Check(d); err != nil {
		t.Error(err)
	}
}

// TestEmptyFilter: in a collection without rows a filter on any attribute selects none.
func TestEmptyFilter(t *testing.T) {
	d := dbtest.OpenTemp(t, nil)
	c, err := d.Create(t.Context(), "c", db.Schema{Dim: 1})
	dbtest.Must(t, err)
	for range 2 {
		for _, f := range []*filter.Filter{filter.Eq("n", 1), filter.Eq("n", "x"), filter.Exists("none")} {
			res, err := c.Search(t.Context(), db.Query{Vector: []float32{1}}, &db.SearchOptions{Where: f})
			n, counted := c.Count(t.Context(), f)
			if len(res.Hits) > 0 || n > 0 || err != nil || counted != nil {
				t.Errorf("%s: %d hits, %d rows, %v", f, len(res.Hits), n, errors.Join(err, counted))
			}
		}
		dbtest.Must(t, dbtest.Put(d, "c", typedRow("a", "n", 1)))
		err := d.Update(t.Context(), func(tx *db.Tx) error { return tx.Collection("c").Delete([]byte("a")) })
		dbtest.Must(t, err)
	}
}

// TestCheckAttributeTypes: Check reports rows whose attribute has another type than the catalog says.
func TestCheckAttributeTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.anndb")
	d := dbtest.OpenAt(t, path, nil)
	if _, err := d.Create(t.Context(), "c", db.Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	dbtest.Must(t, dbtest.Put(d, "c", typedRow("a", "n", 1)))
	dbtest.Must(t, d.Close())
	file, err := bbolt.Open(path, 0o600, nil)
	dbtest.Must(t, err)
	err = file.Update(func(tx *bbolt.Tx) error {
		cat, err := layout.ReadCatalog(tx)
		if err != nil {
			return err
		}
		cat.Collections[0].Attributes[0].Type = "string"
		return layout.WriteCatalog(tx, cat)
	})
	dbtest.Must(t, errors.Join(err, file.Close()))
	d = dbtest.OpenAt(t, path, nil)
	if err := dbtest.Check(d); !errors.Is(err, db.ErrCorrupt) || !strings.Contains(err.Error(), `attribute "n"`) {
		t.Error(err)
	}
}
