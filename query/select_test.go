package query

import (
	"math/rand/v2"
	"testing"
)

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
