//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpu is the time that all threads of the process have worked: unlike the
// clock's, it does not grow while others use the machine.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // no argument of it can be wrong
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
