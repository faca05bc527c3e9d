package vector

import "math"

// Queries are rounded to small integers, which the kernels of sketches and MatVecBytes multiply exactly.

// largest returns the largest magnitude; NaN counts as larger than any number.
func largest(x []float32) float32 { return math.Float32frombits(largestBits(x)) }

func largestBitsGo(x []float32) uint32 {
	var m uint32
	for _, y := range x {
		m = max(m, math.Float32bits(y)&^(1<<31))
	}
	return m
}

// scalable reports whether step is finite and its inverse, too.
func scalable(step float32) bool {
	return step >= math.SmallestNonzeroFloat32*(1<<24) && !math.IsInf(float64(step), 1)
}

// roundBytes writes x·scale, rounded to the nearest integers, ties to even, to out, and returns their sum.
// The magnitudes of x·scale are at most 127.
func roundBytes(x []float32, scale float32, out []int8) int32 {
	out = out[:len(x)]
	n := len(x) &^ 15
	sum := roundSixteens(x[:n], scale, out[:n])
	return sum + roundBytesGo(x[n:], scale, out[n:])
}

func roundBytesGo(x []float32, scale float32, out []int8) (sum int32) {
	out = out[:len(x)]
	for i, y := range x {
		v := rounded(float32(y * scale))
		sum += v
		out[i] = int8(v)
	}
	return sum
}

// rounded returns the nearest integer, ties to even, of a number below 2²². After
// adding 1.5·2²³ no bits are left for a fraction.
func rounded(x float32) int32 {
	const magic = 3 << 22
	return int32(math.Float32bits(x+magic)) - int32(0x4b400000)
}

// Scale writes scale·x to out, which has at least the length of x. O(len(x)).
func Scale(x []float32, scale float32, out []float32) {
	out = out[:len(x)]
	for i, v := range x {
		out[i] = v * scale
	}
}
