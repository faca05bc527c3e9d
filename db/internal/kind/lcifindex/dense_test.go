package lcifindex_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Neighbors of dense rows are the nearest ones by the metric, by a scan and by a forest, and their
// similarities are cosines, whatever the metric. A filter leaves the nearest rows that pass.
func TestDenseNeighbors(t *testing.T) {
	const n, dim, k = 600, 8, 10
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
		dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: dim, Metric: metric}))
		rng := rand.New(rand.NewPCG(1, uint64(metric)))
		rows := make([]db.Row, n)
		for i := range rows {
			x := make([]float32, dim)
			for j := range x {
				x[j] = 5 + float32(rng.NormFloat64())
			}
			rows[i] = db.Row{Key: fmt.Append(nil, i), Vector: x, Labels: []string{"all"}}
			if i%3 == 0 {
				rows[i].Labels = append(rows[i].Labels, "third")
			}
		}
		dbtest.Must(t, dbtest.Put(d, "c", rows...))
		params := &lcif.Params{K: k, Lambda: 1}
		dbtest.Builds(t, d, "c", "scan", &index.LCIF{Params: params})
		dbtest.Builds(t, d, "c", "trees", &index.Forest{})
		dbtest.Builds(t, d, "c", "forest", &index.LCIF{Params: params, Neighbors: "trees"})
		thirds := filter.HasLabel("third")
		distances := map[vector.Metric]func(a, b []float32) float32{
			vector.L2: vector.L2Squared, vector.Cosine: vector.CosineDistance,
			vector.InnerProduct: func(a, b []float32) float32 { return -vector.Dot(a, b) },
		}
		for i := range 30 {
			x := rows[i*7].Vector
			distance := func(row int) float64 { return float64(distances[metric](x, rows[row].Vector)) }
			for _, where := range []*filter.Filter{nil, thirds} {
				var want []int
				for row := range n {
					if where == nil || row%3 == 0 {
						want = append(want, row)
					}
				}
				slices.SortFunc(want, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
				for _, model := range []string{"scan", "forest"} {
					p, err := d.Collection("c").Predict(t.Context(), db.Query{Vector: x}, &db.PredictOptions{
						Index: model, Explain: true, Where: where, Top: 2,
					})
					dbtest.Must(t, err)
					all := slices.IndexFunc(p.Labels, func(l db.Prediction) bool { return l.Label == "all" })
					found, _ := dbtest.Evidence(p.Labels[all].Why)
					hits := 0
					for _, f := range found {
						var row int
						fmt.Sscan(string(f.Key), &row)
						cosine := 1 - float64(vector.CosineDistance(x, rows[row].Vector))
						if math.Abs(f.Value-cosine) > 1e-5 {
							t.Errorf("%v, %s: row %d has the similarity %v, want %v",
								metric, model, row, f.Value, cosine)
						}
						if slices.Contains(want[:k], row) {
							hits++
						}
					}
					least := map[string]int{"scan": k, "forest": k - 2}[model]
					if len(found) != k || hits < least {
						t.Errorf("%v, %s, query %d: %d neighbors, %d of the %d nearest",
							metric, model, i, len(found), hits, k)
					}
				}
			}
		}
	}
}

// A file that is cut while a label model is built is an error, also on several goroutines, not the end of the
// process.
func TestCutWhileBuilt(t *testing.T) {
	const dim = 64
	path := filepath.Join(t.TempDir(), "cut.anndb")
	d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: dim}))
	rng := rand.New(rand.NewPCG(3, 3))
	var rows []db.Row
	for i := range 1025 { // labels are read up to the last report
		x := make([]float32, dim)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		rows = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: x, Labels: []string{fmt.Sprint(i % 3)}})
	}
	dbtest.Must(t, dbtest.Put(d, "c", rows...))
	whole, err := os.ReadFile(path)
	dbtest.Must(t, err)
	for _, c := range []struct {
		o     index.Options
		stage string
		done  int
	}{
		{&index.LCIF{Weight: "none"}, "neighbours", 0}, {&index.LCIF{Weight: "standard"}, "neighbours", 0},
		{&index.LabelTree{}, "read", 1024},
	} {
		cut := func(stage string, done, _ int) {
			if stage == c.stage && done >= c.done {
				dbtest.Must(t, os.Truncate(path, 2*layout.PageSize))
			}
		}
		_, err := d.Collection("c").Build(t.Context(), "x", c.o, &db.Run{Workers: 2, Progress: cut})
		if !errors.Is(err, db.ErrCorrupt) {
			t.Errorf("%+v: %v", c.o, err)
		}
		dbtest.Must(t, os.WriteFile(path, whole, 0o600))
	}
}
