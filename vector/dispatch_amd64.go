//go:build amd64 && !purego

package vector

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// instructions is a set of kernels. The dispatchers below switch on it rather
// than call through function values: a direct call of a noescape stub lets
// callers keep their vectors on the stack, and the branch is always predicted.
type instructions uint8

const (
	genericSet instructions = iota
	avx2Set
	avx512Set
)

// active is the best set that this processor supports.
var active = detect()

func detect() instructions {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasBMI2:
		return genericSet
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ:
		return avx512Set
	}
	return avx2Set
}

// KernelName returns the instruction set in use: "avx512", "avx2" or "generic".
func KernelName() string { return active.String() }

func (s instructions) String() string {
	return [...]string{"generic", "avx2", "avx512"}[s]
}

func l2Squared(a, b []float32, n int) float32 {
	switch active {
	case avx512Set:
		return l2SquaredAVX512(unsafe.SliceData(a), unsafe.SliceData(b), n)
	case avx2Set:
		return l2SquaredAVX2(unsafe.SliceData(a), unsafe.SliceData(b), n)
	}
	return l2SquaredGo(a[:n], b[:n])
}

func dot(a, b []float32, n int) float32 {
	switch active {
	case avx512Set:
		return dotAVX512(unsafe.SliceData(a), unsafe.SliceData(b), n)
	case avx2Set:
		return dotAVX2(unsafe.SliceData(a), unsafe.SliceData(b), n)
	}
	return dotGo(a[:n], b[:n])
}

func l2SquaredUint8(a, b []uint8, n int) uint32 {
	switch active {
	case avx512Set:
		return l2SquaredUint8AVX512(unsafe.SliceData(a), unsafe.SliceData(b), n)
	case avx2Set:
		return l2SquaredUint8AVX2(unsafe.SliceData(a), unsafe.SliceData(b), n)
	}
	return l2SquaredUint8Go(a[:n], b[:n])
}

func l2Mixed(q []float32, row []uint8, n int) float32 {
	switch active {
	case avx512Set:
		return l2MixedAVX512(unsafe.SliceData(q), unsafe.SliceData(row), n)
	case avx2Set:
		return l2MixedAVX2(unsafe.SliceData(q), unsafe.SliceData(row), n)
	}
	return l2MixedGo(q[:n], row[:n])
}

func dotMixed(q []float32, row []uint8, n int) float32 {
	switch active {
	case avx512Set:
		return dotMixedAVX512(unsafe.SliceData(q), unsafe.SliceData(row), n)
	case avx2Set:
		return dotMixedAVX2(unsafe.SliceData(q), unsafe.SliceData(row), n)
	}
	return dotMixedGo(q[:n], row[:n])
}

func dotTile(a []float32, na int, b []float32, nb, dim int, out []float32) {
	active.dotTile(a, na, b, nb, dim, out)
}

func sketchScores(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int,
	ids []uint32, out []float32,
) {
	active.sketchScores(q, scale, chunks, shift, width, ids, out)
}

func packedScores(q *PackedQuery, chunks []unsafe.Pointer, shift uint, ids []uint32, out []float32) {
	table, pq := (**byte)(unsafe.Pointer(unsafe.SliceData(chunks))), (*byte)(unsafe.Pointer(q))
	pid, po := unsafe.SliceData(ids), unsafe.SliceData(out)
	switch active {
	case avx512Set:
		packedScoresAVX512(pq, table, uint64(shift), pid, len(ids), po)
	case avx2Set:
		packedScoresAVX2(pq, table, uint64(shift), pid, len(ids), po)
	default:
		packedScoresGo(q, chunks, shift, ids, out)
	}
}

func signScores(q *SignQuery, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32) {
	if active == genericSet {
		signScoresGo(q, chunks, shift, width, ids, out)
		return
	}
	if n := len(ids); n < 4 {
		// The kernels compute at least four scores.
		var four [4]uint32
		var scores [4]float32
		for i := range four {
			four[i] = ids[min(i, n-1)]
		}
		signScores(q, chunks, shift, width, four[:], scores[:])
		copy(out, scores[:])
		return
	}
	table, pq := (**byte)(unsafe.Pointer(unsafe.SliceData(chunks))), (*byte)(unsafe.Pointer(q))
	pid, po := unsafe.SliceData(ids), unsafe.SliceData(out)
	if active == avx512Set {
		signScoresAVX512(pq, uint64(width), table, uint64(shift), pid, len(ids), po)
	} else {
		signScoresAVX2(pq, uint64(width), table, uint64(shift), pid, len(ids), po)
	}
}

func rotateSigns(x []float32, signs []uint64) {
	switch n := len(x); {
	case active == avx512Set && n >= 256:
		rotateSignsAVX512(unsafe.SliceData(x), unsafe.SliceData(signs), n)
	case active != genericSet && n >= 64:
		rotateSignsAVX2(unsafe.SliceData(x), unsafe.SliceData(signs), n)
	default:
		rotateSignsGo(x, signs)
	}
}

func matVecBytes(m []int8, rows, stride int, x []uint8, out []int32) {
	switch active {
	case avx512Set:
		matVecBytesAVX512(unsafe.SliceData(m), rows, stride, unsafe.SliceData(x), unsafe.SliceData(out))
	case avx2Set:
		matVecBytesAVX2(unsafe.SliceData(m), rows, stride, unsafe.SliceData(x), unsafe.SliceData(out))
	default:
		matVecBytesGo(m, rows, stride, x, out)
	}
}

func wholeBytes(x []float32, out []uint8) bool {
	n := 0
	if active != genericSet {
		n = len(x) &^ 7
		if !wholeBytesAVX2(unsafe.SliceData(x), n, unsafe.SliceData(out)) {
			return false
		}
	}
	return wholeBytesGo(x[n:], out[n:])
}

func largestBits(x []float32) uint32 {
	if active == genericSet {
		return largestBitsGo(x)
	}
	return largestBitsAVX2(unsafe.SliceData(x), len(x))
}

func roundSixteens(x []float32, scale float32, out []int8) int32 {
	if active == genericSet {
		return roundBytesGo(x, scale, out)
	}
	return roundSixteensAVX2(unsafe.SliceData(x), len(x), scale, unsafe.SliceData(out))
}

func addRows(sum []float64, cells []float32, at []int, x []float64) {
	if active == genericSet {
		addRowsGo(sum, cells, at, x)
		return
	}
	addRowsAVX2(unsafe.SliceData(sum), len(sum), unsafe.SliceData(cells),
		unsafe.SliceData(at), unsafe.SliceData(x), len(at))
}

func standardize(out, x, mean, factor []float32) {
	n := 0
	if active != genericSet {
		n = len(x) &^ 7
		standardizeAVX2(unsafe.SliceData(out), unsafe.SliceData(x), unsafe.SliceData(mean),
			unsafe.SliceData(factor), n)
	}
	standardizeGo(out[n:], x[n:], mean[n:], factor[n:])
}

func allFinite(x []float32) bool {
	if active == genericSet {
		return firstNotFinite(x) < 0
	}
	return allFiniteAVX2(unsafe.SliceData(x), len(x))
}

// Prefetch hints that the bytes from p will be read soon: it requests every cache
// line of them. It never faults, and does nothing unless bytes is positive.
func Prefetch(p unsafe.Pointer, bytes int) {
	prefetchLines((*byte)(p), bytes)
}

// dotTile computes the products in large register blocks, and the rows and columns
// that do not fill a block as matrix-vector products. Both give the same bits.
func (s instructions) dotTile(a []float32, na int, b []float32, nb, dim int, out []float32) {
	rows, cols := 4, 3
	switch s {
	case avx512Set:
		rows, cols = 6, 4
	case genericSet:
		dotTileGo(a, na, b, nb, dim, out)
		return
	}
	full := nb / cols
	i := 0
	for ; i+rows <= na; i += rows {
		block, to := a[i*dim:(i+rows)*dim], out[i*nb:]
		if s == avx512Set {
			dotTile6x4AVX512(unsafe.SliceData(block), unsafe.SliceData(b), dim, unsafe.SliceData(to), nb, full)
		} else {
			dotTile4x3AVX2(unsafe.SliceData(block), unsafe.SliceData(b), dim, unsafe.SliceData(to), nb, full)
		}
		for j := full * cols; j < nb; j++ {
			var column [8]float32
			s.matVec(block, rows, dim, b[j*dim:(j+1)*dim], column[:])
			for r, v := range column[:rows] {
				to[r*nb+j] = v
			}
		}
	}
	for ; i < na; i++ {
		s.matVec(b, nb, dim, a[i*dim:(i+1)*dim], out[i*nb:(i+1)*nb])
	}
}

// matVec computes a matrix-vector product, eight rows at a time, then four, then one.
func (s instructions) matVec(m []float32, rows, dim int, x, out []float32) {
	px := unsafe.SliceData(x)
	eights := rows / 8
	done := eights * 8
	if s == avx512Set {
		dotTile1x8AVX512(px, unsafe.SliceData(m), dim, unsafe.SliceData(out), 0, eights)
		if rows-done >= 4 {
			dotTile1x4AVX512(px, unsafe.SliceData(m[done*dim:]), dim, unsafe.SliceData(out[done:]), 0, 1)
			done += 4
		}
		dotTile1x1AVX512(px, unsafe.SliceData(m[done*dim:]), dim, unsafe.SliceData(out[done:]), 0, rows-done)
		return
	}
	dotTile1x8AVX2(px, unsafe.SliceData(m), dim, unsafe.SliceData(out), 0, eights)
	if rows-done >= 4 {
		dotTile1x4AVX2(px, unsafe.SliceData(m[done*dim:]), dim, unsafe.SliceData(out[done:]), 0, 1)
		done += 4
	}
	dotTile1x1AVX2(px, unsafe.SliceData(m[done*dim:]), dim, unsafe.SliceData(out[done:]), 0, rows-done)
}

// sketchScores has assembly for the two widths of stored sketches.
func (s instructions) sketchScores(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int,
	ids []uint32, out []float32,
) {
	if s == genericSet || width != 64 && width != 128 {
		sketchScoresGo(q, scale, chunks, shift, width, ids, out)
		return
	}
	table := (**byte)(unsafe.Pointer(unsafe.SliceData(chunks)))
	pq, pid, po := unsafe.SliceData(q), unsafe.SliceData(ids), unsafe.SliceData(out)
	switch {
	case s == avx512Set && width == 64:
		sketchScores64AVX512(pq, scale, table, uint64(shift), pid, len(ids), po)
	case s == avx512Set:
		sketchScores128AVX512(pq, scale, table, uint64(shift), pid, len(ids), po)
	case width == 64:
		sketchScores64AVX2(pq, scale, table, uint64(shift), pid, len(ids), po)
	default:
		sketchScores128AVX2(pq, scale, table, uint64(shift), pid, len(ids), po)
	}
}
