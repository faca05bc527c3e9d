package vector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every set of kernels returns the rounded products of rounded differences, bit for bit, also in place, and
// writes nothing behind them.
func TestStandardize(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	draw := func(n int) (out []float32) {
		for range n {
			out = append(out, float32(math.Exp(10*r.NormFloat64())*r.NormFloat64()))
		}
		return out
	}
	for _, level := range levels {
		if !level.supported() {
			t.Logf("SKIPPED %v: not of this processor", level)
			continue
		}
		level.force(t)
		for n := range 70 {
			x, mean, factor := draw(n), draw(n), draw(n)
			var want []float32
			for i, v := range x {
				want = append(want, float32(v-mean[i])*factor[i])
			}
			out := draw(n + 8)
			behind := slices.Clone(out[n:])
			Standardize(out, x, mean, factor)
			Standardize(x, x, mean, factor)
			if !slices.Equal(out[:n], want) || !slices.Equal(x, want) || !slices.Equal(out[n:], behind) {
				t.Fatalf("%v: %v and %v, want %v", level, out, x, want)
			}
		}
	}
}
