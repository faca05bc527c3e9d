//go:build unix && !aix && !solaris

package db

import (
	"os"
	"unsafe"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// adviseNormal gives the map its readahead back. It is advice: failing is no
// error, only slower.
func adviseNormal(info *bbolt.Info, size int64) {
	if info.Data == 0 || size <= 0 {
		return
	}
	// The address is of mapped memory, which no garbage collector moves.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&info.Data))
	_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_NORMAL)
}

// unlock gives up bbolt's lock on a file, if it is still open.
func unlock(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	// Failing, like advice that fails, changes nothing.
	_ = raw.Control(func(fd uintptr) { _ = unix.Flock(int(fd), unix.LOCK_UN) })
}
