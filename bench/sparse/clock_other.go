//go:build !linux && !darwin

package main

import "time"

var start = time.Now()

// threadTime is wall time, for want of better.
func threadTime() time.Duration { return time.Since(start) }
