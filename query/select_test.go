package query

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The selected ids have the smallest scores, and their scores follow them.
func TestSelect(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var s selector
	for n := 1; n < 300; n += 7 {
		for _, values := range []int{1, 3, 1 << 20} {
			of, ids, scores := make([]float32, n), make([]uint32, n), make([]float32, n)
			for i := range ids {
				of[i] = float32(rng.IntN(values))
				ids[i], scores[i] = uint32(i), of[i]
			}
			k := 1 + rng.IntN(n+3)
			got := s.best(ids, scores, k)
			if len(got) != min(k, n) {
				t.Fatalf("%d of %d: %d", k, n, len(got))
			}
			for i, id := range got {
				if scores[i] != of[id] {
					t.Fatalf("%d of %d: the score of id %d is %v, want %v", k, n, id, scores[i], of[id])
				}
			}
			slices.Sort(of)
			if kept := slices.Sorted(slices.Values(scores[:len(got)])); !slices.Equal(kept, of[:len(got)]) {
				t.Fatalf("%d of %d: scores %v, want %v", k, n, kept, of[:len(got)])
			}
		}
	}
}
