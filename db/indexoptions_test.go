package db_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// optionsBed returns a database with labelled rows in the dense collection "c" and the sparse "s".
func optionsBed(t *testing.T) *bed {
	b := newBed(t, vector.L2, 6)
	b.Must(dbtest.Create(t.Context(), b.D, "s", db.Schema{Sparse: true}))
	b.Must(b.D.Update(t.Context(), func(tx *db.Tx) error {
		for i, x := range dbtest.Mixture(1, 60, 6) {
			key, label := fmt.Appendf(nil, "key-%d", i), []string{fmt.Sprint("l", i%2)}
			sparse := vector.Sparse{Index: []uint32{uint32(i % 2), 2 + uint32(i%3)}, Value: []float32{1, 2}}
			err := errors.Join(tx.Collection("c").Put(db.Row{Key: key, Vector: x, Labels: label}),
				tx.Collection("s").Put(db.Row{Key: key, Sparse: sparse, Labels: label}))
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return b
}

// TestIndexOptions builds every kind of index with its zero value, nil and nil pointers, and
// again with the options that the index was built with, which are then the same.
func TestIndexOptions(t *testing.T) {
	t.Parallel()
	b := optionsBed(t)
	model := &lcif.Params{K: 3, Lambda: 0.5}
	for _, c := range []struct {
		coll string
		o    index.Options
		kind string
	}{
		{"c", nil, "kd"}, {"c", &index.Forest{Seed: 3}, "kd"},
		{"c", (*index.Forest)(nil), "kd"}, {"c", &index.Forest{Learner: "rp", NoSketches: true}, "rp"},
		{"c", &index.Forest{NoRotation: true, NoLists: true, NoTune: true, Members: true, NoTables: true}, "kd"},
		{"s", nil, "postings"}, {"s", (*index.Postings)(nil), "postings"},
		{"s", &index.Postings{}, "postings"},
		{"s", (*index.LCIF)(nil), "lcif"}, {"c", &index.LCIF{Params: model, Seed: 2}, "lcif"},
		{"c", &index.Trees{Kind: "sbt"}, "sbt"}, {"s", &index.Trees{Kind: "pt"}, "pt"}, {"s", (*index.Trees)(nil), "at"},
		{"s", (*index.Auto)(nil), "auto-labels"}, {"c", &index.Auto{Objective: lcif.MacroF1}, "auto-labels"},
		{"s", &index.Trees{Kind: "at", Budget: 7, AllowEmpty: true, Seed: 5}, "at"},
	} {
		build := func(o index.Options) index.Info {
			t.Helper()
			info, err := b.D.Collection(c.coll).Build(t.Context(), "x", o, nil)
			if err != nil {
				t.Fatalf("%s, %T %+v: %v", c.coll, o, o, err)
			}
			return info
		}
		info := build(c.o)
		if info.Kind != c.kind {
			t.Errorf("%s, %T: built %q, want %q", c.coll, c.o, info.Kind, c.kind)
		}
		if again := build(info.Options); !reflect.DeepEqual(again.Options, info.Options) {
			t.Errorf("%T %+v, built again with %+v", info.Options, info.Options, again.Options)
		}
	}
	info, err := b.D.Collection("s").Index("x")
	if o := info.Options.(*index.Trees); err != nil || o.Budget != 7 || o.Seed != 5 || !o.AllowEmpty {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestBuildLimits: a collection of few rows takes less than the largest options.
func TestBuildLimits(t *testing.T) {
	const dim = 6
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 40, dim))
	info := b.Build("x", &index.Forest{
		LeafNeighbors: 4096, ListNeighbors: 1024, Holdout: 100_000, Coordinates: dim,
	})
	o := info.Options.(*index.Forest)
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
	if _, err := b.D.Collection("c").Build(t.Context(), "model", &index.LCIF{Params: params, Folds: 1000}, nil); errors.Is(err, db.ErrInvalid) {
		t.Errorf("1,000 folds: %v", err)
	}
	b.Check()
}
