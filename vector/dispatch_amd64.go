//go:build amd64 && !purego

package vector

import "unsafe"

func best() kernels { return generic }

// Prefetch is a hint to load bytes from p into the cache; nothing here.
func Prefetch(unsafe.Pointer, int) {}
