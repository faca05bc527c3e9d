//go:build linux || darwin || freebsd || dragonfly

package store

import (
	"os"
	"syscall"
	"unsafe"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// adviseNormal restores readahead for the map. Failures are ignored: the advice only affects
// speed.
func adviseNormal(info *bbolt.Info, size int64) {
	if info.Data == 0 || size <= 0 {
		return
	}
	// The address points to mapped memory, which the garbage collector does not move.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&info.Data))
	_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_NORMAL)
}

// willNeed asks the system to read the pages of a part of the map. Failures are ignored as well.
func willNeed(b []byte) {
	if len(b) == 0 {
		return
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	before := int(uintptr(p) % uintptr(os.Getpagesize()))
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(p, -before)), before+len(b)), unix.MADV_WILLNEED)
}

// unlock releases bbolt's lock on a file if the file is still open.
func unlock(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	// A failure is ignored: the lock then lasts until the process ends.
	_ = raw.Control(func(fd uintptr) { _ = unix.Flock(int(fd), unix.LOCK_UN) })
}

// links returns the number of names of a file, 1 if it is not known.
func links(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// Room returns the number of bytes that the process may still write to the file system of a
// directory, UnknownRoom if the system does not tell. It is a variable so that tests can lack room.
var Room = func(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return UnknownRoom
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
