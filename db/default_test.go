package db_test

import (
	"errors"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Searches and predictions that name no index use the first one that was built, or the one that was
// chosen, also after maintenance, compaction and reopening, and the next one once it is dropped.
func TestDefaultIndex(t *testing.T) {
	b := newBed(t, vector.L2, 3)
	b.put("a", mixture(1, 200, 3))
	ctx, q := t.Context(), db.Query{Vector: []float32{1, 2, 3}}
	forest := &db.Forest{Holdout: 20, Trees: 2}
	for _, name := range []string{"z", "y", "x"} {
		b.build(name, forest)
	}
	model := &db.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}}
	b.build("second", model)
	b.build("first", &db.Trees{Kind: "pt", Budget: 2})
	c := func() db.Collection { return b.d.Collection("c") }
	expect := func(when, search, labels string) {
		t.Helper()
		res, err := c().Search(ctx, q, nil)
		if err != nil || res.Index != search {
			t.Errorf("%s: searched %q, %v, want %q", when, res.Index, err, search)
		}
		_, err = c().Predict(ctx, q, nil)
		b.must(err)
		infos, err := c().Indexes()
		b.must(err)
		for _, x := range infos {
			if x.Default != (x.Name == search || x.Name == labels) {
				t.Errorf("%s: %q is default: %v", when, x.Name, x.Default)
			}
		}
	}
	expect("built", "z", "second")
	b.build("z", forest)
	b.put("b", mixture(2, 300, 3))
	_, err := b.d.Maintain(ctx, 0, nil)
	b.must(err)
	expect("maintained", "z", "second")
	b.must(c().SetDefault(ctx, "x"))
	b.must(c().SetDefault(ctx, "first"))
	expect("chosen", "x", "first")
	b.must(b.d.Compact(ctx, &db.CompactOptions{Reorder: true}))
	b.reopen()
	expect("reopened", "x", "first")
	b.must(c().DropIndex(ctx, "x"))
	b.must(c().DropIndex(ctx, "first"))
	expect("dropped", "z", "second")
	if err := c().SetDefault(ctx, "x"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("default of a dropped index: %v", err)
	}
	b.check()
}

// The description of a label model whose forest was dropped says that it scans.
func TestNeighborsOfDroppedForest(t *testing.T) {
	b := newBed(t, vector.L2, 3)
	b.put("a", mixture(1, 200, 3))
	b.build("main", &db.Forest{Holdout: 20, Trees: 2})
	b.build("m", &db.LCIF{Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}})
	neighbors := func() string {
		st, err := b.d.Stats()
		b.must(err)
		for _, x := range st.Indexes {
			if o, ok := x.Options.(*db.LCIF); ok {
				return o.Neighbors
			}
		}
		return ""
	}
	if n := neighbors(); n != "main" {
		t.Errorf("neighbors by %q", n)
	}
	b.must(b.d.Collection("c").DropIndex(t.Context(), "main"))
	if n := neighbors(); n != db.Flat {
		t.Errorf("neighbors by %q after its forest was dropped", n)
	}
}
