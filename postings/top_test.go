package postings

import (
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
		heapFrom := rapid.IntRange(0, 400).Draw(t, "heap from")
		best.reset(k)
		var all []Hit
		for i := range n {
			h := Hit{uint32(r.IntN(1 << 20)), score()}
			if h.Score > 0 {
				all = append(all, h)
			}
			switch {
			case i < heapFrom:
				best.push(h)
			case i == heapFrom:
				best.heap()
				fallthrough
			default:
				best.pushHeap(h)
			}
			slices.SortFunc(all, compareHits)
			if best.full() != (len(all) >= k) {
				t.Fatalf("full is %v with %d of %d hits", best.full(), len(all), k)
			}
			theta := 0.0
			if len(all) >= k {
				theta = all[k-1].Score
			}
			if got := best.theta(); got > theta || i >= heapFrom && got != theta {
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

func TestPickersStartAtWhatRowsReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cells := make([]uint16, rapid.IntRange(0, 400).Draw(t, "strips")*columnRows)
		span := rapid.SampledFrom([]int{1, 2, 100, 1 << 16}).Draw(t, "span")
		for i := range cells {
			cells[i] = uint16(r.IntN(span))
		}
		k := rapid.IntRange(1, 300).Draw(t, "k")
		guess := rapid.SampledFrom([]float64{0, 1, 50, 30000, 1e9}).Draw(t, "guess")
		least := lowest(cells, k, k/8, guess)
		if n := countAtLeast16Go(cells, uint16(least)); least > 0 && n < k {
			t.Fatalf("%d cells of %d reach %d, want %d", n, len(cells), least, k)
		}
		// The last steps of bisection are a 128th of the estimate.
		if n := countAtLeast16Go(cells, uint16(least)); span == 1<<16 && len(cells) <= sampleRows && len(cells) > k && n > k+k/4+len(cells)/40+16 {
			t.Fatalf("%d cells of %d reach %d, want about %d", n, len(cells), least, k)
		}
	})
}

// Hits taken over in nearly their order are those pushed one by one, and later
// ones join them.
func TestTopTakesOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		k := rapid.IntRange(1, 50).Draw(t, "k")
		hits := make([]Hit, rapid.IntRange(0, 120).Draw(t, "hits"))
		for i := range hits {
			hits[i] = Hit{uint32(i), float64(120-i) + 3*r.Float64()}
		}
		later := rapid.IntRange(0, 80).Draw(t, "later")
		var a, b top
		a.reset(k)
		b.reset(k)
		for _, h := range hits {
			b.push(h)
		}
		a.setHits(slices.Clone(hits))
		for i := range later {
			h := Hit{uint32(200 + i), 150 * r.Float64()}
			a.push(h)
			b.push(h)
		}
		if a.full() != b.full() {
			t.Fatalf("full is %v, want %v", a.full(), b.full())
		}
		got, want := a.append(nil), b.append(nil)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
