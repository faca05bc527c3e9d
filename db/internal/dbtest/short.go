package dbtest

import "testing"

// Whole skips a test with -short, as the race detector runs: its work has no concurrency of its own that
// other tests do not have.
func Whole(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: the test command runs it")
	}
}
