package vector

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// PackedWidth is the length of a packed sketch: PackedHead int8 coordinates,
// then PackedTail half-byte ones, then the row's norm, float32 little-endian.
// Byte PackedHead+i holds coordinate PackedHead+i in its low half and
// PackedHead+PackedTail/2+i in its high half, eight more than its value.
const (
	PackedWidth = 64
	PackedHead  = 12
	PackedTail  = 96
)

// PackedQuery is a query in the form that the kernels of packed sketches read: the
// multipliers of every byte of a sketch. Elements that belong to no coordinate are
// zero. SetPacked fills it.
type PackedQuery struct {
	Head  [16]int16         // multipliers of the first bytes, as int8
	Low   [PackedWidth]int8 // multipliers of the low halves
	High  [PackedWidth]int8 // multipliers of the high halves
	Shift uint64            // the sum over the halves is multiplied by 2^Shift, at most 2^7
	Bias  int32             // added to the sum
	Scale float32           // multiplier of the sum in the estimate
}

// The kernels use fixed offsets of the fields; another layout does not compile.
var _ = [1]struct{}{}[unsafe.Offsetof(PackedQuery{}.Low)-32+
	unsafe.Offsetof(PackedQuery{}.High)-96+
	unsafe.Offsetof(PackedQuery{}.Shift)-160+
	unsafe.Offsetof(PackedQuery{}.Bias)-168+
	unsafe.Offsetof(PackedQuery{}.Scale)-172]

// SetPacked rounds the coordinates w, at most PackedHead+PackedTail of them, to the
// kernels' multipliers: the head to 16 bits, the tail to 8 bits in steps that are a
// power of two times those of the head. The estimate becomes
//
//	norm − 2·⟨w, c⟩
//
// for the stored integers c, up to that rounding. If a coordinate is not finite, the
// query is all zeros. O(len(w)).
func (q *PackedQuery) SetPacked(w []float32) {
	*q = PackedQuery{}
	w = w[:min(len(w), PackedHead+PackedTail)]
	head, tail := w[:min(PackedHead, len(w))], w[min(PackedHead, len(w)):]
	peak, peakTail := largest(head), largest(tail)
	// 12·128·16,000 + 96·8·127·2⁷ < 2³¹.
	const top, topTail = 16000, 127
	peak = max(peak, peakTail)
	step := peak / top
	if !scalable(step) {
		return
	}
	tailStep := step
	for tailStep*topTail < peakTail {
		tailStep *= 2
		q.Shift++
	}
	inv := 1 / step
	for i, y := range head {
		q.Head[i] = int16(rounded(float32(y * inv)))
	}
	inv = 1 / tailStep
	low := min(PackedTail/2, len(tail))
	sum := roundBytes(tail[:low], inv, q.Low[PackedHead:]) + roundBytes(tail[low:], inv, q.High[PackedHead:])
	q.Bias = -8 * sum << q.Shift
	q.Scale = 2 * step
}

// PackedScores estimates squared distances from packed sketches:
//
//	out[i] = norm − Scale·(Σ Head·head + 2^Shift·Σ(Low·low + High·high) + Bias)
//
// where head, low and high are the bytes of the sketch of row ids[i] as int8, and
// their halves. SketchScores documents the layout of chunks and rows, the guarantees
// by the caller and the rounding, which are the same here: the sum is exact modulo
// 2³², and all kernels give the same bits. Cost: one or two cache lines per id.
func PackedScores(q *PackedQuery, chunks []unsafe.Pointer, shift uint, ids []uint32, out []float32) {
	if len(ids) == 0 {
		return
	}
	packedScores(q, chunks, shift, ids, out[:len(ids)])
}

func packedScoresGo(q *PackedQuery, chunks []unsafe.Pointer, shift uint, ids []uint32, out []float32) {
	mask := uint32(1)<<shift - 1
	for i, id := range ids {
		row := (*[PackedWidth]byte)(unsafe.Add(chunks[id>>shift], int(id&mask)*PackedWidth))
		var head, tail int32
		for j, v := range q.Head {
			head += int32(v) * int32(int8(row[j]))
		}
		for j, b := range row {
			tail += int32(q.Low[j])*int32(b&15) + int32(q.High[j])*int32(b>>4)
		}
		sum := head + tail<<q.Shift + q.Bias
		norm := math.Float32frombits(binary.LittleEndian.Uint32(row[PackedWidth-4:]))
		out[i] = norm - float32(q.Scale*float32(sum))
	}
}

// MatVecBytes computes out[i] = Σⱼ m[i·stride+j]·x[j] exactly: the projection of a
// query of bytes. Elements of m are −64 to 64. The number of rows of m and of
// elements of out is a multiple of 4, stride is a multiple of 64, and x holds stride
// bytes. O(rows·stride).
func MatVecBytes(m []int8, rows, stride int, x []uint8, out []int32) {
	if rows <= 0 || stride <= 0 || rows%4 != 0 || stride%64 != 0 {
		return
	}
	matVecBytes(m[:rows*stride], rows, stride, x[:stride], out[:rows])
}

func matVecBytesGo(m []int8, rows, stride int, x []uint8, out []int32) {
	for i := range rows {
		var sum int32
		for j, v := range m[i*stride : (i+1)*stride] {
			sum += int32(v) * int32(x[j])
		}
		out[i] = sum
	}
}

// WholeBytes converts x to bytes in out and reports whether the conversion is
// lossless: whether all elements are integers from 0 to 255. If not, the content of
// out is undefined. O(len(x)).
func WholeBytes(x []float32, out []uint8) bool {
	return wholeBytes(x, out[:len(x)])
}

func wholeBytesGo(x []float32, out []uint8) bool {
	for i, v := range x {
		b := uint8(int32(v))
		if float32(b) != v {
			return false
		}
		out[i] = b
	}
	return true
}
