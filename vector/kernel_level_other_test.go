//go:build !amd64 || purego

package vector

import "testing"

// reference is the only set of kernels in this build.
type reference struct{}

var levels = []reference{{}}

func (reference) String() string      { return "generic" }
func (reference) supported() bool     { return true }
func (reference) force(tb testing.TB) {}
