package forest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The coordinates of a rotation of bytes are those of the rotation, up to what
// rounding the directions does to the distance from the mean.
func TestByteRotation(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	for _, shape := range [][2]int{{1, 1}, {3, 30}, {10, 64}, {17, 200}} {
		r, d := shape[0], shape[1]
		x := gaussian(rng, 300, d)
		for _, row := range x {
			for j := range row {
				row[j] = float32(rng.IntN(256))
			}
		}
		rot, err := PCA(t.Context(), x, r, 0, 1, 1)
		must(t, err)
		b := rot.Bytes()
		padded, sums := make([]uint8, (d+ByteStride-1)/ByteStride*ByteStride), make([]int32, b.Sums())
		got, want := make([]float32, r), make([]float32, r)
		for i := range 50 {
			row := x[i]
			var far float64
			for j, v := range row {
				padded[j] = uint8(v)
				far += float64(v-rot.Mean[j]) * float64(v-rot.Mean[j])
			}
			rot.Apply(row, want)
			b.Apply(padded, sums, got)
			for j := range got {
				// Each entry is off by at most half a step of at most 1/64.
				limit := math.Sqrt(float64(d)) / 128 * math.Sqrt(far)
				if off := math.Abs(float64(got[j] - want[j])); off > limit+0.01 {
					t.Fatalf("%d of %d coordinates: %v, want %v within %v", r, d, got[j], want[j], limit)
				}
			}
		}
	}
	zero := &Rotation{R: 1, Dim: 2, Mean: []float32{1, 1}, Matrix: []float32{0, 0}, Bias: []float32{0}}
	out := []float32{7}
	zero.Bytes().Apply(make([]uint8, ByteStride), make([]int32, 4), out)
	if out[0] != 0 {
		t.Errorf("a zero direction gives %v", out[0])
	}
}
