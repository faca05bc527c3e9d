package vector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKernelTile checks the error bound for every shape of tile, compares the bits of
// a product at all its positions, and checks for writes outside the result.
func TestKernelTile(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		dims := []int{0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 50, 63, 64, 65, 100, 128}
		counts := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 25}
		if testing.Short() {
			dims = []int{0, 1, 7, 8, 15, 16, 17, 33, 65}
			counts = []int{0, 1, 3, 4, 6, 7, 13, 17}
		}
		for _, dim := range dims {
			for _, na := range counts {
				for _, nb := range counts {
					a, b := make([]float32, na*dim), make([]float32, nb*dim)
					s := styles[r.IntN(len(styles))]
					s.fill(r, a)
					s.fill(r, b)
					checkTile(t, a, na, b, nb, dim)
				}
			}
		}
		a, b := make([]float32, 13*784), make([]float32, 29*784)
		styles[0].fill(r, a)
		styles[0].fill(r, b)
		checkTile(t, a, 13, b, 29, 784)
	})
}

func checkTile(t *testing.T, a []float32, na int, b []float32, nb, dim int) {
	t.Helper()
	const mark = 12345
	out := make([]float32, na*nb+9)
	for i := range out {
		out[i] = mark
	}
	DotTile(a, na, b, nb, dim, out)
	if i := slices.IndexFunc(out[na*nb:], func(v float32) bool { return v != mark }); i >= 0 {
		t.Fatalf("DotTile %d × %d of %d: wrote element %d", na, nb, dim, na*nb+i)
	}
	single, column := make([]float32, 1), make([]float32, nb)
	for i := range na {
		x := a[i*dim : (i+1)*dim]
		MatVec(b, nb, dim, x, column)
		for j := range nb {
			y := b[j*dim : (j+1)*dim]
			got := out[i*nb+j]
			want, size := exact(false, x, y)
			if !(math.Abs(float64(got)-want) <= bound(dim, size)) {
				t.Fatalf("DotTile %d × %d of %d: product %d, %d is %v, want %v", na, nb, dim, i, j, got, want)
			}
			DotTile(x, 1, y, 1, dim, single)
			bits := math.Float32bits(got)
			if math.Float32bits(single[0]) != bits || math.Float32bits(column[j]) != bits {
				t.Fatalf("DotTile %d × %d of %d: product %d, %d is %v in the tile, %v alone, %v in MatVec",
					na, nb, dim, i, j, got, single[0], column[j])
			}
		}
	}
}

// TestKernelTileFences puts the matrices and the result at the ends and at the
// starts of mapped memory.
func TestKernelTileFences(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		ma, mb := view[float32](fenced(t, 16*70*4)), view[float32](fenced(t, 16*70*4))
		mo := view[float32](fenced(t, 16*16*4))
		r := rand.New(rand.NewPCG(13, 14))
		styles[0].fill(r, ma)
		styles[0].fill(r, mb)
		for dim := range 70 {
			for _, na := range []int{1, 4, 5, 6, 7, 12, 15} {
				for _, nb := range []int{1, 3, 4, 8, 9, 13, 15} {
					for _, end := range []bool{false, true} {
						a, b, out := ma[:na*dim], mb[:nb*dim], mo[:na*nb]
						if end {
							a, b, out = ma[len(ma)-na*dim:], mb[len(mb)-nb*dim:], mo[len(mo)-na*nb:]
						}
						DotTile(a, na, b, nb, dim, out)
						want, size := exact(false, a[(na-1)*dim:], b[(nb-1)*dim:])
						if got := float64(out[na*nb-1]); !(math.Abs(got-want) <= bound(dim, size)) {
							t.Fatalf("DotTile %d × %d of %d: last product %v, want %v", na, nb, dim, got, want)
						}
					}
				}
			}
		}
	})
}

// TestKernelTileNotFinite puts one NaN or infinity into a matrix and checks every
// product.
func TestKernelTileNotFinite(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		const na, nb = 13, 11
		for _, dim := range []int{1, 8, 17, 33} {
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				for i := range na {
					for at := range dim {
						a, b, out := make([]float32, na*dim), make([]float32, nb*dim), make([]float32, na*nb)
						for j := range b {
							b[j] = 1
						}
						a[i*dim+at] = bad
						DotTile(a, na, b, nb, dim, out)
						for j, got := range out {
							want := float32(0)
							if j/nb == i {
								want = bad
							}
							if got != want && (got == got || want == want) {
								t.Fatalf("dim %d, %v in vector %d at %d: product %d is %v", dim, bad, i, at, j, got)
							}
						}
					}
				}
			}
		}
	})
}

func TestDotTileShortSlicesPanic(t *testing.T) {
	x := make([]float32, 12)
	for name, f := range map[string]func(){
		"first":  func() { DotTile(x[:11:11], 3, x, 3, 4, x) },
		"second": func() { DotTile(x, 3, x[:11:11], 3, 4, x) },
		"result": func() { DotTile(x, 3, x, 3, 4, x[:8:8]) },
		"matrix": func() { MatVec(x, 4, 4, x, x) },
		"vector": func() { MatVec(x, 3, 4, x[:3:3], x) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a %s that is too short did not panic", name)
				}
			}()
			f()
		}()
	}
}
