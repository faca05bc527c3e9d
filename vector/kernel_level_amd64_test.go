//go:build amd64 && !purego

package vector

import "testing"

// levels are the sets of kernels in this build.
var levels = []instructions{genericSet, avx2Set, avx512Set}

// supported reports whether this processor can run the kernels of s.
func (s instructions) supported() bool { return s <= detect() }

// force makes s the active set until tb ends.
func (s instructions) force(tb testing.TB) {
	before := active
	active = s
	tb.Cleanup(func() { active = before })
}
