package vector

import (
	"testing"
	"unsafe"
)

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
