//go:build !linux

package store

import "math"

// memory returns the number of bytes of memory that the process may use, which is not known here.
func memory() int64 { return math.MaxInt64 }
