package vector

import "unsafe"

// MaxIntegerLen is the longest uint8 or int8 vector whose kernels cannot
// overflow: 65,536 · 255² < 2³².
const MaxIntegerLen = 1 << 16

// kernels is one set of implementations; active is chosen once at start.
// Slices handed to a kernel have equal lengths.
type kernels struct {
	name         string
	l2Squared    func(a, b []float32) float32
	dot          func(a, b []float32) float32
	l2SquaredU8  func(a, b []uint8) uint32
	dotU8        func(a, b []uint8) uint32
	l2SquaredI8  func(a, b []int8) int32
	dotI8        func(a, b []int8) int32
	l2Mixed      func(q []float32, row []uint8) float32
	dotMixed     func(q []float32, row []uint8) float32
	dotTile      func(a []float32, na int, b []float32, nb, dim int, out []float32)
	sketchScores func(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32)
}

var generic = kernels{
	name: "generic", l2Squared: l2SquaredGo, dot: dotGo,
	l2SquaredU8: l2SquaredUint8Go, dotU8: dotUint8Go,
	l2SquaredI8: l2SquaredInt8Go, dotI8: dotInt8Go,
	l2Mixed: l2SquaredMixedGo, dotMixed: dotMixedGo,
	dotTile: dotTileGo, sketchScores: sketchScoresGo,
}

var active = best()

// KernelName is the instruction set in use: "avx512", "avx2" or "generic".
func KernelName() string { return active.name }

// L2Squared is Σ(aᵢ-bᵢ)², over the shorter length.
func L2Squared(a, b []float32) float32 {
	n := min(len(a), len(b))
	return active.l2Squared(a[:n], b[:n])
}

// Dot is Σaᵢbᵢ, over the shorter length.
func Dot(a, b []float32) float32 {
	n := min(len(a), len(b))
	return active.dot(a[:n], b[:n])
}

// L2SquaredUint8 is Σ(aᵢ-bᵢ)² exactly, over the shorter length, up to
// MaxIntegerLen elements.
func L2SquaredUint8(a, b []uint8) uint32 {
	n := min(len(a), len(b))
	return active.l2SquaredU8(a[:n], b[:n])
}

// DotUint8 is Σaᵢbᵢ exactly, over the shorter length, up to MaxIntegerLen
// elements.
func DotUint8(a, b []uint8) uint32 {
	n := min(len(a), len(b))
	return active.dotU8(a[:n], b[:n])
}

// L2SquaredInt8 is Σ(aᵢ-bᵢ)² exactly, over the shorter length, up to
// MaxIntegerLen/2 elements.
func L2SquaredInt8(a, b []int8) int32 {
	n := min(len(a), len(b))
	return active.l2SquaredI8(a[:n], b[:n])
}

// DotInt8 is Σaᵢbᵢ exactly, over the shorter length, up to MaxIntegerLen
// elements.
func DotInt8(a, b []int8) int32 {
	n := min(len(a), len(b))
	return active.dotI8(a[:n], b[:n])
}

// L2SquaredFloat32Uint8 is Σ(qᵢ-rowᵢ)² for a float query and a row stored in
// eight bits, over the shorter length.
func L2SquaredFloat32Uint8(q []float32, row []uint8) float32 {
	n := min(len(q), len(row))
	return active.l2Mixed(q[:n], row[:n])
}

// DotFloat32Uint8 is Σqᵢ·rowᵢ for a float query and a row stored in eight
// bits, over the shorter length.
func DotFloat32Uint8(q []float32, row []uint8) float32 {
	n := min(len(q), len(row))
	return active.dotMixed(q[:n], row[:n])
}

// DotTile computes all dot products of two blocks of row-major vectors:
// out[i*nb+j] = aᵢ·bⱼ for na and nb vectors of dim coordinates. It is the
// kernel of exact k-NN labels: register-blocked, 4 rows by 3. The slices must
// hold na·dim, nb·dim and na·nb elements.
func DotTile(a []float32, na int, b []float32, nb, dim int, out []float32) {
	a, b, out = a[:na*dim], b[:nb*dim], out[:na*nb]
	if na > 0 && nb > 0 {
		active.dotTile(a, na, b, nb, dim, out)
	}
}

// MatVec computes out[i] = mᵢ·x for the rows of a row-major matrix of rows ×
// dim: the projection of a query.
func MatVec(m []float32, rows, dim int, x, out []float32) {
	DotTile(x, 1, m, rows, dim, out)
}

// SketchScores estimates squared distances from row sketches:
//
//	out[i] = norm(idᵢ) - scale·⟨q, sketch(idᵢ)⟩
//
// A sketch has width bytes (64 or 128): width-4 int8 coordinates and the
// row's squared norm, float32 little-endian. Row id lies at
// chunks[id>>shift] + (id mod 2^shift)·width; the caller guarantees that every
// id lies in its chunk. q holds width coordinates, the last four zero. All
// kernels give equal bits. Cost: one or two cache lines an id, prefetched.
func SketchScores(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int, ids []uint32, out []float32) {
	if len(ids) == 0 {
		return
	}
	active.sketchScores(q[:width], scale, chunks, shift, width, ids, out[:len(ids)])
}

// AddVotes adds each label's weight to its counter: votes[labels[i]] +=
// weights[i], the numerator of the natural classifier (Hyvönen 2022, equation
// 4). Labels beyond votes panic like any slice index.
func AddVotes(votes []uint16, labels []uint16, weights []uint8) {
	weights = weights[:len(labels)]
	for i, l := range labels {
		votes[l] += uint16(weights[i])
	}
}
