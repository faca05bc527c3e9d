//go:build amd64 && !purego

package vector

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// avx2 reports whether the processor can run the assembly. The dispatchers below branch on it rather than
// call through function values: a direct call of a noescape stub lets callers keep their vectors on the
// stack, and the branch is always predicted.
var avx2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2

// KernelName returns the instruction set in use: "avx2" or "generic".
func KernelName() string {
	if avx2 {
		return "avx2"
	}
	return "generic"
}

func l2Squared(a, b []float32, n int) float32 {
	if avx2 {
		return l2SquaredAVX2(unsafe.SliceData(a), unsafe.SliceData(b), n)
	}
	return l2SquaredGo(a[:n], b[:n])
}

func dot(a, b []float32, n int) float32 {
	if avx2 {
		return dotAVX2(unsafe.SliceData(a), unsafe.SliceData(b), n)
	}
	return dotGo(a[:n], b[:n])
}

func l2SquaredUint8(a, b []uint8, n int) uint32 {
	if avx2 {
		return l2SquaredUint8AVX2(unsafe.SliceData(a), unsafe.SliceData(b), n)
	}
	return l2SquaredUint8Go(a[:n], b[:n])
}

func l2Mixed(q []float32, row []uint8, n int) float32 {
	if avx2 {
		return l2MixedAVX2(unsafe.SliceData(q), unsafe.SliceData(row), n)
	}
	return l2MixedGo(q[:n], row[:n])
}

func dotMixed(q []float32, row []uint8, n int) float32 {
	if avx2 {
		return dotMixedAVX2(unsafe.SliceData(q), unsafe.SliceData(row), n)
	}
	return dotMixedGo(q[:n], row[:n])
}

// dotTile computes the products in blocks of 4 by 3, and the rows and columns that do not fill a block as
// matrix-vector products. Both give the same bits.
func dotTile(a []float32, na int, b []float32, nb, dim int, out []float32) {
	const rows, cols = 4, 3
	if !avx2 {
		dotTileGo(a, na, b, nb, dim, out)
		return
	}
	full := nb / cols
	i := 0
	for ; i+rows <= na; i += rows {
		block, to := a[i*dim:(i+rows)*dim], out[i*nb:]
		dotTile4x3AVX2(unsafe.SliceData(block), unsafe.SliceData(b), dim, unsafe.SliceData(to), nb, full)
		for j := full * cols; j < nb; j++ {
			var column [rows]float32
			matVec(block, rows, dim, b[j*dim:(j+1)*dim], column[:])
			for r, v := range column {
				to[r*nb+j] = v
			}
		}
	}
	for ; i < na; i++ {
		matVec(b, nb, dim, a[i*dim:(i+1)*dim], out[i*nb:(i+1)*nb])
	}
}

// matVec computes a matrix-vector product, eight rows at a time, then four, then one.
func matVec(m []float32, rows, dim int, x, out []float32) {
	px := unsafe.SliceData(x)
	eights := rows / 8
	done := eights * 8
	dotTile1x8AVX2(px, unsafe.SliceData(m), dim, unsafe.SliceData(out), 0, eights)
	if rows-done >= 4 {
		dotTile1x4AVX2(px, unsafe.SliceData(m[done*dim:]), dim, unsafe.SliceData(out[done:]), 0, 1)
		done += 4
	}
	dotTile1x1AVX2(px, unsafe.SliceData(m[done*dim:]), dim, unsafe.SliceData(out[done:]), 0, rows-done)
}

// sketchScores has assembly for the two widths of stored sketches.
func sketchScores(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int,
	ids []uint32, out []float32,
) {
	table := (**byte)(unsafe.Pointer(unsafe.SliceData(chunks)))
	pq, pid, po := unsafe.SliceData(q), unsafe.SliceData(ids), unsafe.SliceData(out)
	switch {
	case avx2 && width == 64:
		sketchScores64AVX2(pq, scale, table, uint64(shift), pid, len(ids), po)
	case avx2 && width == 128:
		sketchScores128AVX2(pq, scale, table, uint64(shift), pid, len(ids), po)
	default:
		sketchScoresGo(q, scale, chunks, shift, width, ids, out)
	}
}

func packedScores(q *PackedQuery, chunks []unsafe.Pointer, shift uint, ids []uint32, out []float32) {
	if !avx2 {
		packedScoresGo(q, chunks, shift, ids, out)
		return
	}
	packedScoresAVX2((*byte)(unsafe.Pointer(q)), (**byte)(unsafe.Pointer(unsafe.SliceData(chunks))), uint64(shift),
		unsafe.SliceData(ids), len(ids), unsafe.SliceData(out))
}

func signScores(q *SignQuery, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32) {
	if !avx2 {
		signScoresGo(q, chunks, shift, width, ids, out)
		return
	}
	if n := len(ids); n < 4 {
		// The kernel computes at least four scores.
		var four [4]uint32
		var scores [4]float32
		for i := range four {
			four[i] = ids[min(i, n-1)]
		}
		signScores(q, chunks, shift, width, four[:], scores[:])
		copy(out, scores[:])
		return
	}
	signScoresAVX2((*byte)(unsafe.Pointer(q)), uint64(width), (**byte)(unsafe.Pointer(unsafe.SliceData(chunks))),
		uint64(shift), unsafe.SliceData(ids), len(ids), unsafe.SliceData(out))
}

func rotateSigns(x []float32, signs []uint64) {
	if n := len(x); avx2 && n >= 64 {
		rotateSignsAVX2(unsafe.SliceData(x), unsafe.SliceData(signs), n)
		return
	}
	rotateSignsGo(x, signs)
}

func matVecBytes(m []int8, rows, stride int, x []uint8, out []int32) {
	if !avx2 {
		matVecBytesGo(m, rows, stride, x, out)
		return
	}
	matVecBytesAVX2(unsafe.SliceData(m), rows, stride, unsafe.SliceData(x), unsafe.SliceData(out))
}

func addRows(sum []float64, cells []float32, at []int, x []float64) {
	if !avx2 {
		addRowsGo(sum, cells, at, x)
		return
	}
	addRowsAVX2(unsafe.SliceData(sum), len(sum), unsafe.SliceData(cells),
		unsafe.SliceData(at), unsafe.SliceData(x), len(at))
}

// Prefetch hints that the bytes from p will be read soon: it requests every cache
// line of them. It never faults, and does nothing unless bytes is positive.
func Prefetch(p unsafe.Pointer, bytes int) {
	prefetchLines((*byte)(p), bytes)
}
