package store

import (
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"
)

// requests asks the system for pages of the map before they are read. A read of a page that is not in
// memory waits for the disk; pages that are requested first are read together. A request costs a system
// call, so requests remembers the last ones, whose pages are probably still in memory: between a quarter
// and half as many as the memory holds.
type requests struct {
	pages []atomic.Uint32 // the low bits of a page's number, by its lowest bits
	shift int             // of addresses, to numbers of pages
	ask   func([]byte)
}

// newRequests returns requests for a process with some bytes of memory.
func newRequests(memory int64) *requests {
	r := &requests{shift: bits.TrailingZeros(uint(os.Getpagesize())), ask: willNeed}
	r.pages = make([]atomic.Uint32, 1<<min(bits.Len64(uint64(memory)>>r.shift/4), mostRemembered))
	return r
}

const (
	// mostRemembered is the binary logarithm of the largest number of pages that are remembered.
	mostRemembered = 21
	// manyPages is the number of pages from which on a request is always made, and not remembered.
	manyPages = 16
)

// request asks for the pages of b, unless all are remembered.
func (r *requests) request(b []byte) {
	if len(b) == 0 {
		return
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first, last := from>>r.shift, (from+uintptr(len(b))-1)>>r.shift
	known := last-first < manyPages
	for p := first; p <= last && last-first < manyPages; p++ {
		slot := &r.pages[p&uintptr(len(r.pages)-1)]
		if slot.Load() != uint32(p) {
			slot.Store(uint32(p))
			known = false
		}
	}
	if !known {
		r.ask(b)
	}
}
