package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// childLimit fills a database under a limit of the file size that the system
// enforces.
func childLimit(path string) error {
	const limit = 20 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	acked, failure, err := limited(path, Options{})
	if err != nil {
		return err
	}
	fmt.Println("acked", acked, failure)
	return nil
}

// TestFileSizeLimit fills a file up to the process's limit (EFBIG).
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "full.anndb")
	out, err := child(t, "limit", path).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var acked int
	if _, err := fmt.Sscanf(string(out), "acked %d", &acked); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	t.Log(strings.TrimSpace(string(out)))
	if err := survived(path, acked); err != nil {
		t.Error(err)
	}
}

// TestDiskFull fills a small file system of its own (ENOSPC), by batches, by
// a build, by a compaction, and then makes room again.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("SKIPPED, a full disk is not tested: mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("a map or a file is still open: %v", err)
		}
	})
	path := filepath.Join(dir, "full.anndb")
	acked, failure, err := limited(path, Options{})
	must(t, err)
	t.Logf("%d batches, then: %v", acked, failure)
	d, err := Open(t.Context(), path, nil)
	must(t, err)
	// The compacted file does not fit beside the old one. It fails without
	// harm: the handle goes on writing where pages are free.
	if err := d.Compact(t.Context(), nil); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrUnknownState) {
		t.Errorf("compact: %v, want ErrNoSpace", err)
	}
	err = nil
	for i := 0; err == nil && i < 100; i++ {
		_, err = d.Collection("c").Build(t.Context(), fmt.Sprint("index-", i), &Forest{Learner: "rp", Trees: 8, Depth: 4, NoRotation: true, NoSketches: true, Members: true, Quantize: true, NoTune: true}, nil)
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Errorf("build: %v, want ErrNoSpace", err)
	}
	if err := errors.Join(mustCheck(d), d.Close()); err != nil {
		t.Error(err)
	}
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	if err := survived(path, acked); err != nil {
		t.Error(err)
	}
	if d, err = Open(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(mustLeaveNothing(d), d.Close()); err != nil {
		t.Error(err)
	}
}

// descriptors counts the process's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}

// mapsOf counts the process's maps of a file.
func mapsOf(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return strings.Count(string(text), path)
}

// TestDescriptors opens and closes a database 200 times, in all the ways that
// succeed and fail, and looks for files and maps left open.
func TestDescriptors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.anndb")
	damaged := filepath.Join(dir, "b.anndb")
	must(t, damageDB(path))
	data, err := os.ReadFile(path)
	must(t, err)
	data[40] ^= 4
	must(t, os.WriteFile(damaged, data, 0o600))
	before := descriptors(t)
	for i := range 200 {
		d, err := Open(t.Context(), path, &Options{ReadOnly: i%3 == 0})
		must(t, err)
		must(t, d.View(func(s *Snapshot) error { _, err := s.Collection("small").Get(damageKey(1)); return err }))
		if i%10 == 1 && i%3 != 0 {
			s, err := d.Snapshot()
			must(t, err)
			must(t, d.Compact(t.Context(), nil))
			s.Release()
		}
		if i%10 == 2 {
			if _, err := Open(t.Context(), path, &Options{Timeout: 1}); !errors.Is(err, ErrLocked) {
				t.Fatalf("open twice: %v", err)
			}
		}
		if i%10 == 3 {
			if _, err := Open(t.Context(), damaged, nil); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("open of a damaged file: %v", err)
			}
		}
		must(t, d.Close())
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
	if n := mapsOf(t, dir); n > 0 {
		t.Errorf("%d maps are left", n)
	}
}

// TestReservation opens under limits of the address space, where large
// reservations fail, and falls back to small ones.
func TestReservation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.anndb")
	must(t, damageDB(path))
	for _, gib := range []int{200, 20, 4} {
		out, err := child(t, "space", path, "ANNDB_TEST_GIB="+strconv.Itoa(gib)).Output()
		if err != nil {
			t.Errorf("%d GiB: %v: %s", gib, err, out)
			continue
		}
		t.Logf("%d GiB: %s", gib, strings.TrimSpace(string(out)))
	}
}

// childSpace opens a database with a limited address space.
func childSpace(path string) error {
	gib, err := strconv.Atoi(os.Getenv("ANNDB_TEST_GIB"))
	if err != nil {
		return err
	}
	limit := uint64(gib) << 30
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	d, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	st, err := d.Stats()
	if err == nil && st.MapReserve >= int64(limit) {
		err = fmt.Errorf("reserved %d bytes of %d", st.MapReserve, limit)
	}
	fmt.Println("reserved", st.MapReserve)
	return errors.Join(err, mustCheck(d), d.Close())
}
