//go:build !linux

package query

import "time"

// clock returns the time.
func clock() time.Duration { return time.Duration(time.Now().UnixNano()) }
