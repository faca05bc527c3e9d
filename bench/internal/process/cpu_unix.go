//go:build unix

package process

import (
	"syscall"
	"time"
)

// CPU is the time that all threads of the process have worked: unlike the
// clock's, it does not grow while others use the machine.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // no argument of it can be wrong
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
