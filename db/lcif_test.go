package db_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// topicRow is a document of one or two topics, which are its labels: words of
// a topic are ten numbers of their own, and there is noise.
func topicRow(rng *rand.Rand, topics int) (vector.Sparse, []string) {
	counts := map[uint32]float32{}
	var names []string
	for range 1 + rng.IntN(2) {
		t := rng.IntN(topics)
		if n := fmt.Sprint("topic ", t); !slices.Contains(names, n) {
			names = append(names, n)
		}
		for range 6 {
			counts[uint32(t*10+rng.IntN(10))]++
		}
	}
	for range 4 {
		counts[uint32(topics*10+rng.IntN(50))]++
	}
	var s vector.Sparse
	for f := range uint32(topics*10 + 50) {
		if v, ok := counts[f]; ok {
			s.Index = append(s.Index, f)
			s.Value = append(s.Value, v)
		}
	}
	return s, names
}

// topicDB is a database of documents, numbered or named, and queries with
// their labels.
func topicDB(t *testing.T, named bool) (d *db.DB, rows []db.Row, queries []db.Query, truth [][]string) {
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), nil)
	dbtest.Must(t, err)
	schema := db.Schema{Sparse: true}
	if named {
		schema.Named = true
	}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", schema))
	rng := rand.New(rand.NewPCG(11, 12))
	name := func(s vector.Sparse) (out []vector.Feature) {
		for i, f := range s.Index {
			out = append(out, vector.Feature{Name: fmt.Sprint("w", f), Value: s.Value[i]})
		}
		return out
	}
	for i := range 1400 {
		x, l := topicRow(rng, 8)
		r := db.Row{Key: fmt.Append(nil, "d", i), Sparse: x, Labels: l}
		if named {
			r.Sparse, r.Features = vector.Sparse{}, name(x)
		}
		rows = append(rows, r)
	}
	dbtest.Must(t, dbtest.Put(d, "docs", rows...))
	for range 100 {
		x, l := topicRow(rng, 8)
		q := db.Query{Sparse: x}
		if named {
			q = db.Query{Features: append(name(x), vector.Feature{Name: "never seen", Value: 3})}
		}
		queries, truth = append(queries, q), append(truth, l)
	}
	return d, rows, queries, truth
}

// first is the share of queries whose best label is one of theirs.
func first(out [][]db.Prediction, truth [][]string) float64 {
	n := 0
	for i, p := range out {
		if len(p) > 0 && slices.Contains(truth[i], p[0].Label) {
			n++
		}
	}
	return float64(n) / float64(len(out))
}

func predictAll(t *testing.T, d *db.DB, queries []db.Query, o *db.PredictOptions, workers int) [][]db.Prediction {
	t.Helper()
	out, err := dbtest.PredictBatch(t.Context(), d.Collection("docs"), queries, o, workers)
	dbtest.Must(t, err)
	return out
}

func TestLCIFPredicts(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprint("named ", named), func(t *testing.T) {
			d, _, queries, truth := topicDB(t, named)
			o := &index.LCIF{Folds: 3, TuneRows: 300}
			info, err := d.Collection("docs").Build(t.Context(), "labels", o, nil)
			dbtest.Must(t, err)
			if info.LabelCurve == nil || info.Bytes["label-matrix"] == 0 || info.Bytes["feature-labels"] == 0 {
				t.Errorf("index %+v", info)
			}
			out := predictAll(t, d, queries, nil, 1)
			if p := first(out, truth); p < 0.9 {
				t.Errorf("precision of the best label is %g", p)
			}
			path := d.Path()
			if err := d.Check(t.Context(), func(p *db.CorruptError) { t.Log(p) }, nil); err != nil {
				t.Error(err)
			}
			dbtest.Must(t, d.Close())
			if d, err = db.Open(t.Context(), path, nil); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			again := predictAll(t, d, queries, nil, 3)
			for i := range out {
				if !slices.Equal(again[i], out[i]) {
					t.Fatalf("query %d: %v after reopening, %v before", i, again[i], out[i])
				}
			}
			if top := predictAll(t, d, queries[:1], &db.PredictOptions{Top: 3}, 1)[0]; len(top) != 3 || top[0].Score < top[1].Score {
				t.Errorf("top 3: %v", top)
			}
			explained := predictAll(t, d, queries[:5], &db.PredictOptions{Explain: true, Top: 2}, 1)
			for i, p := range explained[0] {
				rows, features := dbtest.Evidence(p.Why)
				var sum float64
				for _, n := range rows {
					sum += n.Score
				}
				for _, f := range features {
					sum += f.Score
					if named != (f.Feature[0] == 'w') {
						t.Errorf("feature %q", f.Feature)
					}
				}
				if math.Abs(sum-float64(p.Score)) > 1e-5 || len(rows)+len(features) == 0 {
					t.Errorf("label %d: shares sum to %g, score %g", i, sum, p.Score)
				}
			}
		})
	}
}

// TestLCIFIsThatOfMemory compares stored models with models of the query
// package over the same rows.
func TestLCIFIsThatOfMemory(t *testing.T) {
	d, rows, queries, _ := topicDB(t, false)
	defer d.Close()
	gone := []int{3, 500, 1200}
	err := d.Update(t.Context(), func(b *db.Tx) error {
		for _, i := range gone {
			if err := b.Collection("docs").Delete(rows[i].Key); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
	params := &lcif.Params{K: 7, Alpha: 1.5, Beta: 0.5, Lambda: 0.6, Top: 5}
	for _, weight := range []string{"none", "tfidf"} {
		o := &index.LCIF{Params: params, Weight: weight}
		dbtest.Builds(t, d, "docs", "labels", o)
		got := byScore(predictAll(t, d, queries, &db.PredictOptions{Top: 1000}, 2))
		b, err := labels.NewBuilder(nil)
		dbtest.Must(t, err)
		m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 130}
		df := make([]float64, 130)
		for i, r := range rows {
			if slices.Contains(gone, i) {
				m.Append(vector.Sparse{})
				b.Add(nil)
				continue
			}
			m.Append(vector.Sparse{Index: r.Sparse.Index, Value: slices.Clone(r.Sparse.Value)})
			b.Add(r.Labels)
			for _, f := range r.Sparse.Index {
				df[f]++
			}
		}
		tfidf := func(s vector.Sparse) vector.Sparse {
			if weight == "none" {
				return s
			}
			out := vector.Sparse{Index: s.Index}
			for i, f := range s.Index {
				out.Value = append(out.Value, float32((1+math.Log(float64(s.Value[i])))*math.Log(float64(len(rows)-len(gone))/df[f])))
			}
			return out
		}
		for i := range m.Rows() {
			copy(m.Row(i).Value, tfidf(m.Row(i)).Value)
		}
		view, counts, err := lcif.Build(t.Context(), m, b.Matrix(), 0, 1)
		dbtest.Must(t, err)
		dbtest.Must(t, view.SetPower(counts, params.Beta))
		names := b.Names()
		for i, q := range queries {
			want, _, err := lcif.NewPredictor().Predict(t.Context(), view, tfidf(q.Sparse), params, nil)
			dbtest.Must(t, err)
			got[i] = got[i][:min(len(got[i]), params.Top)]
			if len(want) != len(got[i]) {
				t.Fatalf("%q query %d: %v, want %v", weight, i, got[i], want)
			}
			for j, w := range want {
				// Weights are rounded in another order here.
				if math.Abs(float64(w.Score-got[i][j].Score)) > 1e-5 {
					t.Fatalf("%q query %d: %v, want %v of %v", weight, i, got[i], want, names)
				}
			}
		}
	}
}

func TestLCIFMisuse(t *testing.T) {
	d, rows, queries, _ := topicDB(t, false)
	defer d.Close()
	params := &lcif.Params{K: 5, Lambda: 0.5}
	build := func(coll string, o index.LCIF) error {
		_, err := d.Collection(coll).Build(t.Context(), "labels", &o, nil)
		return err
	}
	predict := func(coll string, q db.Query, o *db.PredictOptions) error {
		_, _, err := dbtest.Predict(t.Context(), d.Collection(coll), q, o)
		return err
	}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "bare", db.Schema{Sparse: true}))
	dbtest.Must(t, dbtest.Create(t.Context(), d, "dense", db.Schema{Dim: 2}))
	if err := build("bare", index.LCIF{Params: params}); !errors.Is(err, fail.Empty) {
		t.Errorf("no rows: %v", err)
	}
	err := d.Update(t.Context(), func(b *db.Tx) error {
		return b.Collection("bare").Put(db.Row{Key: []byte("k"), Sparse: rows[0].Sparse})
	})
	dbtest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Collection("docs").Build(ctx, "labels", &index.LCIF{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := predict("docs", queries[0], nil); !errors.Is(err, fail.NoIndex) {
		t.Errorf("no model: %v", err)
	}
	dbtest.Must(t, build("docs", index.LCIF{Params: params}))
	dbtest.Builds(t, d, "docs", "rows", nil)
	for name, c := range map[string]struct{ err, want error }{
		"no labels":     {build("bare", index.LCIF{Params: params}), db.ErrUnsuitable},
		"too few rows":  {build("bare", index.LCIF{}), db.ErrUnsuitable},
		"dense":         {build("dense", index.LCIF{Params: params}), fail.Empty},
		"weighting":     {build("docs", index.LCIF{Params: params, Weight: "x"}), fail.Option},
		"parameters":    {predict("docs", queries[0], &db.PredictOptions{Params: &lcif.Params{Lambda: 2}}), fail.Option},
		"not a model":   {predict("docs", queries[0], &db.PredictOptions{Index: "rows"}), fail.Kind},
		"no such model": {predict("docs", queries[0], &db.PredictOptions{Index: "x"}), fail.NoIndex},
		"collection":    {predict("x", queries[0], nil), fail.NoCollection},
		"dense query":   {predict("dense", queries[0], nil), fail.Kind},
		"negative": {predict("docs", db.Query{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{-1}}}, nil),
			fail.Features},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	// A search must not take the label model for an index of the rows.
	err = d.View(func(s *db.Snapshot) error {
		_, _, err := dbtest.Nearest(t.Context(), s.Collection("docs"), queries[0], 3, nil)
		if err != nil {
			return err
		}
		_, _, err = dbtest.Nearest(t.Context(), s.Collection("docs"), queries[0], 3, &db.SearchOptions{Index: "labels"})
		if !errors.Is(err, fail.Kind) {
			t.Errorf("search by the label model: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A query without evidence gets no label and the answer says so; on request it gets the labels that
// most rows have: alone and in batches, by all kinds, and after maintenance.
func TestPredictWithoutEvidence(t *testing.T) {
	d := dbtest.OpenTemp(t, nil)
	put := func(coll string, n int, label string) {
		t.Helper()
		dbtest.Fill(t, d, coll, 0, n, func(i int) db.Row {
			key := fmt.Appendf(nil, "%s%d", label, i)
			row := db.Row{Key: key, Labels: []string{label}}
			if coll == "dense" {
				row.Vector = []float32{1, float32(i%3) - 1}
			} else {
				row.Sparse = vector.Sparse{Index: []uint32{uint32(i % 5), 7}, Value: []float32{1, 1}}
			}
			return row
		})
	}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "sparse", db.Schema{Sparse: true}))
	dbtest.Must(t, dbtest.Create(t.Context(), d, "dense", db.Schema{Dim: 2}))
	models := map[string][]string{"sparse": {"labels", "sbt", "pt", "at"}, "dense": {"labels"}}
	check := func(coll string, want string, score float32) {
		t.Helper()
		q := db.Query{Sparse: vector.Sparse{Index: []uint32{900}, Value: []float32{1}}}
		if coll == "dense" {
			q = db.Query{Vector: []float32{0, 0}}
		}
		err := d.View(func(s *db.Snapshot) error {
			for _, m := range models[coll] {
				none, err := s.Collection(coll).Predict(t.Context(), q, &db.PredictOptions{Index: m, Explain: true})
				if err != nil {
					return err
				}
				if !none.Stats.NoEvidence || len(none.Labels) > 0 || none.Why != nil {
					t.Errorf("%s, %s: %+v, want no evidence and no label", coll, m, none)
				}
				o := &db.PredictOptions{Index: m, Explain: true, Frequent: true}
				got, err := s.Collection(coll).Predict(t.Context(), q, o)
				if err != nil {
					return err
				}
				if l := got.Labels; !got.Stats.NoEvidence || len(l) != 1 || l[0].Label != want ||
					l[0].Score != score || !l[0].Predicted || float32(l[0].Why.Score) != score {
					t.Errorf("%s, %s: %+v, want %s with %g", coll, m, got, want, score)
				}
				known := db.Query{Sparse: vector.Sparse{Index: []uint32{7}, Value: []float32{1}}}
				if coll == "dense" {
					known = db.Query{Vector: []float32{1, 0}}
				}
				many, err := s.Collection(coll).PredictBatch(t.Context(), []db.Query{q, known, q},
					&db.PredictOptions{Index: m, Top: 2, Frequent: true})
				if err != nil {
					return err
				}
				for i, p := range many {
					if p.Stats.NoEvidence != (i != 1) || len(p.Labels) == 0 {
						t.Errorf("%s, %s, query %d of a batch: %+v", coll, m, i, p)
					}
					if l := p.Labels; i != 1 && (len(l) != 2 || l[0].Label != want || l[0].Score != score || l[1].Predicted) {
						t.Errorf("%s, %s in a batch: %+v, want %s with %g first", coll, m, p, want, score)
					}
				}
			}
			return nil
		})
		dbtest.Must(t, err)
	}
	limits := &labels.Thresholds{Single: 0.9, KeepTop: true}
	for coll, params := range map[string]*lcif.Params{
		"sparse": {K: 3, Lambda: 0.5, Thresholds: limits}, "dense": {K: 3, Lambda: 1, Thresholds: limits},
	} {
		put(coll, 30, "often")
		put(coll, 10, "seldom")
		o := &index.LCIF{Params: params}
		dbtest.Builds(t, d, coll, "labels", o)
		if coll == "sparse" {
			trees := map[string]index.Options{"sbt": &index.Trees{Kind: "sbt"}, "pt": &index.Trees{Kind: "pt"}, "at": &index.Trees{Kind: "at"}}
			for name, o := range trees {
				dbtest.Builds(t, d, coll, name, o)
			}
		}
		check(coll, "often", 0.75)
		put(coll, 40, "seldom")
		if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
		check(coll, "seldom", float32(40)/70)
	}
}
