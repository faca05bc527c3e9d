package vector

import (
	"testing"
	"unsafe"
)

// TestKernelAllocations keeps its vectors on the stack, so that it also detects a
// kernel whose arguments escape.
func TestKernelAllocations(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		chunk := make([]byte, 64*128)
		for name, f := range map[string]func(){
			"L2Squared":             func() { var a, b [99]float32; L2Squared(a[:], b[:]) },
			"Dot":                   func() { var a, b [99]float32; Dot(a[:], b[:]) },
			"CosineDistance":        func() { var a, b [99]float32; CosineDistance(a[:], b[:]) },
			"IsFinite":              func() { var a [99]float32; IsFinite(a[:]) },
			"L2SquaredUint8":        func() { var a, b [99]uint8; L2SquaredUint8(a[:], b[:]) },
			"L2SquaredFloat32Uint8": func() { var a [99]float32; var b [99]uint8; L2SquaredFloat32Uint8(a[:], b[:]) },
			"DotFloat32Uint8":       func() { var a [99]float32; var b [99]uint8; DotFloat32Uint8(a[:], b[:]) },
			"DotTile":               func() { var a, b, c [169]float32; DotTile(a[:], 13, b[:], 13, 13, c[:]) },
			"MatVec":                func() { var a, b, c [169]float32; MatVec(a[:], 13, 13, b[:], c[:]) },
			"RotateSigns":           func() { var a [64]float32; var s [1]uint64; RotateSigns(a[:], s[:]) },
			"Scale":                 func() { var a, b [99]float32; Scale(a[:], 1, b[:]) },
			"Prefetch":              func() { var a [99]byte; Prefetch(unsafe.Pointer(&a), 99) },
			"SketchScores": func() {
				var q [64]int16
				var ids [33]uint32
				var out [33]float32
				chunks := [1]unsafe.Pointer{unsafe.Pointer(&chunk[0])}
				SketchScores(q[:], 1, chunks[:], 7, 64, ids[:], out[:])
			},
			"SignScores": func() {
				var q SignQuery
				var w [99]float32
				q.SetSigns(w[:], 64)
				var ids [3]uint32
				var out [3]float32
				chunks := [1]unsafe.Pointer{unsafe.Pointer(&chunk[0])}
				SignScores(&q, chunks[:], 7, 64, ids[:], out[:])
			},
		} {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	})
}
