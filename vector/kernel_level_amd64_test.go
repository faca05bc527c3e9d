//go:build amd64 && !purego

package vector

import "testing"

// levels are the sets of kernels in this build, and whether this processor can run them.
var levels = map[string]bool{"generic": true, "avx2": avx2}

// force makes a set the active one until tb ends.
func force(tb testing.TB, level string) {
	before := avx2
	avx2 = level == "avx2"
	tb.Cleanup(func() { avx2 = before })
}
