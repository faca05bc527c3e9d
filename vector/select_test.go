package vector

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSelectNth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		v := make([]float32, 1+rng.IntN(40))
		for i := range v {
			v[i] = float32(rng.IntN(1+rng.IntN(60))) - 20
		}
		sorted := slices.Sorted(slices.Values(v))
		n := rng.IntN(len(v))
		SelectNth(v, n)
		if v[n] != sorted[n] || slices.Max(v[:n+1]) != v[n] || slices.Min(v[n:]) != v[n] {
			t.Fatalf("place %d of %v, want %v", n, v, sorted[n])
		}
		slices.Sort(v)
		if !slices.Equal(v, sorted) {
			t.Fatalf("%v became %v", sorted, v)
		}
	}
}
