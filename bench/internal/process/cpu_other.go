//go:build !unix

package main

import "time"

var started = time.Now()

// cpu is the clock's time where that of the process's threads is not to be had.
func cpu() time.Duration { return time.Since(started) }
