package vector

import "unsafe"

// MaxIntegerLen is the length up to which the kernels for uint8 vectors cannot
// overflow: 65,536·255² < 2³².
const MaxIntegerLen = 1 << 16

// L2Squared returns Σ(aᵢ-bᵢ)², over the shorter length. O(n), no allocation, like
// every function in this file.
func L2Squared(a, b []float32) float32 {
	return l2Squared(a, b, min(len(a), len(b)))
}

// Dot returns Σaᵢbᵢ, over the shorter length.
func Dot(a, b []float32) float32 {
	return dot(a, b, min(len(a), len(b)))
}

// L2SquaredUint8 returns Σ(aᵢ-bᵢ)², over the shorter length. It is exact for up to
// MaxIntegerLen elements.
func L2SquaredUint8(a, b []uint8) uint32 {
	return l2SquaredUint8(a, b, min(len(a), len(b)))
}

// L2SquaredFloat32Uint8 returns Σ(qᵢ-rowᵢ)² for a float query and a row stored as
// bytes, over the shorter length.
func L2SquaredFloat32Uint8(q []float32, row []uint8) float32 {
	return l2Mixed(q, row, min(len(q), len(row)))
}

// DotFloat32Uint8 returns Σqᵢ·rowᵢ for a float query and a row stored as bytes, over
// the shorter length.
func DotFloat32Uint8(q []float32, row []uint8) float32 {
	return dotMixed(q, row, min(len(q), len(row)))
}

// DotTile computes all dot products of two blocks of row-major vectors:
// out[i*nb+j] = aᵢ·bⱼ for na and nb vectors of dim coordinates. It is the kernel of
// the exact k-NN graph: blocks of 4 by 3 products (6 by 4 with AVX-512) stay in
// registers. A product has the same bits at every position in a tile and in MatVec,
// so results do not depend on how the work is divided; they may differ from Dot in
// the last bits. The slices must hold na·dim, nb·dim and na·nb elements.
// O(na·nb·dim).
func DotTile(a []float32, na int, b []float32, nb, dim int, out []float32) {
	if na <= 0 || nb <= 0 {
		return
	}
	dotTile(a[:na*dim], na, b[:nb*dim], nb, dim, out[:na*nb])
}

// MatVec computes out[i] = mᵢ·x for the rows of a row-major matrix of rows × dim: the
// projection of a query. It is DotTile with one vector, computed eight rows at a time.
// The slices must hold rows·dim, dim and rows elements.
func MatVec(m []float32, rows, dim int, x, out []float32) {
	DotTile(x, 1, m, rows, dim, out)
}

// SketchScores estimates squared distances from row sketches:
//
//	out[i] = norm(idᵢ) - scale·⟨q, sketch(idᵢ)⟩
//
// A sketch has width bytes (64 or 128; other widths work, but slowly): width-4 int8
// coordinates and the row's squared norm, float32 little-endian. The sketch of row id
// is at chunks[id>>shift] + (id mod 2^shift)·width. The caller guarantees that every
// id is in its chunk and that shift is at most 32: the addresses are not checked. q
// holds width coordinates, the last four of them zero, and out len(ids) elements.
// The integer product is exact and rounded once to float32, then scaled, then
// subtracted: all kernels give the same bits. Cost: one to three cache lines per id,
// requested sixteen ids ahead.
func SketchScores(q []int16, scale float32, chunks []unsafe.Pointer, shift uint, width int,
	ids []uint32, out []float32,
) {
	if len(ids) == 0 {
		return
	}
	sketchScores(q[:width], scale, chunks, shift, width, ids, out[:len(ids)])
}
