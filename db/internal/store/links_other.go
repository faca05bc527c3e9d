//go:build !unix

package store

import "os"

// links returns the number of names of a file; ok is false if it is not known.
func links(os.FileInfo) (n uint64, ok bool) { return 0, false }
