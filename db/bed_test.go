package db_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

var (
	must         = db.MustForTest
	create       = db.CreateForTest
	nearest      = db.NearestForTest
	nearestInto  = db.NearestIntoForTest
	nearestBatch = db.NearestBatchForTest
	predict      = db.PredictForTest
	predictBatch = db.PredictBatchForTest
	treePath     = db.TreePathForTest
	reporting    = db.ReportingForTest
)

type progress = db.ProgressForTest

// bed is a database with one collection, "c", and an account of its own of
// what that must hold, which answers are compared with.
type bed struct {
	t      testing.TB
	path   string
	d      *db.DB
	metric vector.Metric
	dim    int
	rows   map[string][]float32
	labels map[string][]string
}

func newBed(t testing.TB, metric vector.Metric, dim int) *bed {
	t.Helper()
	b := &bed{
		t: t, path: filepath.Join(t.TempDir(), "x.anndb"), metric: metric, dim: dim,
		rows: map[string][]float32{}, labels: map[string][]string{},
	}
	b.open()
	t.Cleanup(func() { b.d.Close() })
	b.must(create(t.Context(), b.d, "c", db.Schema{Dim: dim, Metric: metric}))
	return b
}

func (b *bed) open() {
	b.t.Helper()
	d, err := db.Open(context.Background(), b.path, &db.Options{NoSync: true})
	b.must(err)
	b.d = d
}

func (b *bed) reopen() {
	b.t.Helper()
	b.must(b.d.Close())
	b.open()
}

func (b *bed) must(err error) {
	b.t.Helper()
	must(b.t, err)
}

// put writes rows under the keys prefix0, prefix1, ... in one batch.
func (b *bed) put(prefix string, rows [][]float32) {
	b.t.Helper()
	b.must(b.d.Update(b.t.Context(), func(w *db.Tx) error {
		for i, x := range rows {
			key := fmt.Sprintf("%s%d", prefix, i)
			labels := []string{fmt.Sprintf("mod%d", i%3)}
			if i%50 == 0 {
				labels = append(labels, "rare")
			}
			if err := w.Collection("c").Put(db.Row{Key: []byte(key), Vector: x, Labels: labels}); err != nil {
				return err
			}
			b.rows[key], b.labels[key] = x, labels
		}
		return nil
	}))
}

func (b *bed) drop(keys ...string) {
	b.t.Helper()
	b.must(b.d.Update(b.t.Context(), func(w *db.Tx) error {
		for _, k := range keys {
			if err := w.Collection("c").Delete([]byte(k)); err != nil {
				return err
			}
			delete(b.rows, k)
			delete(b.labels, k)
		}
		return nil
	}))
}

func (b *bed) build(name string, o db.IndexOptions) db.IndexInfo {
	b.t.Helper()
	info, err := b.d.Collection("c").Build(b.t.Context(), name, o, nil)
	b.must(err)
	return info
}

func (b *bed) search(q []float32, k int, o *db.SearchOptions) (hits []db.Hit, stats db.SearchStats) {
	b.t.Helper()
	b.must(b.d.View(func(s *db.Snapshot) (err error) {
		hits, stats, err = nearest(b.t.Context(), s.Collection("c"), db.Query{Vector: q}, k, o)
		return err
	}))
	return hits, stats
}

// check fails on any damage, and on blocks that belong to nothing.
func (b *bed) check() {
	b.t.Helper()
	b.must(b.d.Check(b.t.Context(), func(p *db.CorruptError) { b.t.Error(p) }, nil))
}

// distance is the documented external distance, in double precision.
func (b *bed) distance(q, x []float32) float64 {
	var dot, qq, xx, dd float64
	for i := range q {
		p, y := float64(q[i]), float64(x[i])
		dot, qq, xx, dd = dot+p*y, qq+p*p, xx+y*y, dd+(p-y)*(p-y)
	}
	switch b.metric {
	case vector.Cosine:
		if qq == 0 || xx == 0 {
			return 1
		}
		return 1 - dot/math.Sqrt(qq*xx)
	case vector.InnerProduct:
		return -dot
	}
	return math.Sqrt(dd)
}

// pair is a row of the expected answer.
type pair struct {
	key  string
	dist float64
}

// exact is the rows that pass, nearest first.
func (b *bed) exact(q []float32, pass func(key string) bool) []pair {
	var out []pair
	for key, x := range b.rows {
		if pass == nil || pass(key) {
			out = append(out, pair{key, b.distance(q, x)})
		}
	}
	slices.SortFunc(out, func(a, b pair) int { return cmp.Or(cmp.Compare(a.dist, b.dist), cmp.Compare(a.key, b.key)) })
	return out
}

const slack = 2e-3 // single precision on vectors of these lengths

// honest checks what holds for every answer, however approximate: no row
// twice, none that is not there or does not pass, true distances in order.
func (b *bed) honest(q []float32, hits []db.Hit, pass func(key string) bool) {
	b.t.Helper()
	seen := map[string]bool{}
	for i, h := range hits {
		key := string(h.Key)
		x, ok := b.rows[key]
		switch {
		case !ok:
			b.t.Fatalf("hit %d is %q, which is not in the collection", i, key)
		case seen[key]:
			b.t.Fatalf("hit %d, %q, is returned twice", i, key)
		case pass != nil && !pass(key):
			b.t.Fatalf("hit %d, %q, does not pass the filter", i, key)
		case i > 0 && h.Distance < hits[i-1].Distance:
			b.t.Fatalf("hit %d is nearer than the one before", i)
		}
		seen[key] = true
		if want := b.distance(q, x); math.Abs(float64(h.Distance)-want) > slack*(1+math.Abs(want)) {
			b.t.Fatalf("hit %d, %q: distance %g, want %g", i, key, h.Distance, want)
		}
	}
}

// same checks an exact answer. Rows at equal distance may change places.
func (b *bed) same(q []float32, hits []db.Hit, want []pair, pass func(key string) bool) {
	b.t.Helper()
	b.honest(q, hits, pass)
	if len(hits) != len(want) {
		b.t.Fatalf("%d hits, want %d", len(hits), len(want))
	}
	for i := range hits {
		if d := want[i].dist; math.Abs(float64(hits[i].Distance)-d) > slack*(1+math.Abs(d)) {
			b.t.Fatalf("hit %d, %q, has distance %g; the true one is %q with %g", i, hits[i].Key, hits[i].Distance, want[i].key, d)
		}
	}
}

// recall is the share of the true k nearest rows among the answers.
func (b *bed) recall(queries [][]float32, k int, o *db.SearchOptions) float64 {
	b.t.Helper()
	found := 0
	for _, q := range queries {
		hits, _ := b.search(q, k, o)
		b.honest(q, hits, nil)
		if len(hits) != min(k, len(b.rows)) {
			b.t.Fatalf("%d hits, want %d", len(hits), k)
		}
		truth := map[string]bool{}
		for _, p := range b.exact(q, nil)[:k] {
			truth[p.key] = true
		}
		for _, h := range hits {
			if truth[string(h.Key)] {
				found++
			}
		}
	}
	return float64(found) / float64(k*len(queries))
}

// mixture draws from a Gaussian mixture whose centres, always the same, lie
// about eight within-cluster deviations apart.
func mixture(seed uint64, n, dim int) [][]float32 {
	const clusters = 12
	fixed := rand.New(rand.NewPCG(1, 1))
	centres := make([][]float64, clusters)
	for i := range centres {
		centres[i] = make([]float64, dim)
		for j := range centres[i] {
			centres[i][j] = 2 * fixed.NormFloat64()
		}
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([][]float32, n)
	for i := range out {
		c := centres[rng.IntN(clusters)]
		out[i] = make([]float32, dim)
		for j := range out[i] {
			// Coordinates of falling weight, as real data have after rotation.
			out[i][j] = float32(c[j] + rng.NormFloat64()/(1+0.1*float64(j)))
		}
	}
	return out
}

var metrics = []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct}

// fewer is one of the metrics under -short, all otherwise.
func fewer(one int) []vector.Metric {
	if testing.Short() {
		return metrics[one : one+1]
	}
	return metrics
}

// learner is a kind of forest over so many principal coordinates, none if negative.
type learner struct {
	kind   forest.Kind
	rotate int
}

// in returns options with the learner, for rows of a dimension.
func (l learner) in(o db.Forest, dim int) *db.Forest {
	o.Learner, o.Coordinates = string(l.kind), max(0, min(l.rotate, dim))
	if l.rotate < 0 {
		o.NoRotation = true
	}
	return &o
}

// learners are the kinds, over plain and over rotated coordinates.
var learners = []learner{
	{forest.RP, 0}, {forest.PCATree, 0},
	{forest.KD, -1}, {forest.KD, 0}, {forest.KD, 10},
	{forest.KDChrono, 0}, {forest.KDChrono, 10},
	{forest.RF, 0}, {forest.RF, 10},
}

// extras are option sets that go round over the learners and metrics, so that
// each is met by each metric and by several learners.
var extras = []db.Forest{
	{},
	{NoSketches: true, NoLists: true},
	{SketchBytes: 128, ListNeighbors: 5, LeafNeighbors: 8, Members: true},
	{Quantize: true, NoSketches: true},
	{Members: true, NoTables: true, SketchBytes: 64},
	{Quantize: true, ListNeighbors: 30, Members: true, LeafNeighbors: 20},
	{MinVotes: 2, Depth: 5, NoLists: true},
}
