package vector

import "testing"

func TestKernelSmoke(t *testing.T) {
	for n := range 200 {
		a, b := make([]uint8, n), make([]uint8, n)
		c, d := make([]int8, n), make([]int8, n)
		f, g := make([]float32, n), make([]float32, n)
		for i := range n {
			a[i], b[i] = uint8(i*37), uint8(i*91+5)
			c[i], d[i] = int8(i*37), int8(i*91+5)
			f[i], g[i] = float32(i%7), float32(i%5)
		}
		if DotUint8(a, b) != dotUint8Go(a, b) || L2SquaredUint8(a, b) != l2SquaredUint8Go(a, b) ||
			DotInt8(c, d) != dotInt8Go(c, d) || L2SquaredInt8(c, d) != l2SquaredInt8Go(c, d) ||
			Dot(f, g) != dotGo(f, g) || L2Squared(f, g) != l2SquaredGo(f, g) ||
			DotFloat32Uint8(f, b) != dotMixedGo(f, b) || L2SquaredFloat32Uint8(f, b) != l2MixedGo(f, b) {
			t.Fatal(n)
		}
	}
}
