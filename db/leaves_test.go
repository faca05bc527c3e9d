package db_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestLeafSizesOfIndexes checks that every training point is in one leaf of each tree, also in small
// segments.
func TestLeafSizesOfIndexes(t *testing.T) {
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	c, err := d.Create(t.Context(), "c", db.Schema{Dim: 4})
	dbtest.Must(t, err)
	put := func(from, to int) {
		t.Helper()
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			for i := from; i < to; i++ {
				x := []float32{float32(i * 7 % 31), float32(i * 11 % 29), float32(i * 5 % 37), float32(i % 13)}
				r := db.Row{Key: fmt.Append(nil, i), Vector: x, Labels: []string{fmt.Sprint(i % 3)}}
				if err := tx.Collection("c").Put(r); err != nil {
					return err
				}
			}
			return nil
		})
		dbtest.Must(t, err)
	}
	put(0, 900)
	if _, err := c.Build(t.Context(), "forest", &index.Forest{Trees: 3, Depth: 5}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(t.Context(), "tree", &index.Trees{Kind: "pt"}, nil); err != nil {
		t.Fatal(err)
	}
	sum := func(index string) (n int) {
		t.Helper()
		sizes, err := c.LeafSizes(t.Context(), index)
		dbtest.Must(t, err)
		for i, size := range sizes {
			if n += size; i > 0 && size > sizes[i-1] {
				t.Fatalf("%s: sizes do not descend: %v", index, sizes)
			}
		}
		return n
	}
	forest, err := c.Index("forest")
	dbtest.Must(t, err)
	if got, want := sum("forest"), 3*forest.TrainingPoints; got != want {
		t.Errorf("forest: %d points in leaves, want %d", got, want)
	}
	if got := sum("tree"); got != 900 {
		t.Errorf("tree: %d rows in leaves, want 900", got)
	}
	put(900, 930)
	if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if got := sum("forest"); got != 3*930 {
		t.Errorf("forest: %d points after 30 more rows, want %d", got, 3*930)
	}
	if _, err := c.LeafSizes(t.Context(), "none"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("no index: %v", err)
	}
	if _, err := c.Build(t.Context(), "lcif", &index.LCIF{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.LeafSizes(t.Context(), "lcif"); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an index without trees: %v", err)
	}
}
