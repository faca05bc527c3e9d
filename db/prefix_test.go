package db_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// TestMisuseOfSparse covers sparse collections and label models: errors are
// documented, nothing changes, and no message names the package twice.
func TestMisuseOfSparse(t *testing.T) {
	b := newBed(t, vector.L2, 4)
	ctx := t.Context()
	b.Must(errors.Join(dbtest.Create(ctx, b.D, "s", db.Schema{Sparse: true}), dbtest.Create(ctx, b.D, "n", db.Schema{Named: true})))
	numbered := func(value float32, index ...uint32) db.Query {
		values := make([]float32, len(index))
		for i := range values {
			values[i] = value
		}
		return db.Query{Sparse: vector.Sparse{Index: index, Value: values}}
	}
	named := func(value float32, name string) db.Query {
		return db.Query{Features: []vector.Feature{{Name: name, Value: value}}}
	}
	b.Must(b.D.Update(ctx, func(w *db.Tx) error {
		for i := range 60 {
			r := db.Row{Key: fmt.Append(nil, i), Sparse: numbered(1, uint32(i%7), uint32(8+i%3)).Sparse, Labels: []string{fmt.Sprint(i % 3)}}
			if err := w.Collection("s").Put(r); err != nil {
				return err
			}
		}
		return w.Collection("n").Put(db.Row{Key: []byte("a"), Features: named(1, "x").Features})
	}))
	_, err := b.D.Collection("s").Build(ctx, "m", &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 1}}, nil)
	b.Must(err)
	s, err := b.D.Snapshot()
	b.Must(err)
	defer s.Release()
	search := func(coll string, q db.Query, o db.SearchOptions) func() error {
		return func() error { _, _, err := dbtest.Nearest(ctx, s.Collection(coll), q, 3, &o); return err }
	}
	predict := func(q db.Query, o db.PredictOptions) func() error {
		return func() error { _, _, err := dbtest.Predict(ctx, s.Collection("s"), q, &o); return err }
	}
	batch := func(q db.Query, o db.PredictOptions) func() error {
		return func() error {
			_, err := dbtest.PredictBatch(ctx, s.Collection("s"), []db.Query{numbered(1, 2), q}, &o, 1)
			return err
		}
	}
	put := func(coll string, r db.Row) func() error {
		return func() error { return b.D.Update(ctx, func(w *db.Tx) error { return w.Collection(coll).Put(r) }) }
	}
	dense := db.Query{Vector: []float32{1}}
	good := numbered(1, 1, 2)
	b.misuses([]misuse{
		{"negative value", search("s", numbered(-1, 3), db.SearchOptions{}), db.ErrInvalid, []string{`"s"`, "3", "-1"}},
		{"features out of order", search("s", numbered(1, 3, 2), db.SearchOptions{}), db.ErrInvalid, []string{"query"}},
		{"negative named value", search("n", named(-1, "x"), db.SearchOptions{}), db.ErrInvalid, []string{`"n"`, `"x"`}},
		{"numbers for names", search("n", good, db.SearchOptions{}), db.ErrInvalid, []string{"query", `"n"`}},
		{"names for numbers", search("s", named(1, "x"), db.SearchOptions{}), db.ErrInvalid, []string{"query", `"s"`}},
		{"vector for features", search("s", dense, db.SearchOptions{}), db.ErrInvalid, []string{"query", `"s"`}},
		{"sparse search of vectors", search("c", good, db.SearchOptions{}), db.ErrInvalid, []string{`"c"`}},
		{"no sparse index", search("s", good, db.SearchOptions{Index: "z"}), db.ErrNotFound, []string{`"z"`}},

		{"no label model", predict(good, db.PredictOptions{Index: "z"}), db.ErrNotFound, []string{`"z"`}},
		{"prediction by a negative value", predict(numbered(-1, 3), db.PredictOptions{}), db.ErrInvalid, []string{"query"}},
		{"prediction by a vector", predict(dense, db.PredictOptions{}), db.ErrInvalid, []string{"query"}},
		{"weight of features", predict(good, db.PredictOptions{Params: &lcif.Params{K: 3, Lambda: 7}}), db.ErrInvalid, []string{`"s"`}},
		{"negative value in a batch", batch(numbered(-1, 3), db.PredictOptions{}), db.ErrInvalid, []string{"query 1", "-1"}},

		{"row with a negative value", put("s", db.Row{Key: []byte("k1"), Sparse: numbered(-1, 3).Sparse}), db.ErrInvalid, []string{`"k1"`, "-1"}},
		{"row with names", put("s", db.Row{Key: []byte("k1"), Features: named(1, "x").Features}), db.ErrInvalid, []string{`"k1"`}},
		{"row with a vector", put("n", db.Row{Key: []byte("k1"), Vector: []float32{1}}), db.ErrInvalid, []string{`"k1"`}},

		{"tree of a single class", func() error {
			_, err := b.D.Collection("n").Build(ctx, "y", &index.Trees{Kind: "at"}, nil)
			return err
		}, db.ErrUnsuitable, nil},
	})
}
