package labels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// table is the simplest Rows.
type table [][]float32

func (t table) Len() int                         { return len(t) }
func (t table) Dim() int                         { return len(t[0]) }
func (t table) Row(i int, _ []float32) []float32 { return t[i] }

// filling hands out rows only through the caller's buffer.
type filling struct{ table }

func (f filling) Row(i int, buf []float32) []float32 { return buf[:copy(buf, f.table[i])] }

// bruteForce sorts all rows by kernel distance, then row; a corpus row comes
// first in its own list.
func bruteForce(corpus, queries Rows, k int) *Neighbors {
	self := queries == nil
	if self {
		queries = corpus
	}
	k = min(k, corpus.Len())
	out := &Neighbors{N: queries.Len(), K: k}
	a, b := make([]float32, corpus.Dim()), make([]float32, corpus.Dim())
	for i := range queries.Len() {
		q := queries.Row(i, a)
		type pair struct {
			id   uint32
			d    float32
			mine bool
		}
		all := make([]pair, corpus.Len())
		for j := range all {
			all[j] = pair{uint32(j), vector.L2Squared(q, corpus.Row(j, b)), self && i == j}
		}
		slices.SortFunc(all, func(x, y pair) int {
			switch {
			case x.mine != y.mine:
				if x.mine {
					return -1
				}
				return 1
			case x.d != y.d:
				if x.d < y.d {
					return -1
				}
				return 1
			}
			return int(x.id) - int(y.id)
		})
		for _, p := range all[:k] {
			out.IDs = append(out.IDs, p.id)
		}
		out.KDist = append(out.KDist, all[k-1].d)
	}
	return out
}

func equal(got, want *Neighbors) error {
	if got.N != want.N || got.K != want.K {
		return fmt.Errorf("shape %d×%d, want %d×%d", got.N, got.K, want.N, want.K)
	}
	for i := range got.N {
		if !slices.Equal(got.Row(i), want.Row(i)) {
			return fmt.Errorf("query %d: %v, want %v", i, got.Row(i), want.Row(i))
		}
		if got.KDist[i] != want.KDist[i] {
			return fmt.Errorf("query %d: distance %v, want %v", i, got.KDist[i], want.KDist[i])
		}
	}
	return nil
}

// Small whole numbers make ties and duplicates the rule; shapes cross the
// tile borders.
func TestExactEqualsBruteForceWithTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3*tileRows+5).Draw(t, "n")
		d := rapid.IntRange(1, 20).Draw(t, "d")
		levels := rapid.IntRange(1, 4).Draw(t, "levels")
		k := rapid.IntRange(1, n+3).Draw(t, "k")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		draw := func(n int) table {
			rows := make(table, n)
			for i := range rows {
				rows[i] = make([]float32, d)
				for j := range rows[i] {
					rows[i][j] = float32(rng.IntN(levels))
				}
			}
			return rows
		}
		var corpus, queries Rows = draw(n), nil
		if rapid.Bool().Draw(t, "filling") {
			corpus = filling{corpus.(table)}
		}
		if rapid.Bool().Draw(t, "separate") {
			queries = draw(rapid.IntRange(1, 2*tileQueries+3).Draw(t, "m"))
		}
		got, err := ExactNeighbors(context.Background(), corpus, queries, k, rapid.IntRange(0, 4).Draw(t, "workers"), nil)
		must(t, err)
		must(t, equal(got, bruteForce(corpus, queries, k)))
	})
}

// Values at which the product form of the distance loses everything: the
// proof must fail and the scan answer.
func TestExactOnHardNumbers(t *testing.T) {
	for name, gen := range map[string]func(*rand.Rand) float32{
		"far from the origin": func(r *rand.Rand) float32 { return 1e4 + r.Float32()*1e-2 },
		"mixed scales":        func(r *rand.Rand) float32 { return float32(math.Exp(r.NormFloat64() * 8)) },
		"subnormal products":  func(r *rand.Rand) float32 { return r.Float32() * 1e-22 },
		"vanishing products":  func(r *rand.Rand) float32 { return r.Float32() * 1e-30 },
		"overflowing":         func(r *rand.Rand) float32 { return (r.Float32() - 0.5) * 3e19 },
		"all equal":           func(*rand.Rand) float32 { return 3 },
		"all zero":            func(*rand.Rand) float32 { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			rows := make(table, 230)
			for i := range rows {
				rows[i] = make([]float32, 9)
				for j := range rows[i] {
					rows[i][j] = gen(rng)
				}
			}
			for _, queries := range []Rows{nil, rows[:70]} {
				got, err := ExactNeighbors(context.Background(), rows, queries, 10, 2, nil)
				must(t, err)
				if err := equal(got, bruteForce(rows, queries, 10)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestExactRejects(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	ok := table{{1, 2}, {3, 4}}
	for name, c := range map[string]struct {
		corpus, queries Rows
		k               int
	}{
		"no corpus":        {nil, nil, 1},
		"empty corpus":     {emptyRows{}, nil, 1},
		"k":                {ok, nil, 0},
		"dimension":        {ok, table{{1}}, 1},
		"NaN in corpus":    {table{{1, 2}, {nan, 1}}, nil, 1},
		"Inf in corpus":    {table{{1, 2}, {inf, 1}}, ok, 2},
		"NaN in queries":   {ok, table{{nan, 1}}, 2},
		"no finite corpus": {table{{nan, nan}, {nan, nan}}, ok, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ExactNeighbors(context.Background(), c.corpus, c.queries, c.k, 1, nil); !errors.Is(err, ErrInput) {
				t.Errorf("error %v, want ErrInput", err)
			}
		})
	}
}

type emptyRows struct{}

func (emptyRows) Len() int                     { return 0 }
func (emptyRows) Dim() int                     { return 2 }
func (emptyRows) Row(int, []float32) []float32 { return nil }

func TestExactCancelAndProgress(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	rows := make(table, 1000)
	for i := range rows {
		rows[i] = []float32{rng.Float32(), rng.Float32()}
	}
	last := 0
	if _, err := ExactNeighbors(context.Background(), rows, nil, 3, 3, func(done, total int) {
		if done > total || total != len(rows) {
			t.Errorf("progress %d of %d", done, total)
		}
		last = max(last, done)
	}); err != nil || last != len(rows) {
		t.Errorf("progress ended at %d, error %v", last, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calls atomic.Int32
	_, err := ExactNeighbors(ctx, rows, nil, 3, 1, func(int, int) { calls.Add(1); cancel() })
	if !errors.Is(err, context.Canceled) || calls.Load() > 2 {
		t.Errorf("error %v after %d calls", err, calls.Load())
	}
}
