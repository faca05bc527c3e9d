package vector

import (
	"math"
	"testing"
	"unsafe"
)

func TestKernelIsFinite(t *testing.T) {
	bad := []float32{
		float32(math.NaN()), -float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
		math.Float32frombits(0x7f800001),
	}
	good := []float32{0, 1, -math.MaxFloat32, math.MaxFloat32, math.SmallestNonzeroFloat32}
	atEachLevel(t, func(t *testing.T) {
		// Everything around the vector is NaN.
		a := newArena[float32](maxLen())
		poison(a.all)
		for n := range maxLen() + 1 {
			for offset := 0; offset < 64; offset += 4 {
				x := a.at(offset, n)
				for i := range x {
					x[i] = good[i%len(good)]
				}
				if i := IsFinite(x); i != -1 {
					t.Fatalf("%d finite elements: %d", n, i)
				}
				if !allFinite(x) { // IsFinite would scan a second time, slowly
					t.Fatalf("allFinite of %d finite elements is false", n)
				}
				for i := range x {
					if offset != 12 && i%16 != offset/4 {
						continue // every element at one offset, a sample at the others
					}
					keep := x[i]
					x[i] = bad[(i+n)%len(bad)]
					if got := IsFinite(x); got != i {
						t.Fatalf("%d elements, the first bad one is %d: %d", n, i, got)
					}
					x[n-1] = bad[0]
					if got := IsFinite(x); got != i {
						t.Fatalf("%d elements, bad are %d and the last: %d", n, i, got)
					}
					x[n-1] = good[0]
					x[i] = keep
				}
				poison(a.all)
			}
		}
		m := view[float32](fenced(t, 4096))
		for n := range maxLen() {
			if IsFinite(m[:n]) != -1 || IsFinite(m[len(m)-n:]) != -1 {
				t.Fatalf("%d zeros are not finite", n)
			}
		}
	})
}

// TestKernelPrefetch can only check that no address faults.
func TestKernelPrefetch(t *testing.T) {
	m := fenced(t, 4096)
	p := unsafe.Pointer(unsafe.SliceData(m))
	for n := -1; n < 300; n++ {
		Prefetch(p, n)
		Prefetch(unsafe.Pointer(&m[len(m)-1]), n)
		Prefetch(nil, n)
	}
	Prefetch(p, len(m))
}
