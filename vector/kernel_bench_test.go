package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// benchDims are those of SIFT-like descriptors and of MNIST images.
var benchDims = []int{128, 784}

// benchPairs times kernels on vectors in the first cache.
func benchPairs[A, B number](b *testing.B, kernels []pairKernel[A, B]) {
	benchEachLevel(b, func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, k := range kernels {
			for _, n := range benchDims {
				b.Run(fmt.Sprintf("%s/%d", k.name, n), func(b *testing.B) {
					x, y := make([]A, n), make([]B, n)
					styles[0].fill(r, x)
					styles[0].fill(r, y)
					b.SetBytes(int64(n) * int64(unsafe.Sizeof(x[0])+unsafe.Sizeof(y[0])))
					for b.Loop() {
						k.f(x, y)
					}
				})
			}
		}
	})
}

func BenchmarkKernelFloat32(b *testing.B) { benchPairs(b, floatKernels) }
func BenchmarkKernelUint8(b *testing.B)   { benchPairs(b, uint8Kernels) }
func BenchmarkKernelMixed(b *testing.B)   { benchPairs(b, mixedKernels) }

func BenchmarkKernelCosineDistance(b *testing.B) {
	benchPairs(b, []pairKernel[float32, float32]{
		{"CosineDistance", false, func(x, y []float32) float64 { return float64(CosineDistance(x, y)) }},
	})
}

// BenchmarkKernelTile reports multiply-adds: 24 by 24 vectors fill whole blocks
// at every level.
func BenchmarkKernelTile(b *testing.B) {
	benchEachLevel(b, func(b *testing.B) {
		const n = 24
		for _, dim := range benchDims {
			b.Run(fmt.Sprint(dim), func(b *testing.B) {
				x, y, out := make([]float32, n*dim), make([]float32, n*dim), make([]float32, n*n)
				for b.Loop() {
					DotTile(x, n, y, n, dim, out)
				}
				b.ReportMetric(float64(n*n*dim)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFMA/s")
			})
		}
	})
}

func BenchmarkKernelMatVec(b *testing.B) {
	benchEachLevel(b, func(b *testing.B) {
		const rows = 60
		for _, dim := range benchDims {
			b.Run(fmt.Sprint(dim), func(b *testing.B) {
				m, x, out := make([]float32, rows*dim), make([]float32, dim), make([]float32, rows)
				b.SetBytes(int64(4 * len(m)))
				for b.Loop() {
					MatVec(m, rows, dim, x, out)
				}
			})
		}
	})
}

// BenchmarkKernelSketch scores random rows of a store of 4 or 8 MiB, as a
// search scores its candidates.
func BenchmarkKernelSketch(b *testing.B) {
	benchEachLevel(b, func(b *testing.B) {
		for _, width := range []int{64, 128} {
			b.Run(fmt.Sprint(width), func(b *testing.B) {
				r := rand.New(rand.NewPCG(3, 4))
				sk := newSketches(r, 1<<16, width, 14, styles[0], func(size int) []byte { return make([]byte, size) })
				q := query(r, width, queries[3])
				var ids [64][1000]uint32 // different rows each time, or they stay in the cache
				for i := range ids {
					for j := range ids[i] {
						ids[i][j] = r.Uint32N(uint32(sk.rows))
					}
				}
				out, n := make([]float32, len(ids[0])), 0
				for b.Loop() {
					SketchScores(q, 0.5, sk.chunks, sk.shift, width, ids[n%len(ids)][:], out)
					n++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*len(out)), "ns/row")
			})
		}
	})
}

// BenchmarkKernelSigns scores random rows of a store of 4 to 16 MiB.
func BenchmarkKernelSigns(b *testing.B) {
	benchEachLevel(b, func(b *testing.B) {
		for _, width := range signWidths {
			b.Run(fmt.Sprint(width), func(b *testing.B) {
				r := rand.New(rand.NewPCG(3, 4))
				const rows = 1 << 16
				store := make([]byte, rows*width)
				var q SignQuery
				w := make([]float32, SignBits(width))
				for i := range w {
					w[i] = float32(r.NormFloat64())
				}
				q.SetSigns(w, width)
				var ids [64][1000]uint32 // different rows each time, or they stay in the cache
				for i := range ids {
					for j := range ids[i] {
						ids[i][j] = r.Uint32N(rows)
					}
				}
				out, n := make([]float32, len(ids[0])), 0
				chunks := []unsafe.Pointer{unsafe.Pointer(unsafe.SliceData(store))}
				for b.Loop() {
					SignScores(&q, chunks, 20, width, ids[n%len(ids)][:], out)
					n++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*len(out)), "ns/row")
			})
		}
	})
}
