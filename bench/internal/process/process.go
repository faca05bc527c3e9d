// Package process reads what Linux counts of the running process. Counts that the system does not have
// are 0.
package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Resident returns the bytes of memory that the process has, files that it maps included.
func Resident() int64 { return number("/proc/self/status", "VmRSS:") << 10 }

// Anonymous returns the bytes of memory that the process has and that the system cannot drop: those that
// are not of files.
func Anonymous() int64 { return number("/proc/self/status", "RssAnon:") << 10 }

// Peak returns the largest value that Resident has had.
func Peak() int64 { return number("/proc/self/status", "VmHWM:") << 10 }

// PeakOf returns the largest value that Resident has had in another process.
func PeakOf(pid int) int64 { return number(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:") << 10 }

// User returns the processor time that the process has spent outside the system, in steps of 10 ms.
func User() time.Duration { return time.Duration(stat(userTime)) * (time.Second / 100) }

// Reads is what the process has read.
type Reads struct {
	Faults int64 // page faults that waited for the disk
	Bytes  int64 // from the disk
}

// ReadSoFar returns what the process has read since its start.
func ReadSoFar() (r Reads) {
	r.Bytes = number("/proc/self/io", "read_bytes:")
	r.Faults = stat(majorFaults)
	return r
}

// Numbers of fields of /proc/self/stat.
const (
	majorFaults = 12
	userTime    = 14 // in hundredths of a second
)

// stat returns a field of /proc/self/stat, 0 if it has none.
func stat(field int) int64 {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The fields after the name of the command, which is in brackets, begin with the third.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= field-3 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[field-3]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// number returns the number after a name in a file, 0 if it has none.
func number(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"+name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
