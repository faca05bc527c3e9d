package db_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// labelModels are options of each kind of label model.
func labelModels() map[string]index.Options {
	return map[string]index.Options{
		"lcif": &index.LCIF{Folds: 3}, "given": &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}},
		"labeltree": &index.LabelTree{}, "at": &index.Trees{Kind: "at"}, "pt": &index.Trees{Kind: "pt"},
		"sbt": &index.Trees{Kind: "sbt"}, "auto-labels": &index.Auto{},
	}
}

// shapeRow is a row of a group that most of its features tell.
func shapeRow(i, group int, dense bool, labels ...string) db.Row {
	r := db.Row{Key: fmt.Append(nil, i), Labels: labels}
	x := make([]float32, 24)
	x[group%8*2], x[group%8*2+1], x[16+i%8] = 2, 1, 1
	if dense {
		r.Vector = x
		return r
	}
	for f, v := range x {
		if v > 0 {
			r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, uint32(f)), append(r.Sparse.Value, v)
		}
	}
	return r
}

// TestLabelShapes: labels of unusual shapes are learned from, or refused with a documented error: one label on
// all rows, labels of one row each, rows without labels, one row with a label. Queries without a feature that a
// model knows get no labels, and a label that appears by relabelling only, and then by maintenance, is answered.
func TestLabelShapes(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for name, shape := range map[string]struct {
		labels func(i int) []string
		never  []string // the kinds that refuse such rows
		best   string   // of the first row, if known
	}{
		"one on all rows": {func(int) []string { return []string{"a"} }, []string{"at", "pt", "sbt"}, "a"},
		"a row each":      {func(i int) []string { return []string{fmt.Sprint("l", i)} }, nil, ""},
		"half without": {func(i int) []string {
			return [][]string{nil, {"b"}, nil, {"d"}}[i%4]
		}, []string{"sbt"}, ""},
		"one row with":      {func(i int) []string { return []string{"a"}[:max(0, 1-i)] }, []string{"sbt"}, ""},
		"all and their own": {func(i int) []string { return []string{"all", fmt.Sprint("l", i)} }, []string{"sbt"}, "all"},
	} {
		for _, dense := range []bool{false, true} {
			t.Run(fmt.Sprint(name, dense), func(t *testing.T) {
				t.Parallel()
				d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
				schema := db.Schema{Sparse: true}
				if dense {
					schema = db.Schema{Dim: 24}
				}
				dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", schema))
				for i := range 72 {
					dbtest.Must(t, dbtest.Put(d, "docs", shapeRow(i, i%4, dense, shape.labels(i)...)))
				}
				c := d.Collection("docs")
				var built []string
				for kind, o := range labelModels() {
					_, err := c.Build(t.Context(), kind, o, nil)
					checkDocumented(t, "build "+kind, err)
					if (err != nil) != slices.Contains(shape.never, kind) {
						t.Errorf("%s: %v", kind, err)
					}
					if err == nil {
						built = append(built, kind)
					}
				}
				for _, kind := range built {
					askShape(t, c, kind, dense, shape.best)
				}
				// A label that the models do not know, on rows that they do, and on later ones.
				dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error {
					return b.Collection("docs").SetLabels([]byte("1"), "late")
				}))
				dbtest.Must(t, dbtest.Put(d, "docs", shapeRow(100, 1, dense, "later"), shapeRow(101, 6, dense, "later")))
				for _, kind := range built {
					askShape(t, c, kind, dense, "")
				}
				_, err := d.Maintain(t.Context(), 0, nil)
				checkDocumented(t, "maintain", err)
				for _, kind := range built {
					askShape(t, c, kind, dense, "")
				}
				dbtest.Must(t, dbtest.Check(d))
			})
		}
	}
}

// askShape asks a model about the first row, and about features that no row has.
func askShape(t *testing.T, c db.Collection, model string, dense bool, best string) {
	t.Helper()
	known, unknown := shapeRow(0, 0, dense), vector.Sparse{Index: []uint32{900}, Value: []float32{1}}
	q, other := db.Query{Vector: known.Vector, Sparse: known.Sparse}, db.Query{Sparse: unknown}
	if dense {
		other = db.Query{Vector: make([]float32, 24)}
	}
	for _, o := range []db.PredictOptions{
		{}, {Top: 3}, {Top: 1, Set: true}, {MinProbability: 0.9}, {Recall: 0.5}, {Explain: true}, {Frequent: true},
	} {
		o.Index = model
		p, err := c.Predict(t.Context(), q, &o)
		checkDocumented(t, fmt.Sprintf("%s: predict %+v", model, o), err)
		if err == nil && best != "" && o.MinProbability == 0 && (len(p.Labels) == 0 || p.Labels[0].Label != best) {
			t.Errorf("%s: %+v: labels %+v, want %q first", model, o, p.Labels, best)
		}
		p, err = c.Predict(t.Context(), other, &o)
		checkDocumented(t, fmt.Sprintf("%s: predict %+v of nothing", model, o), err)
		if err == nil && !dense && !o.Frequent && (len(p.Labels) > 0 || !p.Stats.NoEvidence) {
			t.Errorf("%s: %+v: labels %+v of unknown features, %+v", model, o, p.Labels, p.Stats)
		}
		for _, l := range p.Labels {
			if !(l.Probability >= 0 && l.Probability <= 1) || l.Score != l.Score {
				t.Errorf("%s: %+v", model, l)
			}
		}
	}
	if _, err := c.Predict(t.Context(), q, &db.PredictOptions{Index: model, Top: 3, Recall: 2}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("%s: a recall of 2: %v", model, err)
	}
}

// TestManyLabels: 100,000 labels of one row each are written in one transaction, learned from by models whose parameters are
// given, changed, and found again.
func TestManyLabels(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const n, each = 20_000, 5
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Sparse: true}))
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([]db.Row, n)
	for i := range rows {
		rows[i] = db.Row{Key: fmt.Append(nil, i), Sparse: dbtest.RandomSparse(rng, 5, 500)}
		for j := range each {
			rows[i].Labels = append(rows[i].Labels, fmt.Sprintf("l%05d", (i*each+j)*7919%(n*each)))
		}
	}
	dbtest.Must(t, dbtest.Put(d, "docs", rows...))
	c := d.Collection("docs")
	dbtest.Builds(t, d, "docs", "lcif", &index.LCIF{Weight: "none", Params: &lcif.Params{K: 1, Lambda: 1, Top: each}})
	ask := func(i int) (out []string) {
		p, err := c.Predict(t.Context(), db.Query{Sparse: rows[i].Sparse}, nil)
		dbtest.Must(t, err)
		for _, l := range p.Labels {
			out = append(out, l.Label)
		}
		slices.Sort(out)
		return out
	}
	for _, i := range []int{0, 77, n - 1} {
		want := slices.Sorted(slices.Values(rows[i].Labels))
		if got := ask(i); !slices.Equal(got, want) {
			t.Errorf("row %d: %v, want %v", i, got, want)
		}
	}
	dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error {
		return b.Collection("docs").SetLabels([]byte("77"), "late")
	}))
	if got := ask(77); !slices.Contains(got, "late") {
		t.Errorf("relabelled row: %v", got)
	}
	counts, err := c.Labels()
	if err != nil || len(counts) != n*each-each+1 {
		t.Errorf("%d labels, %v", len(counts), err)
	}
	dbtest.Must(t, dbtest.Check(d))
}
