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

func BenchmarkSelect(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 500
	ids := make([]uint32, n)
	scores := make([][]float32, 64)
	for i := range scores {
		scores[i] = make([]float32, n)
		for j := range scores[i] {
			scores[i][j] = float32(rng.NormFloat64())
		}
	}
	tmp := make([]float32, n)
	b.Run("classes", func(b *testing.B) {
		var s selector
		for i := 0; b.Loop(); i++ {
			copy(tmp, scores[i%64])
			s.best(ids, tmp, 40)
		}
	})
	b.Run("quickselect", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			copy(tmp, scores[i%64])
			selectBest(ids, tmp, 40)
		}
	})
}
