//go:build !amd64 || purego

package vector

import "testing"

// levels has the only set of kernels in this build.
var levels = map[string]bool{"generic": true}

func force(tb testing.TB, level string) {}
