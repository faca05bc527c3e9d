package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/torture/internal/history"
)

// histories plays rounds of everything at once and checks what was seen; after
// each, no goroutine, descriptor or map may be left.
func histories(ctx context.Context, e *env) (t totals, err error) {
	length, until := 2*time.Second, time.Now().Add(time.Duration(e.pick(5, 300))*time.Second)
	if e.full {
		length = 5 * time.Second
	}
	for round := 0; round == 0 || time.Now().Add(length).Before(until); round++ {
		path := filepath.Join(e.dir, fmt.Sprintf("round-%d.anndb", round))
		goroutines, descriptors := runtime.NumGoroutine(), openFiles()
		counts, err := history.Play(ctx, path, e.rng(round).Uint64(), length)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			t.add(name, counts[name])
		}
		t.add("rounds", 1)
		if err != nil {
			return t, fmt.Errorf("round %d: %w", round, err)
		}
		if err := leaks(path, goroutines, descriptors); err != nil {
			return t, fmt.Errorf("round %d: %w", round, err)
		}
		if err := os.Remove(path); err != nil {
			return t, err
		}
	}
	return t, nil
}

// openFiles lists what the process has open, but for what the runtime polls by.
func openFiles() (names []string) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, fd := range fds {
		name, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !strings.HasPrefix(name, "anon_inode:") {
			names = append(names, name)
		}
	}
	return names
}

// leaks says what is left of a database that is closed.
func leaks(path string, goroutines int, descriptors []string) error {
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			return fmt.Errorf("%d goroutines are left, %d were before:\n%s", runtime.NumGoroutine(), goroutines, buf[:runtime.Stack(buf, true)])
		}
	}
	if now := openFiles(); len(now) > len(descriptors) {
		return fmt.Errorf("open files are %q, were %q", now, descriptors)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil && strings.Contains(string(maps), path) {
		err = fmt.Errorf("the file is still mapped")
	}
	return err
}
