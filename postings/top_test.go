package postings

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTopIsSortedAndCut(t *testing.T) {
	var best top
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		score := rapid.SampledFrom([]func() float64{
			r.Float64,
			func() float64 { return 1 },
			func() float64 { return float64(r.IntN(4)) },
			func() float64 { return 1 + r.Float64()*1e-300 },
			func() float64 { return r.ExpFloat64() * 5e-324 },
			func() float64 { return r.Float64() * 1e300 },
		}).Draw(t, "score")
		n, k := rapid.IntRange(0, 300).Draw(t, "hits"), rapid.IntRange(1, 120).Draw(t, "k")
		best.reset(k)
		var all []Hit
		for i := range n {
			h := Hit{uint32(i * 100), score()}
			if h.Score > 0 {
				all = append(all, h)
			}
			best.push(h)
			slices.SortFunc(all, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row)) })
			theta := 0.0
			if len(all) >= k {
				theta = all[k-1].Score
			}
			if got := best.theta(); got != theta {
				t.Fatalf("theta is %g, want %g", got, theta)
			}
		}
		before := Hit{7, 7}
		got := best.append([]Hit{before})
		if want := append([]Hit{before}, all[:min(k, len(all))]...); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
