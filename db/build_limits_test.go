package db_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// TestBuildLimits: options that no collection can honor are errors that name the
// value and the limit; the limits themselves are taken, and a collection of few
// rows takes less.
func TestBuildLimits(t *testing.T) {
	const dim = 6
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 40, dim))
	b.Must(dbtest.Create(t.Context(), b.D, "sparse", db.Schema{Sparse: true}))
	folds := func(n int) *db.Trees { return &db.Trees{Kind: "at", Grid: &budget.Grid{Folds: n}} }
	for _, c := range []struct {
		coll string
		o    db.IndexOptions
		want []string
	}{
		{"c", &db.Forest{LeafNeighbors: 4097}, []string{"4097", "4096"}},
		{"c", &db.Forest{LeafNeighbors: math.MaxInt}, []string{"4096"}},
		{"c", &db.Forest{ListNeighbors: 1025}, []string{"1025", "1024"}},
		{"c", &db.Forest{Holdout: 100_001}, []string{"100001", "100000"}},
		{"c", &db.Forest{Coordinates: 7}, []string{"7", "6", `"c"`}},
		{"c", &db.Forest{Learner: "rf", Coordinates: 5000}, []string{"5000", "6", `"c"`}},
		{"c", &db.Forest{Candidates: 7}, []string{"7", "6", `"c"`}},
		{"c", &db.LCIF{Folds: 1001}, []string{"1001", "1000"}},
		{"sparse", &db.LCIF{Folds: 1001}, []string{"1001", "1000"}},
		{"c", folds(1001), []string{"1001", "1000"}},
		{"sparse", &db.Forest{LeafNeighbors: 5000}, []string{"5000", "4096"}},
	} {
		_, err := b.D.Collection(c.coll).Build(t.Context(), "x", c.o, nil)
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%q, %v: %v", c.coll, c.want, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %q in it", err, w)
			}
		}
	}
	b.Must(dbtest.LeavesNothing(b.D))
	info := b.Build("x", &db.Forest{LeafNeighbors: 4096, ListNeighbors: 1024, Holdout: 100_000, Coordinates: dim, Candidates: dim})
	o := info.Options.(*db.Forest)
	if o.LeafNeighbors != 40 || o.ListNeighbors != 39 || o.Holdout != 4 || o.Coordinates != dim {
		t.Errorf("resolved to %+v", o)
	}
	// What was resolved can be given to another build, and stays good for a
	// collection that shrinks.
	b.Build("y", info.Options)
	for _, r := range []string{"a1", "a2", "a3", "a4", "a5"} {
		b.Drop(r)
	}
	err := b.D.Compact(t.Context(), nil)
	b.Must(err)
	params := &lcif.Params{K: 3}
	if _, err := b.D.Collection("c").Build(t.Context(), "model", &db.LCIF{Params: params, Folds: 1000}, nil); errors.Is(err, db.ErrInvalid) {
		t.Errorf("1,000 folds: %v", err)
	}
	b.Check()
}
