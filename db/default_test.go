package db_test

import (
	"errors"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Searches and predictions that name no index use the first one that was built, or the one that was
// chosen, also after maintenance, compaction and reopening, and the next one once it is dropped.
func TestDefaultIndex(t *testing.T) {
	dbtest.Whole(t)
	b := newBed(t, vector.L2, 3)
	b.Put("a", dbtest.Mixture(1, 200, 3))
	ctx, q := t.Context(), db.Query{Vector: []float32{1, 2, 3}}
	forest := &index.Forest{Holdout: 20, Trees: 2}
	for _, name := range []string{"z", "y", "x"} {
		b.Build(name, forest)
	}
	model := &index.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}}
	b.Build("second", model)
	b.Build("first", &index.Trees{Kind: "pt", Budget: 2})
	c := func() db.Collection { return b.D.Collection("c") }
	expect := func(when, search, labels string) {
		t.Helper()
		res, err := c().Search(ctx, q, nil)
		if err != nil || res.Index != search {
			t.Errorf("%s: searched %q, %v, want %q", when, res.Index, err, search)
		}
		_, err = c().Predict(ctx, q, nil)
		b.Must(err)
		infos, err := c().Indexes()
		b.Must(err)
		for _, x := range infos {
			if x.Default != (x.Name == search || x.Name == labels) {
				t.Errorf("%s: %q is default: %v", when, x.Name, x.Default)
			}
		}
	}
	expect("built", "z", "second")
	b.Build("z", forest)
	b.Put("b", dbtest.Mixture(2, 300, 3))
	_, err := b.D.Maintain(ctx, 0, nil)
	b.Must(err)
	expect("maintained", "z", "second")
	b.Must(c().SetDefault(ctx, "x"))
	b.Must(c().SetDefault(ctx, "first"))
	expect("chosen", "x", "first")
	b.Must(b.D.Compact(ctx, &db.CompactOptions{Reorder: true}))
	b.Reopen()
	expect("reopened", "x", "first")
	b.Must(c().DropIndex(ctx, "x"))
	b.Must(c().DropIndex(ctx, "first"))
	expect("dropped", "z", "second")
	if err := c().SetDefault(ctx, "x"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("default of a dropped index: %v", err)
	}
	b.Check()
}

// The description of a label model whose forest was dropped says that it scans.
func TestNeighborsOfDroppedForest(t *testing.T) {
	b := newBed(t, vector.L2, 3)
	b.Put("a", dbtest.Mixture(1, 200, 3))
	b.Build("main", &index.Forest{Holdout: 20, Trees: 2})
	b.Build("m", &index.LCIF{Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}})
	neighbors := func() string {
		st, err := b.D.Stats()
		b.Must(err)
		for _, x := range st.Indexes {
			if o, ok := x.Options.(*index.LCIF); ok {
				return o.Neighbors
			}
		}
		return ""
	}
	if n := neighbors(); n != "main" {
		t.Errorf("neighbors by %q", n)
	}
	b.Must(b.D.Collection("c").DropIndex(t.Context(), "main"))
	if n := neighbors(); n != db.Flat {
		t.Errorf("neighbors by %q after its forest was dropped", n)
	}
}
