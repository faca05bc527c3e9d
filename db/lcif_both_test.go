package db_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// bothRef predicts labels from the definitions, in float64: rows by number, nil for deleted ones.
type bothRef struct {
	rows   []*db.Row
	weight float64 // of the vectors, 1 for vectors only
	metric vector.Metric
	idf    map[string]float64
	k      int
	second float64
	// known are the words of the rows that the model has learned from: others count in lengths only.
	known map[string]bool
	units map[string]map[string]float64 // by text
	// unsure is set if rounding decides which rows are the nearest.
	unsure bool
}

type refNear struct {
	row  int
	both float64
}

// weights returns the words of a text as a vector of unit length. Words without a weight, which no row had,
// count in the length only without weights.
func (r *bothRef) weights(s string) map[string]float64 {
	if x := r.units[s]; x != nil {
		return x
	}
	x, sum := countsOf(strings.Fields(s)), 0.0
	for w, n := range x {
		if r.idf != nil {
			x[w] = (1 + math.Log(n)) * r.idf[w]
		}
		sum += x[w] * x[w]
	}
	for w := range x {
		x[w] /= cmp.Or(math.Sqrt(sum), 1)
	}
	r.units[s] = x
	return x
}

// nearest returns the k rows of the largest weighted sum of both cosines, among the nearest hundred by the
// text or by the metric of the vectors.
func (r *bothRef) nearest(q *db.Row, k int) (out []refNear) {
	n := len(r.rows)
	text, near, order := make([]float64, n), make([]float64, n), make([]float64, n)
	var byText, byVector []int
	words := r.weights(q.Text)
	for i, x := range r.rows {
		if x == nil {
			continue
		}
		for w, v := range r.weights(x.Text) {
			if r.known[w] {
				text[i] += v * words[w]
			}
		}
		if text[i] > 0 && r.weight < 1 {
			byText = append(byText, i)
		}
		if x.Vector != nil && q.Vector != nil && r.weight > 0 {
			near[i] = 1 - dbtest.Distance(vector.Cosine, x.Vector, q.Vector)
			order[i] = -dbtest.Distance(r.metric, x.Vector, q.Vector)
			byVector = append(byVector, i)
		}
	}
	depth := max(100, k)
	if r.weight == 1 {
		depth = k
	}
	found := map[int]bool{}
	for by, list := range map[*[]float64][]int{&text: byText, &order: byVector} {
		slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare((*by)[b], (*by)[a]), a-b) })
		r.unsure = r.unsure || len(list) > depth && (*by)[list[depth-1]]-(*by)[list[depth]] < 1e-6
		for _, i := range list[:min(depth, len(list))] {
			found[i] = true
		}
	}
	for i := range found {
		out = append(out, refNear{i, (1-r.weight)*text[i] + r.weight*max(0, near[i])})
	}
	slices.SortFunc(out, func(a, b refNear) int { return cmp.Or(cmp.Compare(b.both, a.both), a.row-b.row) })
	r.unsure = r.unsure || len(out) > k && out[k-1].both-out[k].both < 1e-6
	return out[:min(k, len(out))]
}

// predict returns the score of each label (definition 6, with the second order).
func (r *bothRef) predict(q *db.Row) map[string]float64 {
	out, sum := map[string]float64{}, 0.0
	for _, n := range r.nearest(q, r.k) {
		sum += n.both
		for _, l := range r.rows[n.row].Labels {
			out[l] += (1 - r.second) * n.both
		}
		var others []refNear
		total := 0.0
		if r.second > 0 {
			others = slices.DeleteFunc(r.nearest(r.rows[n.row], 11),
				func(o refNear) bool { return o.row == n.row || o.both == 0 })
		}
		others = others[:min(10, len(others))]
		for _, o := range others {
			total += o.both
		}
		for _, o := range others {
			for _, l := range r.rows[o.row].Labels {
				out[l] += r.second * n.both * o.both / total
			}
		}
	}
	for l := range out {
		out[l] /= sum
	}
	maps.DeleteFunc(out, func(_ string, x float64) bool { return !(x > 0) })
	return out
}

// halfRow returns a row of which one part may be missing.
func halfRow(rng *rand.Rand, i int) *db.Row {
	r := &db.Row{Key: fmt.Append(nil, "r", i),
		Labels: []string{fmt.Sprint("l", rng.IntN(6)), fmt.Sprint("m", rng.IntN(3))}}
	slices.Sort(r.Labels)
	if i%7 != 3 {
		r.Vector = normal(rng, 8)
	}
	if i%5 != 4 {
		for range 4 + rng.IntN(9) {
			r.Text += fmt.Sprint(" w", int(rng.ExpFloat64()*20))
		}
		r.Text += strings.Repeat(fmt.Sprint(" own", i), rng.IntN(30)) // few rows are equally near
	}
	return r
}

// TestLabelsByBoth compares predictions by neighbors of the vector, the text and both with the definitions:
// fresh, after changes, after maintenance, and by a filter's rows.
func TestLabelsByBoth(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, c := range []struct {
		neighbors, weight string
		share, second     float64
		metric            vector.Metric
		rows              int
	}{
		{neighbors: "both", share: 0.5, rows: 90, metric: vector.Cosine},
		{neighbors: "both", share: 0.3, rows: 350, metric: vector.L2, second: 0.4},
		{neighbors: "both", share: 0.7, rows: 300, weight: "tfidf", metric: vector.Cosine},
		{neighbors: "vector", share: 1, rows: 300, metric: vector.Cosine, second: 0.5},
		{neighbors: "text", rows: 300, metric: vector.L2},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
			dbtest.Must(t, dbtest.Create(t.Context(), d, "docs",
				db.Schema{Dim: 8, Metric: c.metric, Text: &text.Schema{}}))
			rng := rand.New(rand.NewPCG(7, uint64(c.rows)))
			ref := &bothRef{weight: c.share, metric: c.metric, k: 7, second: c.second,
				units: map[string]map[string]float64{}}
			write := func(r *db.Row) {
				t.Helper()
				for i, x := range ref.rows {
					if x != nil && string(x.Key) == string(r.Key) {
						ref.rows[i] = nil
					}
				}
				ref.rows = append(ref.rows, r)
				dbtest.Must(t, dbtest.Put(d, "docs", *r))
			}
			for i := range c.rows {
				ref.rows = append(ref.rows, halfRow(rng, i))
			}
			put(t, d, c.rows, func(i int) db.Row { return *ref.rows[i] })
			if c.weight != "" {
				ref.idf = map[string]float64{}
				for _, r := range ref.rows {
					for w := range countsOf(strings.Fields(r.Text)) {
						ref.idf[w]++
					}
				}
				for w, n := range ref.idf {
					ref.idf[w] = math.Log(float64(c.rows) / n)
				}
			}
			o := &index.LCIF{
				Neighbors: c.neighbors, Weight: c.weight,
				Params: &lcif.Params{K: ref.k, Lambda: 1, SecondOrder: c.second},
			}
			if c.neighbors == "both" {
				o.VectorWeight = c.share
			}
			dbtest.Builds(t, d, "docs", "m", o)
			check := func(when string) {
				t.Helper()
				sure := 0
				for i := range 40 {
					q := halfRow(rng, i)
					if c.weight == "" {
						q.Text += " unknown"
					}
					if c.neighbors == "text" || q.Vector == nil {
						q.Text = cmp.Or(q.Text, "w1 w2 w2 w5")
					}
					out, err := d.Collection("docs").Predict(t.Context(),
						db.Query{Text: q.Text, Vector: q.Vector}, &db.PredictOptions{Top: 100})
					dbtest.Must(t, err)
					ref.unsure = false
					want := ref.predict(q)
					if ref.unsure {
						continue
					}
					sure++
					if len(out.Labels) != len(want) || out.Stats.NoEvidence != (len(want) == 0) {
						t.Fatalf("%s, query %d: %d labels, want %d", when, i, len(out.Labels), len(want))
					}
					for _, p := range out.Labels {
						if math.Abs(float64(p.Score)-want[p.Label]) > 1e-5 {
							t.Fatalf("%s, query %d: label %s has %g, want %g", when, i, p.Label, p.Score,
								want[p.Label])
						}
					}
				}
				if sure < 3 {
					t.Errorf("%s: only %d of 40 answers are sure", when, sure)
				}
			}
			learn := func() {
				ref.known = map[string]bool{}
				for _, r := range ref.rows {
					if r == nil {
						continue
					}
					for w := range countsOf(strings.Fields(r.Text)) {
						ref.known[w] = true
					}
				}
			}
			learn()
			check("built")
			if c.weight == "" { // weights are those of the build
				for i := range 12 {
					write(halfRow(rng, i))
				}
				dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
					return errors.Join(tx.Collection("docs").Delete(ref.rows[20].Key),
						tx.Collection("docs").SetLabels(ref.rows[30].Key, "new"))
				}))
				ref.rows[20], ref.rows[30].Labels = nil, []string{"new"}
				check("changed")
				_, err := d.Maintain(t.Context(), 0, nil)
				dbtest.Must(t, err)
				learn()
				check("maintained")
			}
			dbtest.Must(t, dbtest.Check(d))
			_, err := d.Collection("docs").Predict(t.Context(), db.Query{Vector: make([]float32, 8)}, nil)
			if c.neighbors == "text" && !errors.Is(err, db.ErrInvalid) {
				t.Errorf("a vector to a model of texts: %v", err)
			}
			key, err := d.Collection("docs").Predict(t.Context(), db.Query{Key: ref.rows[60].Key},
				&db.PredictOptions{Top: 1})
			dbtest.Must(t, err)
			if want := ref.predict(ref.rows[60]); !ref.unsure && (len(key.Labels) != 1 ||
				math.Abs(float64(key.Labels[0].Score)-want[key.Labels[0].Label]) > 1e-5) {
				t.Errorf("by key: %+v, want %v", key.Labels, want)
			}
		})
	}
}

// TestTuneByBoth: the tuner measures with the neighbors that the model has, and trees of a collection of both
// learn from rows with features only.
func TestTuneByBoth(t *testing.T) {
	t.Parallel()
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs",
		db.Schema{Dim: 12, Metric: vector.Cosine, Text: &text.Schema{}}))
	rng := rand.New(rand.NewPCG(1, 2))
	put(t, d, 600, func(i int) db.Row {
		v, l := spotRow(rng, 0)
		r := db.Row{Key: fmt.Append(nil, i), Vector: v, Labels: l, Text: fmt.Sprint("n", rng.IntN(20))}
		if i%3 == 0 {
			r.Text = "" // only rows whose label a tree must not learn
			r.Labels = append(r.Labels, "silent")
		}
		return r
	})
	dbtest.Builds(t, d, "docs", "trees", &index.Forest{Trees: 6, LeafNeighbors: 20})
	for neighbors, want := range map[string][2]float64{
		"text": {0, 0.5}, "vector": {0.9, 1}, "both": {0.8, 1},
	} {
		o := &index.LCIF{Folds: 3, Neighbors: neighbors, SecondOrders: []float64{0, 0.5}}
		info, err := d.Collection("docs").Build(t.Context(), "m-"+neighbors, o, nil)
		dbtest.Must(t, err)
		if p := info.LabelCurve.Best.Precision[0]; p < want[0] || p > want[1] {
			t.Errorf("%s: precision of the first label %g, want %v", neighbors, p, want)
		}
	}
	dbtest.Builds(t, d, "docs", "at", &index.Trees{Kind: "at", Budget: 20})
	for _, q := range []string{"n1", "n2", "n3", "n99 n1"} {
		out, err := d.Collection("docs").Predict(t.Context(), db.Query{Text: q},
			&db.PredictOptions{Index: "at", Top: 10})
		dbtest.Must(t, err)
		for _, p := range out.Labels {
			if p.Label == "silent" && p.Score > 0 {
				t.Errorf("query %q: a label of rows without text has %g", q, p.Score)
			}
		}
	}
	dbtest.Must(t, dbtest.Check(d))
	refused := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for o, want := range map[*index.LCIF]string{
		{Neighbors: "trees"}:                       "finds neighbors itself",
		{Neighbors: "vector", VectorWeight: 0.5}:   "goes with",
		{Neighbors: "both", VectorWeight: 1.5}:     "VectorWeight",
		{Neighbors: "both", Weight: "standard"}:    "is for dense rows",
		{Neighbors: "both", VectorWeight: -0.0001}: "VectorWeight",
	} {
		_, err := d.Collection("docs").Build(t.Context(), "bad", o, nil)
		refused(err, want)
	}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "texts", db.Schema{Text: &text.Schema{}}))
	dbtest.Must(t, dbtest.Put(d, "texts", db.Row{Key: []byte("a"), Text: "a"},
		db.Row{Key: []byte("b"), Text: "b"}))
	_, err := d.Collection("texts").Build(t.Context(), "bad", &index.LCIF{Neighbors: "both"}, nil)
	refused(err, "has no vectors")
}
