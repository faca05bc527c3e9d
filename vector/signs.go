package vector

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"
)

// The layout of sign sketches of width bytes, a multiple of SignLine: one bit for each of SignBits(width)
// coordinates, little-endian, set where the coordinate is positive, then the factor and the row's norm,
// float32 little-endian.
const (
	// SignLine is the cache line that sketches are multiples of, MaxSignWidth their largest width.
	SignLine     = 64
	MaxSignWidth = 256
)

// SignBits returns the number of coordinates of a sign sketch of width bytes.
func SignBits(width int) int { return (width - 8) * 8 }

// SignQuery is a query in the form that the kernels of sign sketches of one width read. SetSigns fills it.
type SignQuery struct {
	Total int32   // the sum of Multipliers
	Scale float32 // multiplier of the sum in the estimate
	// Multipliers are −31 to 31, and zero for the bits of the factor and norm. Those of wider sketches are
	// undefined.
	Multipliers [8 * MaxSignWidth]int8
}

// The kernels use fixed offsets of the fields; another layout does not compile.
var _ = [1]struct{}{}[unsafe.Offsetof(SignQuery{}.Scale)-4+unsafe.Offsetof(SignQuery{}.Multipliers)-8]

// SetSigns rounds the coordinates w, at most SignBits(width) of them, to 31 steps on both sides of zero,
// which adds little to the error of a sketch of signs. The estimate is
//
//	norm − 2·factor·⟨w, s⟩
//
// for the stored signs s, ±1, up to that rounding. If a coordinate is not finite, or all are too small
// to be scaled, the multipliers are zero. O(width).
func (q *SignQuery) SetSigns(w []float32, width int) {
	const top = 31 // the kernels add four multipliers in a byte
	q.Total, q.Scale = 0, 0
	w = w[:min(len(w), SignBits(width))]
	used := q.Multipliers[:8*width]
	clear(used)
	step := largest(w) / top
	if !scalable(step) {
		return
	}
	q.Total, q.Scale = roundBytes(w, 1/step, used), 2*step
}

// SignScores estimates squared distances from sign sketches of width bytes, a multiple of SignLine of at
// most MaxSignWidth:
//
//	out[i] = norm − factor·(Scale·(2·Σ Multipliers − Total))
//
// where the sum is over the bits that are set in the sketch of row ids[i]. SketchScores documents the
// layout of chunks and rows, and what the caller guarantees. All kernels give the same bits. An id costs
// the cache lines of a sketch, or one more.
func SignScores(q *SignQuery, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32) {
	if len(ids) == 0 || width <= 0 || width > MaxSignWidth || width%SignLine != 0 {
		return
	}
	signScores(q, chunks, shift, width, ids, out[:len(ids)])
}

func signScoresGo(q *SignQuery, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32) {
	mask := uint32(1)<<shift - 1
	for i, id := range ids {
		row := unsafe.Slice((*byte)(unsafe.Add(chunks[id>>shift], int(id&mask)*width)), width)
		sum := int32(0)
		for at := 0; at < width-8; at += 8 {
			for set := binary.LittleEndian.Uint64(row[at:]); set != 0; set &= set - 1 {
				sum += int32(q.Multipliers[8*at+bits.TrailingZeros64(set)])
			}
		}
		factor := math.Float32frombits(binary.LittleEndian.Uint32(row[width-8:]))
		norm := math.Float32frombits(binary.LittleEndian.Uint32(row[width-4:]))
		out[i] = norm - float32(factor*float32(q.Scale*float32(2*sum-q.Total)))
	}
}

// RotateSigns changes the signs of the elements of x whose bits are set in signs, and replaces x by its
// Hadamard transform in natural order: its product with a matrix of ±1 whose rows are orthogonal. The
// norm of x grows by the factor √n. n, the length of x, must be a power of two, and signs has a bit for
// each element; otherwise RotateSigns does nothing. All kernels give the same bits. O(n·log n).
func RotateSigns(x []float32, signs []uint64) {
	if n := len(x); n > 0 && n&(n-1) == 0 && len(signs) >= (n+63)/64 {
		rotateSigns(x, signs)
	}
}

func rotateSignsGo(x []float32, signs []uint64) {
	for i, y := range x {
		x[i] = math.Float32frombits(math.Float32bits(y) ^ uint32(signs[i/64]>>(i%64))<<31)
	}
	for h := 1; h < len(x); h *= 2 {
		for at := 0; at < len(x); at += 2 * h {
			low, high := x[at:at+h], x[at+h:at+2*h]
			for i, a := range low {
				b := high[i]
				low[i], high[i] = a+b, a-b
			}
		}
	}
}
