package vector

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The largest magnitude is found at every place, and a NaN is larger than any number.
func TestKernelLargest(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := range 100 {
			x := view[float32](fencedEnd(t, 4*n))
			for i := range x {
				x[i] = float32(i%7) - 3
			}
			for i, keep := range x {
				for _, peak := range []float32{-5, math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN())} {
					x[i] = peak
					want := float32(math.Abs(float64(peak)))
					if got := largest(x); math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("element %d of %d is %v: %v", i, n, peak, got)
					}
				}
				x[i] = keep
			}
		}
		if got := largest(nil); got != 0 {
			t.Errorf("no elements: %v", got)
		}
	})
}

// Numbers are rounded to the nearest integer, and halves to the even one.
func TestKernelRoundBytes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(55, 56))
		for n := range 100 {
			x, out := view[float32](fencedEnd(t, 4*n)), view[int8](fencedEnd(t, n))
			for _, scale := range []float32{1, 0.37} {
				for i := range x {
					x[i] = float32(r.IntN(509)-254) / 2
					if i%3 == 0 {
						x[i] = r.Float32()*254 - 127
					}
				}
				got, sum := roundBytes(x, scale, out), int32(0)
				for i, y := range x {
					want := int8(math.RoundToEven(float64(y * scale)))
					if sum += int32(want); out[i] != want {
						t.Fatalf("element %d of %d: %v·%v becomes %d, want %d", i, n, y, scale, out[i], want)
					}
				}
				if got != sum {
					t.Fatalf("%d elements: sum %d, want %d", n, got, sum)
				}
			}
		}
	})
}
