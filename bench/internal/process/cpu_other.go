//go:build !unix

package process

import "time"

var started = time.Now()

// CPU is the clock's time where that of the process's threads is not to be had.
func CPU() time.Duration { return time.Since(started) }
