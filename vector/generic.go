package vector

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// The reference kernels: the loops whose results the assembly must match. Four
// accumulators let the processor overlap the additions.

func l2SquaredGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		d0, d1, d2, d3 := a[i]-b[i], a[i+1]-b[i+1], a[i+2]-b[i+2], a[i+3]-b[i+3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	for ; i < len(a); i++ {
		d := a[i] - b[i]
		s0 += d * d
	}
	return (s0 + s1) + (s2 + s3)
}

func dotGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func l2SquaredUint8Go(a, b []uint8) uint32 {
	b = b[:len(a)]
	var s uint32
	for i, v := range a {
		d := int32(v) - int32(b[i])
		s += uint32(d * d)
	}
	return s
}

func l2MixedGo(q []float32, row []uint8) float32 {
	row = row[:len(q)]
	var s0, s1 float32
	i := 0
	for ; i+2 <= len(q); i += 2 {
		d0, d1 := q[i]-float32(row[i]), q[i+1]-float32(row[i+1])
		s0 += d0 * d0
		s1 += d1 * d1
	}
	for ; i < len(q); i++ {
		d := q[i] - float32(row[i])
		s0 += d * d
	}
	return s0 + s1
}

func dotMixedGo(q []float32, row []uint8) float32 {
	row = row[:len(q)]
	var s0, s1 float32
	i := 0
	for ; i+2 <= len(q); i += 2 {
		s0 += q[i] * float32(row[i])
		s1 += q[i+1] * float32(row[i+1])
	}
	for ; i < len(q); i++ {
		s0 += q[i] * float32(row[i])
	}
	return s0 + s1
}

func dotTileGo(a []float32, na int, b []float32, nb, dim int, out []float32) {
	for i := range na {
		for j := range nb {
			out[i*nb+j] = dotGo(a[i*dim:(i+1)*dim], b[j*dim:(j+1)*dim])
		}
	}
}

func sketchScoresGo(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int,
	ids []uint32, out []float32,
) {
	mask := uint32(1)<<shift - 1
	for i, id := range ids {
		row := unsafe.Slice((*byte)(unsafe.Add(chunks[id>>shift], int(id&mask)*width)), width)
		var dot int32
		for j, v := range q[:width-4] {
			dot += int32(v) * int32(int8(row[j]))
		}
		out[i] = sketchEstimate(row, dot, scale)
	}
}

// firstNotFinite returns the index of the first element that is NaN or infinite,
// whose exponent is all ones, or -1.
func firstNotFinite(x []float32) int {
	for i, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

// sketchEstimate returns norm - scale·dot. It rounds the product before the
// subtraction, so that every kernel gives the same bits.
func sketchEstimate(row []byte, dot int32, scale float32) float32 {
	norm := math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-4:]))
	return norm - float32(scale*float32(dot))
}
