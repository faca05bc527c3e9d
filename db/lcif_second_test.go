package db_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// secondRow is a row of the tests of second-order scores, of either kind.
type secondRow struct {
	x      []float64
	labels []string
}

func (r secondRow) cosine(o secondRow) float64 {
	var dot, a, b float64
	for i := range r.x {
		dot, a, b = dot+r.x[i]*o.x[i], a+r.x[i]*r.x[i], b+o.x[i]*o.x[i]
	}
	return max(0, dot/math.Sqrt(a*b))
}

// nearestOf is the k rows nearest to q but one, by definition 5, and by how much
// they are nearer than the next one.
func nearestOf(q secondRow, rows map[string]secondRow, k int, but string) (keys []string, gap float64) {
	for key := range rows {
		if key != but {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		if x, y := q.cosine(rows[a]), q.cosine(rows[b]); x != y {
			return int(math.Copysign(1, y-x))
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	return keys[:k], q.cosine(rows[keys[k-1]]) - q.cosine(rows[keys[k]])
}

// bySecondOrder is the score of a label: definition 6 with the labels of
// neighbours, and with the score by definition 6 of each neighbour itself. It is
// not clear where rounding decides which rows are the nearest.
func bySecondOrder(q secondRow, rows map[string]secondRow, label string, p *lcif.Params, degree int) (s float64, clear bool) {
	clear = true
	score := func(q secondRow, k int, but string, of func(key string) float64) float64 {
		sum, total := 0.0, 0.0
		keys, gap := nearestOf(q, rows, k, but)
		clear = clear && gap > 1e-5
		for _, key := range keys {
			w := math.Pow(q.cosine(rows[key]), p.Alpha)
			sum, total = sum+w*of(key), total+w
		}
		return sum / total
	}
	has := func(key string) float64 {
		if slices.Contains(rows[key].labels, label) {
			return 1
		}
		return 0
	}
	s = score(q, p.K, "", func(key string) float64 {
		return (1-p.SecondOrder)*has(key) + p.SecondOrder*score(rows[key], degree, key, has)
	})
	return s, clear
}

// secondCase is a kind of rows and how they are weighed.
type secondCase struct {
	sparse bool
	weight string
}

var secondCases = []secondCase{{weight: "none"}, {weight: "standard"}, {true, "none"}}

func (c secondCase) String() string { return fmt.Sprintf("sparse %v, weight %s", c.sparse, c.weight) }

// secondDB is a collection of random rows and its model of second-order scores.
type secondDB struct {
	*db.DB
	secondCase
	rng  *rand.Rand
	rows map[string]secondRow
	next int
}

// secondDegree is the number of nearest rows that second-order scores use.
const secondDegree = 10

var secondParams = &lcif.Params{K: 6, Alpha: 1.5, Lambda: 1, SecondOrder: 0.4, Top: 5}

func newSecondDB(t *testing.T, c secondCase) *secondDB {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), nil)
	dbtest.Must(t, err)
	g := &secondDB{DB: d, secondCase: c, rng: rand.New(rand.NewPCG(4, 7)), rows: map[string]secondRow{}}
	if c.sparse {
		_, err = d.Create(t.Context(), "docs", db.Schema{Sparse: true})
	} else {
		_, err = d.Create(t.Context(), "docs", db.Schema{Dim: 8, Metric: vector.Cosine})
	}
	dbtest.Must(t, err)
	g.put(t, 150)
	o := &index.LCIF{Params: secondParams, Weight: c.weight}
	dbtest.Builds(t, d, "docs", "labels", o)
	return g
}

// random is a row with values above zero, so that all cosines are.
func (g *secondDB) random() (secondRow, db.Query) {
	r, q := secondRow{}, db.Query{}
	for f := range uint32(8) {
		v := float32(0.05 + g.rng.ExpFloat64())
		r.x = append(r.x, float64(v))
		if g.sparse {
			q.Sparse.Index, q.Sparse.Value = append(q.Sparse.Index, f), append(q.Sparse.Value, v)
		} else {
			q.Vector = append(q.Vector, v)
		}
	}
	for l := range 5 {
		if r.x[l] > 1.2 {
			r.labels = append(r.labels, fmt.Sprint("l", l))
		}
	}
	return r, q
}

func (g *secondDB) put(t *testing.T, n int) {
	t.Helper()
	put(t, g.DB, n, func(int) db.Row {
		r, q := g.random()
		key := fmt.Sprint("k", g.next)
		g.next++
		g.rows[key] = r
		return db.Row{Key: []byte(key), Vector: q.Vector, Sparse: q.Sparse, Labels: r.labels}
	})
}

func (g *secondDB) delete(t *testing.T, from, n int) {
	t.Helper()
	err := g.Update(t.Context(), func(b *db.Tx) error {
		for i := from; i < from+n; i++ {
			key := fmt.Sprint("k", i)
			delete(g.rows, key)
			if err := b.Collection("docs").Delete([]byte(key)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
}

// scaling returns how the model compares rows: as they are, or scaled as it says.
func (g *secondDB) scaling(t *testing.T) func(secondRow) secondRow {
	t.Helper()
	scale := storedScale(t, g.DB, "docs")
	if (scale != nil) != (g.weight == "standard") {
		t.Fatalf("weight %q: scale %+v", g.weight, scale)
	}
	return func(r secondRow) secondRow {
		if scale == nil {
			return r
		}
		x := make([]float64, len(r.x))
		for i := range x {
			x[i] = (r.x[i] - float64(scale.Mean[i])) * float64(scale.Factor[i])
		}
		return secondRow{x, r.labels}
	}
}

// check compares predictions and explanations with the definition.
func (g *secondDB) check(t *testing.T) {
	t.Helper()
	indirect, compared := 0, 0
	scaled, rows := g.scaling(t), map[string]secondRow{}
	for key, r := range g.rows {
		rows[key] = scaled(r)
	}
	for range 30 {
		r, q := g.random()
		out := predictAll(t, g.DB, []db.Query{q}, &db.PredictOptions{Top: 5, Explain: true}, 1)[0]
		if len(out) == 0 {
			t.Fatal("nothing is predicted")
		}
		for _, p := range out {
			if want, clear := bySecondOrder(scaled(r), rows, p.Label, secondParams, secondDegree); clear {
				if compared++; math.Abs(float64(p.Score)-want) > 1e-5 {
					t.Fatalf("label %q has the score %g, by definition %g", p.Label, p.Score, want)
				}
			}
			sum := 0.0
			near, _ := dbtest.Evidence(p.Why)
			for _, n := range near {
				sum += n.Score
				if len(n.Parts) > 0 && n.Parts[0].Text == "its own nearest rows" {
					indirect++
				}
			}
			if math.Abs(sum-float64(p.Score)) > 1e-5 {
				t.Fatalf("shares of label %q add up to %g of %g", p.Label, sum, p.Score)
			}
		}
	}
	if indirect == 0 || compared < 50 {
		t.Errorf("%d rows explain an indirect share, %d scores are compared", indirect, compared)
	}
	dbtest.Must(t, g.Check(t.Context(), func(p *db.CorruptError) { t.Log(p) }, nil))
}

// TestSecondOrder builds, maintains, reopens and compacts models with second-order
// scores: they are those of the definition over the rows that there are.
func TestSecondOrder(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, c := range secondCases {
		t.Run(c.String(), func(t *testing.T) {
			g := newSecondDB(t, c)
			defer func() { _ = g.Close() }()
			g.check(t)
			maintain := func() {
				t.Helper()
				if _, err := g.Maintain(t.Context(), 0, nil); err != nil {
					t.Fatal(err)
				}
			}
			g.put(t, 40)
			maintain()
			g.check(t)
			g.delete(t, 0, 20)
			maintain()
			g.check(t)
			g.put(t, 3)
			g.delete(t, 140, 25)
			maintain()
			path := g.Path()
			dbtest.Must(t, g.Close())
			var err error
			if g.DB, err = db.Open(t.Context(), path, nil); err != nil {
				t.Fatal(err)
			}
			g.check(t)
			// Enough to renumber the rows.
			g.delete(t, 50, 80)
			dbtest.Must(t, g.Compact(t.Context(), nil))
			g.check(t)
		})
	}
}

// TestSecondOrderTuned tunes the weight of second-order scores, where the label of
// a row is that of the rows near it and its own is often missing.
func TestSecondOrderTuned(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	d, queries, truth := spotDB(t, 300, 0, vector.L2)
	o := &index.LCIF{Folds: 3, TuneRows: 100, SecondOrders: []float64{0.5}}
	info, err := d.Collection("docs").Build(t.Context(), "labels", o, nil)
	dbtest.Must(t, err)
	tried := slices.ContainsFunc(info.LabelCurve.Points, func(p lcif.Point) bool { return p.SecondOrder == 0.5 })
	if !tried {
		t.Error("the weight was not tried")
	}
	if share := first(predictAll(t, d, queries, nil, 1), truth); share < 0.95 {
		t.Errorf("precision of the best label is %g", share)
	}
	if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	// The thresholds of a given setting are those of its second-order scores.
	o.Params, o.Cut = &lcif.Params{K: 3, Lambda: 1, SecondOrder: 0.5}, &lcif.Cut{Share: 1}
	o.SecondOrders = nil
	for _, o.Weight = range []string{"none", "standard"} {
		if info, err = d.Collection("docs").Build(t.Context(), "labels", o, nil); err != nil {
			t.Fatal(err)
		}
		p, points := info.Options.(*index.LCIF).Params, info.LabelCurve.Points
		if len(points) != 1 || points[0].SecondOrder != 0.5 || p.Thresholds == nil || p.SecondOrder != 0.5 {
			t.Errorf("%s: measured %+v, parameters %+v", o.Weight, points, p)
		}
	}
}
