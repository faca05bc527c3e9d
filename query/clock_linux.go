package query

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock returns the processor time of the calling thread, which other load on the machine does not change.
func clock() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
