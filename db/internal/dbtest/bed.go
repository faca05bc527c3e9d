package dbtest

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
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Bed is a database with one collection, "c", and an account of its own of
// what that must hold, which answers are compared with.
type Bed struct {
	T      testing.TB
	Path   string
	D      *db.DB
	Metric vector.Metric
	Dim    int
	Rows   map[string][]float32
	Labels map[string][]string
}

func NewBed(t testing.TB, metric vector.Metric, dim int) *Bed {
	t.Helper()
	b := &Bed{
		T: t, Path: filepath.Join(t.TempDir(), "x.anndb"), Metric: metric, Dim: dim,
		Rows: map[string][]float32{}, Labels: map[string][]string{},
	}
	b.Open()
	t.Cleanup(func() { b.D.Close() })
	b.Must(Create(t.Context(), b.D, "c", db.Schema{Dim: dim, Metric: metric}))
	return b
}

func (b *Bed) Open() {
	b.T.Helper()
	d, err := Open(context.Background(), b.Path, &db.Options{NoSync: true})
	b.Must(err)
	b.D = d
}

func (b *Bed) Reopen() {
	b.T.Helper()
	b.Must(b.D.Close())
	b.Open()
}

func (b *Bed) Must(err error) {
	b.T.Helper()
	Must(b.T, err)
}

// Put writes rows under the keys prefix0, prefix1, ... in one batch.
func (b *Bed) Put(prefix string, rows [][]float32) {
	b.T.Helper()
	b.Must(b.D.Update(b.T.Context(), func(w *db.Tx) error {
		for i, x := range rows {
			key := fmt.Sprintf("%s%d", prefix, i)
			labels := []string{fmt.Sprintf("mod%d", i%3)}
			if i%50 == 0 {
				labels = append(labels, "rare")
			}
			if err := w.Collection("c").Put(db.Row{Key: []byte(key), Vector: x, Labels: labels}); err != nil {
				return err
			}
			b.Rows[key], b.Labels[key] = x, labels
		}
		return nil
	}))
}

func (b *Bed) Drop(keys ...string) {
	b.T.Helper()
	b.Must(b.D.Update(b.T.Context(), func(w *db.Tx) error {
		for _, k := range keys {
			if err := w.Collection("c").Delete([]byte(k)); err != nil {
				return err
			}
			delete(b.Rows, k)
			delete(b.Labels, k)
		}
		return nil
	}))
}

func (b *Bed) Build(name string, o index.Options) index.Info {
	b.T.Helper()
	info, err := b.D.Collection("c").Build(b.T.Context(), name, o, nil)
	b.Must(err)
	return info
}

func (b *Bed) Search(q []float32, k int, o *db.SearchOptions) ([]db.Hit, trace.SearchStats) {
	b.T.Helper()
	hits, stats, err := Nearest(b.T.Context(), b.D.Collection("c"), db.Query{Vector: q}, k, o)
	b.Must(err)
	return hits, stats
}

// Check fails on any damage, and on blocks that belong to nothing.
func (b *Bed) Check() {
	b.T.Helper()
	b.Must(b.D.Check(b.T.Context(), func(p *db.CorruptError) { b.T.Error(p) }, nil))
}

// Distance is the documented external distance, in double precision.
func (b *Bed) Distance(q, x []float32) float64 { return Distance(b.Metric, q, x) }

// Distance is the documented external distance by a metric, in double precision.
func Distance(m vector.Metric, q, x []float32) float64 {
	var dot, qq, xx, dd float64
	for i := range q {
		p, y := float64(q[i]), float64(x[i])
		dot, qq, xx, dd = dot+p*y, qq+p*p, xx+y*y, dd+(p-y)*(p-y)
	}
	switch m {
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

// Near is a row of the expected answer.
type Near struct {
	Key      string
	Distance float64
}

// Exact is the rows that pass, nearest first.
func (b *Bed) Exact(q []float32, pass func(key string) bool) []Near {
	var out []Near
	for key, x := range b.Rows {
		if pass == nil || pass(key) {
			out = append(out, Near{key, b.Distance(q, x)})
		}
	}
	slices.SortFunc(out, func(a, b Near) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Key, b.Key))
	})
	return out
}

const slack = 2e-3 // single precision on vectors of these lengths

// Honest checks what holds for every answer, however approximate: no row
// twice, none that is not there or does not pass, true distances in order.
func (b *Bed) Honest(q []float32, hits []db.Hit, pass func(key string) bool) {
	b.T.Helper()
	seen := map[string]bool{}
	for i, h := range hits {
		key := string(h.Key)
		x, ok := b.Rows[key]
		switch {
		case !ok:
			b.T.Fatalf("hit %d is %q, which is not in the collection", i, key)
		case seen[key]:
			b.T.Fatalf("hit %d, %q, is returned twice", i, key)
		case pass != nil && !pass(key):
			b.T.Fatalf("hit %d, %q, does not pass the filter", i, key)
		case i > 0 && h.Distance < hits[i-1].Distance:
			b.T.Fatalf("hit %d is nearer than the one before", i)
		}
		seen[key] = true
		if want := b.Distance(q, x); math.Abs(float64(h.Distance)-want) > slack*(1+math.Abs(want)) {
			b.T.Fatalf("hit %d, %q: distance %g, want %g", i, key, h.Distance, want)
		}
	}
}

// Same checks an exact answer. Rows at equal distance may change places.
func (b *Bed) Same(q []float32, hits []db.Hit, want []Near, pass func(key string) bool) {
	b.T.Helper()
	b.Honest(q, hits, pass)
	if len(hits) != len(want) {
		b.T.Fatalf("%d hits, want %d", len(hits), len(want))
	}
	for i := range hits {
		if d := want[i].Distance; math.Abs(float64(hits[i].Distance)-d) > slack*(1+math.Abs(d)) {
			b.T.Fatalf("hit %d, %q, has distance %g; the true one is %q with %g", i, hits[i].Key,
				hits[i].Distance, want[i].Key, d)
		}
	}
}

// Recall is the share of the true k nearest rows among the answers.
func (b *Bed) Recall(queries [][]float32, k int, o *db.SearchOptions) float64 {
	b.T.Helper()
	found := 0
	for _, q := range queries {
		hits, _ := b.Search(q, k, o)
		b.Honest(q, hits, nil)
		if len(hits) != min(k, len(b.Rows)) {
			b.T.Fatalf("%d hits, want %d", len(hits), k)
		}
		truth := map[string]bool{}
		for _, p := range b.Exact(q, nil)[:k] {
			truth[p.Key] = true
		}
		for _, h := range hits {
			if truth[string(h.Key)] {
				found++
			}
		}
	}
	return float64(found) / float64(k*len(queries))
}

// Mixture draws from a Gaussian Mixture whose centres, always the same, lie
// about eight within-cluster deviations apart.
func Mixture(seed uint64, n, dim int) [][]float32 {
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

var Metrics = []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct}

// Learner is a kind of forest over so many principal coordinates, none if negative.
type Learner struct {
	Kind   forest.Kind
	Rotate int
}

// In returns options with the Learner, for rows of a dimension.
func (l Learner) In(o index.Forest, dim int) *index.Forest {
	o.Learner, o.Coordinates = string(l.Kind), max(0, min(l.Rotate, dim))
	if l.Rotate < 0 {
		o.NoRotation = true
	}
	return &o
}

// Learners are the kinds, over plain and over rotated coordinates.
var Learners = []Learner{
	{forest.RP, 0}, {forest.PCATree, 0},
	{forest.KD, -1}, {forest.KD, 0}, {forest.KD, 10},
	{forest.KDChrono, 0}, {forest.KDChrono, 10},
	{forest.RF, 0}, {forest.RF, 10},
}

// ForestOptions are option sets that go round over the Learners and Metrics, so that
// each is met by each metric and by several Learners.
var ForestOptions = []index.Forest{
	{},
	{NoSketches: true, NoLists: true},
	{SketchBytes: 128, ListNeighbors: 5, LeafNeighbors: 8, Members: true},
	{NoSketches: true},
	{Members: true, NoTables: true, SketchBytes: 64},
	{ListNeighbors: 30, Members: true, LeafNeighbors: 20},
	{Depth: 5, NoLists: true},
}
