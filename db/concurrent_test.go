package db

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain becomes a child process where a test has asked for one, and
// otherwise runs the tests and fails when they leave goroutines behind.
func TestMain(m *testing.M) {
	if mode := os.Getenv(envChild); mode != "" {
		os.Exit(childMain(mode))
	}
	goleak.VerifyTestMain(m)
}
