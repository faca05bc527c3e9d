package store

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// memory returns the number of bytes of memory that the process may use: those of the machine, or fewer
// if a control group limits them; without bound where the system does not tell.
func memory() int64 {
	limit := int64(math.MaxInt64)
	text, _ := os.ReadFile("/proc/meminfo") // which only Linux has
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &limit); err == nil {
		limit <<= 10
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return limit
	}
	return min(limit, groupLimit("/sys/fs/cgroup", string(groups)))
}

// groupLimit returns the least memory limit of the control groups in groups, the lines of
// /proc/self/cgroup, and of the groups that contain them. The limits are in files below folder.
func groupLimit(folder, groups string) int64 {
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		dir, file := folder, "memory.max" // version 2 names no controllers
		switch {
		case slices.Contains(strings.Split(part[1], ","), "memory"):
			dir, file = filepath.Join(folder, "memory"), "memory.limit_in_bytes"
		case part[1] != "":
			continue
		}
		// In a container the path may be that on the machine: then only the root folder exists.
		for path := filepath.Clean(part[2]); ; path = filepath.Dir(path) {
			if text, err := os.ReadFile(filepath.Join(dir, path, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					limit = min(limit, n)
				}
			}
			if path == filepath.Dir(path) {
				break
			}
		}
	}
	return limit
}
