package forest

import (
	"math"

	"github.com/anndb/anndb/vector"
)

// ByteStride divides the length of vectors of bytes for ByteRotation.Apply, which are
// padded with zeros.
const ByteStride = 64

// ByteRotation is a Rotation for vectors of bytes whose directions are rounded to
// integers from -64 to 64, each direction with its own step. It reads a quarter of the
// memory, and its sums are exact. Rounding changes coordinate i of x by about
// 0.3·step·|x − Mean|, with steps of some thousandths: less than one step of a sketch.
type ByteRotation struct {
	R, Dim int
	stride int
	matrix []int8 // Sums rows of stride bytes
	step   []float32
	bias   []float32
}

// Bytes returns the rounded rotation. O(R·Dim).
func (r *Rotation) Bytes() *ByteRotation {
	b := &ByteRotation{
		R: r.R, Dim: r.Dim, stride: (r.Dim + ByteStride - 1) &^ (ByteStride - 1),
		step: make([]float32, r.R), bias: make([]float32, r.R),
	}
	b.matrix = make([]int8, b.Sums()*b.stride)
	for i := range r.R {
		row := r.Matrix[i*r.Dim : (i+1)*r.Dim]
		var peak float32
		for _, v := range row {
			peak = max(peak, v, -v)
		}
		if !(peak > 0) {
			continue
		}
		step := peak / 64
		var bias float64
		for j, v := range row {
			n := int8(math.RoundToEven(float64(v / step)))
			b.matrix[i*b.stride+j] = n
			bias += float64(n) * float64(r.Mean[j])
		}
		// The bias is computed with the rounded direction, so that the rounding
		// error depends on x − Mean, not on x.
		b.step[i], b.bias[i] = step, float32(bias*float64(step))
	}
	return b
}

// Sums returns the length of the sums slice that Apply needs.
func (b *ByteRotation) Sums() int { return (b.R + 3) &^ 3 }

// Apply writes the R coordinates of x to out. x has Dim bytes, padded with zeros to a
// multiple of ByteStride. sums is scratch memory for Sums numbers. O(R·Dim), no
// allocation; every processor gives the same bits.
func (b *ByteRotation) Apply(x []uint8, sums []int32, out []float32) {
	vector.MatVecBytes(b.matrix, b.Sums(), b.stride, x, sums)
	out = out[:b.R]
	step, bias := b.step[:len(out)], b.bias[:len(out)]
	for i := range out {
		out[i] = float32(step[i]*float32(sums[i])) - bias[i]
	}
}
