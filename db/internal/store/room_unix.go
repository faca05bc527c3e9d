//go:build linux || darwin || freebsd || dragonfly

package store

import "golang.org/x/sys/unix"

// Room returns the number of bytes that the process may still write to the file system of a
// directory, UnknownRoom if the system does not tell. It is a variable so that tests can lack room.
var Room = func(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return UnknownRoom
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
