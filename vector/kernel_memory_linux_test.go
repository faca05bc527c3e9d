package vector

import (
	"os"
	"syscall"
	"testing"
)

// fenced returns at least size bytes of memory between two pages whose every
// access faults, so that a kernel that reads outside its slices crashes.
func fenced(tb testing.TB, size int) []byte {
	page := os.Getpagesize()
	size = (size + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			tb.Error(err)
		}
	})
	for _, fence := range [][]byte{all[:page], all[page+size:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			tb.Fatal(err)
		}
	}
	return all[page : page+size : page+size]
}
