package forestindex_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// TestIndexOverFewRows: where there are too few rows for the tuner, searches by
// the index are exact, until there are enough and maintenance has tuned it.
func TestIndexOverFewRows(t *testing.T) {
	t.Parallel()
	const dim = 6
	queries := dbtest.Mixture(2, 20, dim)
	for n, kind := range map[int]forest.Kind{1: "", 2: forest.RF, 5: forest.KD, 9: forest.RF} {
		t.Run(fmt.Sprintf("%d rows, kind %q", n, kind), func(t *testing.T) {
			b := dbtest.NewBed(t, vector.L2, dim)
			b.Put("a", dbtest.Mixture(1, n, dim))
			o := &index.Forest{Learner: string(kind), Holdout: 30, LeafNeighbors: 7}
			if info := b.Build("x", o); info.Curve != nil || info.Options.(*index.Forest).NoTune {
				t.Errorf("curve %v, options %+v", info.Curve, info.Options)
			}
			exact := func(recall float64) {
				for _, q := range queries {
					hits, _ := b.Search(q, 3, &db.SearchOptions{Recall: recall})
					b.Same(q, hits, b.Exact(q, nil)[:min(3, len(b.Rows))], nil)
				}
			}
			exact(0)
			exact(0.5)
			b.Reopen()
			exact(0)
			// Still too few.
			steps, err := b.D.Maintain(t.Context(), 0, nil)
			b.Must(err)
			if len(steps) > 0 {
				t.Fatalf("steps %v without a change", steps)
			}
			b.Put("b", dbtest.Mixture(3, 9-n, dim))
			_, err = b.D.Maintain(t.Context(), 0, nil)
			b.Must(err)
			exact(0)

			b.Put("c", dbtest.Mixture(4, 400, dim))
			steps, err = b.D.Maintain(t.Context(), 1000, &db.Run{Workers: 2})
			b.Must(err)
			if len(steps) != 1 || steps[0].Action != "relearn" {
				t.Fatalf("steps %v, want one that learns it again", steps)
			}
			var info index.Info
			b.Must(b.D.View(func(s *db.Snapshot) (err error) {
				info, err = s.Collection("c").Index("x")
				return err
			}))
			// An eighth of the queries shapes the schedule.
			if info.Curve == nil || info.Curve.Queries != 26 || info.Options.(*index.Forest).LeafNeighbors != 7 || info.Maintained.IsZero() {
				t.Fatalf("maintained: curve %v, options %+v", info.Curve, info.Options)
			}
			_, stats := b.Search(queries[0], 3, &db.SearchOptions{Recall: 0.5})
			if stats.Leaves == 0 {
				t.Error("no tree was searched after the tuning")
			}
			// On 30 queries the tuner measures a recall of 0.9 with an error of 0.05.
			if r := b.Recall(queries, 10, &db.SearchOptions{Recall: 0.99}); r < 0.9 {
				t.Errorf("recall %.3f after the tuning", r)
			}
			steps, err = b.D.Maintain(t.Context(), 0, nil)
			b.Must(err)
			for _, step := range steps {
				if step.Action != "measure" { // by the queries of this test
					t.Errorf("steps %v when all is done", steps)
				}
			}
			b.Check()
		})
	}
}

// TestTenthRowTunes: ten rows are enough for the tuner, nine are not, and the
// tenth is a change that maintenance sees.
func TestTenthRowTunes(t *testing.T) {
	const dim = 4
	b := dbtest.NewBed(t, vector.Cosine, dim)
	b.Put("a", dbtest.Mixture(1, 9, dim))
	b.Build("x", nil)
	b.Put("b", dbtest.Mixture(2, 1, dim))
	steps, err := b.D.Maintain(t.Context(), 0.9, nil)
	b.Must(err)
	if len(steps) != 1 || steps[0].Action != "relearn" {
		t.Fatalf("steps %v", steps)
	}
	// Compaction that gives rows new numbers builds it again, too.
	b2 := dbtest.NewBed(t, vector.L2, dim)
	b2.Put("a", dbtest.Mixture(1, 8, dim))
	b2.Build("x", nil)
	b2.Drop("a0", "a1", "a2", "a3", "a4")
	err = b2.D.Compact(t.Context(), nil)
	b2.Must(err)
	q := dbtest.Mixture(3, 1, dim)[0]
	hits, _ := b2.Search(q, 10, nil)
	b2.Same(q, hits, b2.Exact(q, nil), nil)
}

// TestMoreThanThereIs: a k above the number of rows, empty collections and empty
// batches are no errors: every search returns what there is.
func TestMoreThanThereIs(t *testing.T) {
	const dim = 3
	ctx := t.Context()
	q := []float32{1, -2, 3}
	sparse := db.Query{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}}}
	for _, n := range []int{0, 1, 20} {
		b := dbtest.NewBed(t, vector.L2, dim)
		b.Must(dbtest.Create(ctx, b.D, "s", db.Schema{Sparse: true}))
		b.Put("a", dbtest.Mixture(1, max(n, 12), dim))
		dbtest.Fill(t, b.D, "s", 0, max(n, 1), func(i int) db.Row {
			x := vector.Sparse{Index: []uint32{1, 2 + uint32(i%3)}, Value: []float32{1, float32(i + 1)}}
			return db.Row{Key: fmt.Appendf(nil, "s%d", i), Sparse: x, Labels: []string{"l"}}
		})
		b.Build("x", &index.Forest{Members: true})
		for name, o := range map[string]index.Options{
			"postings": nil, "lcif": &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 0.5}},
		} {
			_, err := b.D.Collection("s").Build(ctx, name, o, nil)
			b.Must(err)
		}
		for i := n; i < max(n, 12); i++ {
			b.Drop(fmt.Sprintf("a%d", i))
		}
		if n == 0 {
			b.Must(b.D.Update(ctx, func(w *db.Tx) error { return w.Collection("s").Delete([]byte("s0")) }))
		}
		b.Must(b.D.View(func(s *db.Snapshot) error {
			for _, k := range []int{n + 1, 100, math.MaxInt} {
				for name, o := range map[string]*db.SearchOptions{
					"default": nil, "flat": {Index: db.Flat}, "recall": {Recall: 0.8},
					"natural": {Params: &query.Params{Sketch: true}},
					"beam":    {Params: &query.Params{Sketch: true, Beam: 20}},
					"lookup":  {Params: &query.Params{Method: query.Lookup, Sketch: true}},
					"range":   {Radius: new(1e9)}, "flat range": {Radius: new(1e9), Index: db.Flat},
				} {
					hits, _, err := dbtest.Nearest(ctx, s.Collection("c"), db.Query{Vector: q}, k, o)
					b.Must(err)
					if o == nil || o.Radius == nil || o.Index == db.Flat {
						b.Same(q, hits, b.Exact(q, nil), nil)
					}
					many, err := dbtest.NearestBatch(ctx, s.Collection("c"), [][]float32{q, q}, k, o, 2)
					if err != nil || len(many) != 2 || len(many[1]) != len(hits) {
						t.Errorf("%d rows, k %d, %s: batch %d, %v", n, k, name, len(many), err)
					}
				}
				for _, index := range []string{db.Flat, "postings"} {
					hits, _, err := dbtest.Nearest(ctx, s.Collection("s"), sparse, k, &db.SearchOptions{Index: index})
					if err != nil || len(hits) != n {
						t.Errorf("%d rows, k %d, sparse by %s: %d hits, %v", n, k, index, len(hits), err)
					}
				}
				if _, _, err := dbtest.Nearest(ctx, s.Collection("s"), sparse, k, &db.SearchOptions{Index: "postings"}); err != nil {
					t.Errorf("%d rows, k %d: %v", n, k, err)
				}
				got, _, err := dbtest.Predict(ctx, s.Collection("s"), sparse, &db.PredictOptions{Top: k})
				if err != nil || len(got) > 1 {
					t.Errorf("%d rows: the %d best labels of one are %v, %v", n, k, got, err)
				}
				batch, err := dbtest.PredictBatch(ctx, s.Collection("s"), []db.Query{sparse, sparse}, &db.PredictOptions{Top: k}, 2)
				if err != nil || len(batch) != 2 || len(batch[0]) != len(got) {
					t.Errorf("%d rows: batch of predictions %v, %v", n, batch, err)
				}
			}
			if out, err := dbtest.NearestBatch(ctx, s.Collection("c"), nil, 10, nil, 0); err != nil || len(out) != 0 {
				t.Errorf("empty batch: %v, %v", out, err)
			}
			if out, err := dbtest.PredictBatch(ctx, s.Collection("s"), nil, nil, 0); err != nil || len(out) != 0 {
				t.Errorf("empty batch of predictions: %v, %v", out, err)
			}
			return nil
		}))
	}
}
