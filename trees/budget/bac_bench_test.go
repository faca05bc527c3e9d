package budget

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// sparseText makes n unit rows of about nnz of m features with power-law
// frequencies; the class is a noisy linear function of features of all
// frequencies.
func sparseText(n, m, nnz int, seed uint64) (*vector.CSR, []int8) {
	rng := rand.New(rand.NewPCG(seed, 2))
	truth := make([]float64, m)
	for j := range truth {
		truth[j] = rng.NormFloat64()
	}
	x := &vector.CSR{Ptr: []uint64{0}, Cols: m}
	y := make([]int8, n)
	for i := range n {
		seen := map[uint32]bool{}
		for len(seen) < nnz {
			seen[uint32(math.Pow(float64(m), rng.Float64()))-1] = true
		}
		var s vector.Sparse
		for j := range seen {
			s.Index = append(s.Index, j)
		}
		slices.Sort(s.Index)
		score := 0.0
		for _, j := range s.Index {
			s.Value = append(s.Value, float32(1/math.Sqrt(float64(nnz))))
			score += truth[j] / math.Sqrt(float64(nnz))
		}
		x.Append(s)
		x.Cols = m
		y[i] = 1
		if score+0.3*rng.NormFloat64() < 0 {
			y[i] = -1
		}
	}
	return x, y
}

// BenchmarkBAC is the figure: B = 100 on 10,000 × 50,000 sparse rows.
func BenchmarkBAC(b *testing.B) {
	x, y := sparseText(10000, 50000, 75, 1)
	for b.Loop() {
		c, s, err := TrainBAC(b.Context(), x, y, nil, BACParams{Budget: 100})
		must(b, err)
		b.ReportMetric(float64(len(c.Features)), "features")
		b.ReportMetric(float64(s.Rounds), "rounds")
		b.ReportMetric(float64(s.Steps), "steps")
	}
}
