package vector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every set of kernels returns the sums of sequential multiplications and additions,
// bit for bit.
func TestAddRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, level := range levels {
		if !level.supported() {
			t.Logf("SKIPPED %v: not of this processor", level)
			continue
		}
		level.force(t)
		for _, n := range []int{0, RowCells, 3 * RowCells} {
			for rows := range 6 {
				cells := make([]float32, 400)
				for i := range cells {
					cells[i] = float32(math.Exp(20 * r.NormFloat64()))
				}
				sum, want := make([]float64, n), make([]float64, n)
				for i := range sum {
					sum[i] = r.ExpFloat64()
				}
				copy(want, sum)
				at, x := make([]int, rows), make([]float64, rows)
				for i := range at {
					at[i], x[i] = r.IntN(len(cells)-n+1), r.Float64()
					for j := range want {
						want[j] += float64(x[i] * float64(cells[at[i]+j]))
					}
				}
				AddRows(sum, cells, at, x)
				if !slices.Equal(sum, want) {
					t.Fatalf("%v: %d sums of %d rows: %v, want %v", level, n, rows, sum, want)
				}
			}
		}
	}
}
