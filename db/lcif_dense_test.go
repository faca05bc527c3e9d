package db_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// spotRow is a point near one of some centres, whose number is its label; shift
// moves all coordinates.
func spotRow(rng *rand.Rand, shift float32) ([]float32, []string) {
	const dim, centres = 12, 6
	c := rng.IntN(centres)
	v := make([]float32, dim)
	for i := range v {
		v[i] = rng.Float32() + shift
	}
	v[2*c] += 2
	v[2*c+1] += 3
	return v, []string{fmt.Sprint("spot ", c)}
}

// spotDB is a dense collection of such points, and queries with their labels.
func spotDB(t *testing.T, n int, shift float32, metric vector.Metric) (*db.DB, []db.Query, [][]string) {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), nil)
	dbtest.Must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Dim: 12, Metric: metric}))
	rng := rand.New(rand.NewPCG(3, 4))
	put(t, d, n, func(i int) db.Row {
		v, l := spotRow(rng, shift)
		return db.Row{Key: fmt.Append(nil, "p", i), Vector: v, Labels: l}
	})
	var queries []db.Query
	var truth [][]string
	for range 100 {
		v, l := spotRow(rng, shift)
		queries, truth = append(queries, db.Query{Vector: v}), append(truth, l)
	}
	return d, queries, truth
}

// put writes n rows in one batch.
func put(t *testing.T, d *db.DB, n int, row func(i int) db.Row) {
	t.Helper()
	dbtest.Fill(t, d, "docs", 0, n, func(i int) db.Row {
		return row(i)
	})
}

func TestDenseLCIFPredicts(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, c := range []struct {
		name   string
		forest bool
		shift  float32
	}{{"by scanning", false, 0}, {"by a forest", true, 0}, {"negative", true, -1}} {
		t.Run(c.name, func(t *testing.T) {
			d, queries, truth := spotDB(t, 1500, c.shift, vector.L2)
			neighbors := db.Flat
			if c.forest {
				neighbors = "trees"
				dbtest.Builds(t, d, "docs", "trees", &index.Forest{Trees: 6, LeafNeighbors: 20})
			}
			o := &index.LCIF{Folds: 3, TuneRows: 300}
			info, err := d.Collection("docs").Build(t.Context(), "labels", o, nil)
			dbtest.Must(t, err)
			if info.Options.(*index.LCIF).Neighbors != neighbors || info.LabelCurve == nil {
				t.Errorf("index %+v", info.Options)
			}
			if info.Bytes["feature-labels"] == 0 {
				t.Errorf("no similarities of values from %g", c.shift)
			}
			if !reflect.DeepEqual(info.Options.(*index.LCIF).Params, &info.LabelCurve.Params) {
				t.Errorf("parameters %+v, the tuner chose %+v", info.Options.(*index.LCIF).Params, info.LabelCurve.Params)
			}
			err = d.View(func(s *db.Snapshot) error {
				stored, err := s.Collection("docs").Index("labels")
				if !reflect.DeepEqual(stored.Options.(*index.LCIF).Params, info.Options.(*index.LCIF).Params) {
					t.Errorf("stored parameters %+v, built with %+v", stored.Options.(*index.LCIF).Params, info.Options.(*index.LCIF).Params)
				}
				return err
			})
			dbtest.Must(t, err)
			check := func() [][]db.Prediction {
				t.Helper()
				out := predictAll(t, d, queries, nil, 1)
				if p := first(out, truth); p < 0.95 {
					t.Errorf("precision of the best label is %g", p)
				}
				if err := d.Check(t.Context(), func(p *db.CorruptError) { t.Log(p) }, nil); err != nil {
					t.Error(err)
				}
				return out
			}
			out := check()
			if again := predictAll(t, d, queries, nil, 3); !equalPredictions(out, again) {
				t.Error("predictions depend on the number of goroutines")
			}
			path := d.Path()
			dbtest.Must(t, d.Close())
			if d, err = db.Open(t.Context(), path, nil); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if again := check(); !equalPredictions(out, again) {
				t.Error("predictions differ after reopening")
			}
			for i, p := range predictAll(t, d, queries[:5], &db.PredictOptions{Explain: true, Params: &lcif.Params{K: 9, Lambda: 1}}, 1) {
				rows, _ := dbtest.Evidence(p[0].Why)
				if len(rows) == 0 || rows[0].Key[0] != 'p' || math.Abs(p[0].Why.Score-float64(p[0].Score)) > 1e-5 {
					t.Errorf("query %d: %+v of %+v", i, p[0].Why, p[0])
				}
			}
			if c.forest {
				// Without its forest the model scans.
				dbtest.Must(t, d.Collection("docs").DropIndex(t.Context(), "trees"))
				check()
			}
		})
	}
}

// byScore orders predictions by score, then by name, without their probabilities, which depend on the held-out rows.
func byScore(list [][]db.Prediction) [][]db.Prediction {
	for _, found := range list {
		for i := range found {
			found[i].Probability = 0
		}
		slices.SortFunc(found, func(a, b db.Prediction) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Label, b.Label))
		})
	}
	return list
}

func equalPredictions(a, b [][]db.Prediction) bool {
	return slices.EqualFunc(a, b, slices.Equal[[]db.Prediction])
}

// By cosine, dense rows without negative values are sparse rows with all
// features: the same labels with the same scores.
func TestDenseLCIFIsSparse(t *testing.T) {
	d, queries, _ := spotDB(t, 400, 0, vector.Cosine)
	params := &lcif.Params{K: 7, Alpha: 2, Beta: 1.5, Lambda: 0.6, Thresholds: &labels.Thresholds{Single: 0.1}}
	o := &index.LCIF{Params: params}
	dbtest.Builds(t, d, "docs", "labels", o)
	dbtest.Must(t, dbtest.Create(t.Context(), d, "sparse", db.Schema{Sparse: true}))
	err := d.View(func(s *db.Snapshot) error {
		return d.Update(t.Context(), func(b *db.Tx) error {
			for r, err := range s.Collection("docs").Rows(t.Context(), nil) {
				if err != nil {
					return err
				}
				if err := b.Collection("sparse").Put(db.Row{Key: r.Key, Sparse: kind.Listed(r.Vector), Labels: r.Labels}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	dbtest.Must(t, err)
	dbtest.Builds(t, d, "sparse", "labels", o)
	err = d.View(func(s *db.Snapshot) error {
		for _, q := range queries {
			got, _, err := dbtest.Predict(t.Context(), s.Collection("docs"), q, nil)
			if err != nil {
				return err
			}
			want, _, err := dbtest.Predict(t.Context(), s.Collection("sparse"), db.Query{Sparse: kind.Listed(q.Vector)}, nil)
			if err != nil {
				return err
			}
			same := slices.EqualFunc(got, want, func(a, b db.Prediction) bool {
				return a.Label == b.Label && math.Abs(float64(a.Score-b.Score)) < 1e-6
			})
			if !same || len(got) == 0 {
				t.Errorf("dense %v, sparse %v", got, want)
			}
		}
		return nil
	})
	dbtest.Must(t, err)
}

func TestDenseLCIFResolve(t *testing.T) {
	d, queries, _ := spotDB(t, 300, -1, vector.L2)
	dbtest.Builds(t, d, "docs", "untuned", &index.Forest{Trees: 2, LeafNeighbors: 5, NoTune: true})
	for name, o := range map[string]index.LCIF{
		"second order":     {SecondOrders: []float64{0, 1.5}},
		"weights":          {Weight: "tfidf"},
		"selected":         {FeatureShares: []float64{0.5}},
		"features":         {Params: &lcif.Params{K: 3, Lambda: 1, Features: 4}},
		"untuned forest":   {Neighbors: "untuned"},
		"no such forest":   {Neighbors: "nonsense"},
		"neighbours of it": {Neighbors: "labels"},
	} {
		_, err := d.Collection("docs").Build(t.Context(), "labels", &o, nil)
		if !errors.Is(err, fail.Option) && !errors.Is(err, fail.NoIndex) {
			t.Errorf("%s: %v", name, err)
		}
	}
	info, err := d.Collection("docs").Build(t.Context(), "labels", &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 1}}, nil)
	if err != nil || info.Options.(*index.LCIF).Neighbors != db.Flat {
		t.Fatalf("%+v, %v", info.Options.(*index.LCIF), err)
	}
	err = d.View(func(s *db.Snapshot) error {
		if _, _, err := dbtest.Nearest(t.Context(), s.Collection("docs"), db.Query{Vector: queries[0].Vector}, 3, &db.SearchOptions{Index: "labels"}); !errors.Is(err, fail.Kind) {
			t.Errorf("rows from a label model: %v", err)
		}
		return nil
	})
	dbtest.Must(t, err)
}

// Rows written since the build are neighbours as if the model had been built
// with them, deleted ones are gone, and old snapshots see what they saw.
func TestFreshRowsAreNeighbors(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, kind := range []string{"sparse", "dense", "forest"} {
		t.Run(kind, func(t *testing.T) {
			var d *db.DB
			var queries []db.Query
			rng := rand.New(rand.NewPCG(8, 9))
			next := func() db.Row {
				v, l := spotRow(rng, 0)
				return db.Row{Vector: v, Labels: l}
			}
			if kind == "sparse" {
				d, _, queries, _ = topicDB(t, false)
				defer d.Close()
				next = func() db.Row {
					x, l := topicRow(rng, 8)
					return db.Row{Sparse: x, Labels: l}
				}
			} else {
				d, queries, _ = spotDB(t, 1400, 0, vector.Cosine)
			}
			if kind == "forest" {
				dbtest.Builds(t, d, "docs", "trees", &index.Forest{Trees: 8, LeafNeighbors: 20})
			}
			params := &lcif.Params{K: 5, Lambda: 1, Thresholds: &labels.Thresholds{PerLabel: make([]float64, 30), Single: 0.1}}
			build := func(name string) {
				t.Helper()
				dbtest.Builds(t, d, "docs", name, &index.LCIF{Params: params})
			}
			build("old")
			old, err := d.Snapshot()
			dbtest.Must(t, err)
			defer old.Release()
			before, err := dbtest.PredictBatch(t.Context(), old.Collection("docs"), queries, &db.PredictOptions{Index: "old"}, 2)
			dbtest.Must(t, err)
			// More than a chunk of sparse rows, so that some are sealed; some in
			// place of old ones; and labels that the model does not know.
			for round := range 3 {
				put(t, d, 700, func(i int) db.Row {
					r := next()
					r.Key = fmt.Append(nil, "d", 100*round+i)
					if i%3 == 0 {
						r.Labels = append(r.Labels, fmt.Sprint("new ", round))
					}
					return r
				})
				err := d.Update(t.Context(), func(b *db.Tx) error {
					for i := range 100 {
						if err := b.Collection("docs").Delete(fmt.Append(nil, "d", 200*round+i)); err != nil && !errors.Is(err, fail.NoRow) {
							return err
						}
					}
					return nil
				})
				dbtest.Must(t, err)
				got := predictAll(t, d, queries, &db.PredictOptions{Index: "old"}, 2)
				build("rebuilt")
				want := predictAll(t, d, queries, &db.PredictOptions{Index: "rebuilt"}, 1)
				fresh := 0
				byScore(got)
				byScore(want)
				for i := range want {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("round %d, query %d: %v, a new model says %v", round, i, got[i], want[i])
					}
					if slices.ContainsFunc(got[i], func(p db.Prediction) bool { return p.Label == fmt.Sprint("new ", round) }) {
						fresh++
					}
				}
				if fresh == 0 {
					t.Error("no fresh label is predicted")
				}
			}
			again, err := dbtest.PredictBatch(t.Context(), old.Collection("docs"), queries, &db.PredictOptions{Index: "old"}, 2)
			if err != nil || !equalPredictions(before, again) {
				t.Errorf("the old snapshot answers otherwise now, %v", err)
			}
			if err := d.Check(t.Context(), func(p *db.CorruptError) { t.Log(p) }, nil); err != nil {
				t.Error(err)
			}
			path := d.Path()
			now := predictAll(t, d, queries, &db.PredictOptions{Index: "old"}, 2)
			old.Release()
			dbtest.Must(t, d.Close())
			if d, err = db.Open(t.Context(), path, nil); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if again := predictAll(t, d, queries, &db.PredictOptions{Index: "old"}, 2); !equalPredictions(now, again) {
				t.Error("predictions differ after reopening")
			}
		})
	}
}

// TestNegativeCoordinateIsMaintained writes a row with a negative coordinate behind
// a model of rows without one. Feature scores take the coordinate as zero; nothing
// stops maintenance, with the forest of the neighbours or without.
func TestNegativeCoordinateIsMaintained(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		o    index.LCIF
	}{
		{"given", index.LCIF{Params: &lcif.Params{K: 9, Lambda: 0.4, Thresholds: &labels.Thresholds{Single: 0.2}}}},
		{"tuned", index.LCIF{Folds: 3, TuneRows: 200}},
	} {
		for _, dropped := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, dropped), func(t *testing.T) {
				d, queries, truth := spotDB(t, 400, 0, vector.L2)
				dbtest.Builds(t, d, "docs", "trees", &index.Forest{Trees: 2, LeafNeighbors: 8})
				built, err := d.Collection("docs").Build(t.Context(), "labels", &c.o, nil)
				dbtest.Must(t, err)
				rng := rand.New(rand.NewPCG(5, 5))
				put(t, d, 300, func(i int) db.Row {
					v, l := spotRow(rng, 0)
					if i%2 == 0 {
						v[rng.IntN(len(v))] = -1
					}
					return db.Row{Key: fmt.Append(nil, "later", i), Vector: v, Labels: l}
				})
				for i := range queries {
					queries[i].Vector[i%12] -= 1
				}
				if dropped {
					dbtest.Must(t, d.Collection("docs").DropIndex(t.Context(), "trees"))
				}
				if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
					t.Fatal(err)
				}
				o := index.LCIF{Params: built.Options.(*index.LCIF).Params, Neighbors: built.Options.(*index.LCIF).Neighbors}
				if dropped {
					o.Neighbors = db.Flat
				}
				dbtest.Builds(t, d, "docs", "rebuilt", &o)
				kept := predictAll(t, d, queries, &db.PredictOptions{Index: "labels", Top: 100}, 2)
				if p := first(kept, truth); p < 0.9 {
					t.Errorf("precision of the best label is %g", p)
				}
				rebuilt := predictAll(t, d, queries, &db.PredictOptions{Index: "rebuilt", Top: 100}, 1)
				for _, list := range append(byScore(kept), byScore(rebuilt)...) {
					for i := range list {
						list[i].Predicted = false // the rebuilt model has thresholds of its own
					}
				}
				if !equalPredictions(kept, rebuilt) {
					t.Error("the maintained model predicts otherwise than a rebuilt one")
				}
				err = d.View(func(s *db.Snapshot) error {
					info, err := s.Collection("docs").Index("labels")
					if info.Rows != 700 {
						t.Errorf("the model covers %d rows", info.Rows)
					}
					if info.Options.(*index.LCIF).Neighbors != o.Neighbors {
						t.Errorf("neighbours by %q", info.Options.(*index.LCIF).Neighbors)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRelearnWithoutForest relearns a model whose forest was dropped: it scans.
func TestRelearnWithoutForest(t *testing.T) {
	d, queries, truth := spotDB(t, 400, 0, vector.L2)
	dbtest.Builds(t, d, "docs", "trees", &index.Forest{Trees: 2, LeafNeighbors: 8})
	dbtest.Builds(t, d, "docs", "labels", plainModel(""))
	dbtest.Must(t, d.Collection("docs").DropIndex(t.Context(), "trees"))
	err := d.Update(t.Context(), func(b *db.Tx) error {
		for i := range 200 {
			if err := b.Collection("docs").Delete(fmt.Append(nil, "p", i)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
	// Half of the rows are deleted, so that they are renumbered.
	dbtest.Must(t, d.Compact(t.Context(), nil))
	err = d.View(func(s *db.Snapshot) error {
		info, err := s.Collection("docs").Index("labels")
		if info.Rows != 200 || info.Options.(*index.LCIF).Neighbors != db.Flat {
			t.Errorf("%d rows, neighbours by %q", info.Rows, info.Options.(*index.LCIF).Neighbors)
		}
		return err
	})
	dbtest.Must(t, err)
	if p := first(predictAll(t, d, queries, nil, 1), truth); p < 0.9 {
		t.Errorf("precision of the best label is %g", p)
	}
}
