//go:build !amd64 || purego

package vector

import "unsafe"

// Without assembly every kernel is its reference.

// KernelName returns the instruction set in use: "avx512", "avx2" or "generic".
func KernelName() string { return "generic" }

func l2Squared(a, b []float32, n int) float32        { return l2SquaredGo(a[:n], b[:n]) }
func dot(a, b []float32, n int) float32              { return dotGo(a[:n], b[:n]) }
func l2SquaredUint8(a, b []uint8, n int) uint32      { return l2SquaredUint8Go(a[:n], b[:n]) }
func l2Mixed(q []float32, r []uint8, n int) float32  { return l2MixedGo(q[:n], r[:n]) }
func dotMixed(q []float32, r []uint8, n int) float32 { return dotMixedGo(q[:n], r[:n]) }

func dotTile(a []float32, na int, b []float32, nb, dim int, out []float32) {
	dotTileGo(a, na, b, nb, dim, out)
}

func sketchScores(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int,
	ids []uint32, out []float32,
) {
	sketchScoresGo(q, scale, chunks, shift, width, ids, out)
}

func packedScores(q *PackedQuery, chunks []unsafe.Pointer, shift uint, ids []uint32, out []float32) {
	packedScoresGo(q, chunks, shift, ids, out)
}

func signScores(q *SignQuery, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32) {
	signScoresGo(q, chunks, shift, width, ids, out)
}

func rotateSigns(x []float32, signs []uint64) { rotateSignsGo(x, signs) }

func matVecBytes(m []int8, rows, stride int, x []uint8, out []int32) {
	matVecBytesGo(m, rows, stride, x, out)
}

func wholeBytes(x []float32, out []uint8) bool { return wholeBytesGo(x, out) }

func largestBits(x []float32) uint32 { return largestBitsGo(x) }

func roundSixteens(x []float32, scale float32, out []int8) int32 { return roundBytesGo(x, scale, out) }

func allFinite(x []float32) bool { return firstNotFinite(x) < 0 }

// Prefetch hints that the bytes from p will be read soon. Without assembly it does
// nothing.
func Prefetch(p unsafe.Pointer, bytes int) {}

func addRows(sum []float64, cells []float32, at []int, x []float64) { addRowsGo(sum, cells, at, x) }

func standardize(out, x, mean, factor []float32) { standardizeGo(out, x, mean, factor) }
