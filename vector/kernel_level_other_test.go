//go:build !amd64 || purego

package vector

import "testing"

// reference stands for the only set of kernels that this build holds.
type reference struct{}

var levels = []reference{{}}

func (reference) String() string      { return "generic" }
func (reference) supported() bool     { return true }
func (reference) force(tb testing.TB) {}
