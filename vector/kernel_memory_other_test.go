//go:build !linux

package vector

import "testing"

// fenced returns unprotected memory. The tests that use it still check results.
func fenced(tb testing.TB, size int) []byte {
	tb.Log("no protected pages on this system: the test does not detect reads past a slice")
	return make([]byte, size)
}
