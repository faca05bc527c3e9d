//go:build unix

package store

import (
	"os"
	"syscall"
)

// links returns the number of names of a file; ok is false if it is not known.
func links(info os.FileInfo) (n uint64, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(s.Nlink), true
}
