package forestindex

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// repeated returns n random points, each as often as times returns for it.
func repeated(n, dim int, times func(i int) int) *training {
	rng := rand.New(rand.NewPCG(3, 3))
	rows := &flatRows{d: dim}
	for i := range n {
		x := make([]float32, dim)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		for range times(i) {
			rows.data = append(rows.data, x...)
			rows.n++
		}
	}
	all := subset{rows: rows}
	return &training{own: true, dim: dim, metric: vector.L2, corpus: all, points: all}
}

// TestSplitKeepsTwinsTogether: a held-out query has no equal among the points that
// are learned from and searched, unless all points are equal.
func TestSplitKeepsTwinsTogether(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		times   func(i int) int
		count   int
		queries int // held out
		hidden  int // at most
	}{
		"no equals":       {1000, func(int) int { return 1 }, 100, 100, 100},
		"pairs":           {500, func(int) int { return 2 }, 100, 50, 100},
		"some pairs":      {600, func(i int) int { return 1 + i%2 }, 90, 50, 90},
		"20 times 100":    {20, func(int) int { return 100 }, 200, 10, 1000},
		"one large group": {200, func(i int) int { return 1 + 800*(1-min(i, 1)) }, 100, 20, 20},
		"all equal":       {1, func(int) int { return 300 }, 30, 30, 30},
	} {
		tr, o := repeated(c.n, 5, c.times), options{Holdout: c.count, Seed: 7}
		points := tr.points
		s, err := tr.splitFor(kind.WithWorkers(t.Context(), 2), o)
		must(t, err)
		if len(s.hold) < c.queries || len(s.hidden) > c.hidden || len(s.hidden)+len(s.learn) != points.Len() {
			t.Errorf("%s: %d queries, %d points hidden, %d learned from",
				name, len(s.hold), len(s.hidden), len(s.learn))
		}
		for i, p := range [][]int{s.learn, s.hold, s.hidden} {
			if !slices.IsSorted(p) {
				t.Errorf("%s: part %d is out of order", name, i)
			}
		}
		for _, q := range s.hold {
			if !slices.Contains(s.hidden, q) {
				t.Errorf("%s: query %d is not hidden", name, q)
			}
			for _, i := range append(s.learn, s.hold...) {
				if i != q && name != "all equal" && slices.Equal(points.Row(i, nil), points.Row(q, nil)) {
					t.Fatalf("%s: query %d equals point %d", name, q, i)
				}
			}
		}
		again, err := repeated(c.n, 5, c.times).splitFor(kind.WithWorkers(t.Context(), 1), o)
		if err != nil || !slices.Equal(again.hold, s.hold) || !slices.Equal(again.hidden, s.hidden) {
			t.Errorf("%s: another split with one goroutine: %v", name, err)
		}
	}
	zero := float32(math.Copysign(0, -1))
	hash := hashVector([]float32{1, 0})
	if hash != hashVector([]float32{1, zero}) || hash == hashVector([]float32{0, 1}) {
		t.Error("hashes of equal vectors differ, or of others do not")
	}
}

// memory is a collection of live rows in memory, as a build reads one.
type memory struct {
	kind.Source
	rows *flatRows
}

func (m memory) Collection() *kind.Collection {
	n := uint32(m.rows.n)
	return &kind.Collection{Name: "c", Dim: m.rows.d, Metric: vector.L2, Rows: n, Live: n}
}

func (m memory) Rows(context.Context) (*query.View, error) {
	return &query.View{
		Metric: vector.L2, Dim: m.rows.d, Segment: query.Segment{N: m.rows.n}, LiveCount: m.rows.n,
		Rows: query.RowSet{
			N: m.rows.n, Dim: m.rows.d, Shift: 31,
			Chunks: [][]byte{codec.Bytes(m.rows.data)}, Uint8: []bool{false},
		},
	}, nil
}

func (memory) Guard(bool, *error)          {}
func (memory) DeletedSet() *roaring.Bitmap { return nil }
func (memory) Sampled() *sample.Reservoir  { return nil }

// TestTrialAnswers: the true answers of a trial are the nearest rows by the definition, as many as all depths
// of the tuner need. Neither they nor other rows that are searched equal its queries.
func TestTrialAnswers(t *testing.T) {
	for _, source := range []string{neighborsExact, neighborsApproximate} {
		ctx := t.Context()
		data := repeated(700, 6, func(i int) int { return 1 + i%3 }).points.rows
		st := memory{rows: data}
		given := &index.Forest{Seed: 1, Source: source}
		job := &kind.Job{Coll: "c", Given: given, End: data.n, Timer: kind.NewTimer(ctx)}
		job.Latest = func(f func(st kind.Source) error) error { return f(st) }
		tr, o, err := trainingSet(ctx, job)
		must(t, err)
		if _, err := learnRest(ctx, tr, o, job.Timer); err != nil {
			t.Fatal(err)
		}
		base, err := st.Rows(ctx)
		must(t, err)
		trial, err := newTrial(ctx, st, tr, base, o)
		must(t, err)
		if len(trial.queries) < 10 {
			t.Errorf("%d queries", len(trial.queries))
		}
		for i, q := range trial.queries {
			var candidates []vector.Neighbor
			for row := range uint32(data.n) {
				if trial.deletedRows.Contains(row) {
					continue
				}
				x := data.Row(int(row), nil)
				if slices.Equal(q, x) {
					t.Fatalf("%s: query %d equals row %d, which is searched", source, i, row)
				}
				candidates = append(candidates, vector.Neighbor{ID: row, Distance: vector.L2Squared(q, x)})
			}
			slices.SortFunc(candidates, func(a, b vector.Neighbor) int {
				return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
			})
			var want []uint32
			for _, x := range candidates[:min(len(candidates), query.DeepestTruth)] {
				want = append(want, x.ID)
			}
			if got := trial.truth[i]; !slices.Equal(got, want) {
				t.Fatalf("%s: query %d has %d answers, want the nearest %d", source, i, len(got), len(want))
			}
		}
	}
}

// Where most points are equal, most of the distinct points remain to be searched.
func TestHoldoutOfDistinct(t *testing.T) {
	const n, distinct = 8000, 800
	g := &pointGroups{of: make([]uint32, n), first: []int{0}}
	for i := range n {
		g.members = append(g.members, i)
		g.of[i] = uint32(min(i, distinct))
		if i > 0 && i <= distinct {
			g.first = append(g.first, i)
		}
	}
	g.first = append(g.first, n)
	s := g.split(800, 1)
	if len(s.hold) < 40 || len(s.hold) > distinct/10 || len(s.hidden) > distinct/10 {
		t.Errorf("%d queries and %d hidden points of %d distinct ones", len(s.hold), len(s.hidden), distinct)
	}
}
