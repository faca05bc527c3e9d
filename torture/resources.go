package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/torture/internal/work"
)

// scarcePlan is what happens besides batches while something runs out.
var scarcePlan = work.Plan{Every: 2, Steps: []string{work.Build, work.Backup, work.Maintain, work.Compact, work.Drop}, Until: 20}

// scarceChild works under a limit that the system enforces until the work is
// done or fails: arguments are the path, the seed of the script, the limit and
// its value. Under a limit of descriptors, steps may fail and the work goes on.
func scarceChild(args []string) error {
	seed, err1 := strconv.ParseUint(args[1], 10, 64)
	value, err2 := strconv.ParseUint(args[3], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	// The runtime, not the database, would die of a poller it cannot have.
	r, w, err := os.Pipe()
	if err := errors.Join(err, r.Close(), w.Close()); err != nil {
		return err
	}
	limit, ok := map[string]int{"none": -1, "file size": syscall.RLIMIT_FSIZE, "descriptors": syscall.RLIMIT_NOFILE, "address space": syscall.RLIMIT_AS}[args[2]]
	if !ok {
		return fmt.Errorf("limit %q", args[2])
	}
	if limit >= 0 {
		if err := syscall.Setrlimit(limit, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return err
		}
	}
	end := func(err error) error {
		kind := "error"
		switch {
		case err == nil:
			kind = "done"
		case errors.Is(err, db.ErrNoSpace):
			kind = "no space"
		case errors.Is(err, syscall.EMFILE):
			kind = "no descriptor"
		case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
			kind = "read-only"
		}
		fmt.Printf("ended %s\t%s\n", kind, strings.ReplaceAll(fmt.Sprint(err), "\n", "; "))
		return nil
	}
	// The default reservation is what a small address space must refuse.
	d, err := db.Open(context.Background(), args[0], &db.Options{Timeout: 10 * time.Second, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return end(err)
	}
	ctx, s := context.Background(), killScript(seed)
	for {
		err = s.Run(ctx, d, scarcePlan, func(n int, step string) { fmt.Println("acked", n, step) })
		if !errors.Is(err, syscall.EMFILE) || errors.Is(err, db.ErrUnknownState) {
			break
		}
		fmt.Println("again")
	}
	// Whatever has failed, what is committed can still be read.
	read := d.View(func(v *db.Snapshot) error {
		_, err := s.VerifySnapshot(ctx, v)
		return err
	})
	if read != nil && !errors.Is(read, syscall.EMFILE) {
		return fmt.Errorf("reading after %v: %w", err, read)
	}
	if err := d.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return end(err)
}

// scarce runs a child and returns how many batches it acknowledged and how it
// ended.
func scarce(ctx context.Context, e *env, path string, seed uint64, limit string, value uint64) (acked int, kind, detail string, err error) {
	c := e.child(ctx, "resources", path, fmt.Sprint(seed), limit, fmt.Sprint(value))
	err = lines(c, func(line string) error {
		var n int
		switch k, _ := fmt.Sscanf(line, "acked %d", &n); {
		case k == 1:
			acked = n
		case line == "again":
		case strings.HasPrefix(line, "ended "):
			kind, detail, _ = strings.Cut(strings.TrimPrefix(line, "ended "), "\t")
		default:
			return fmt.Errorf("line %q", line)
		}
		return nil
	})
	if err == nil && kind == "" {
		err = errors.New("the child died")
	}
	return acked, kind, detail, err
}

// resources takes away disk space, file size, descriptors, the right to write
// and address space, each at many points: errors of their kind, no death, and
// what was acknowledged is there when there is room again.
func resources(ctx context.Context, e *env) (t totals, err error) {
	parts := []struct {
		name string
		try  func(ctx context.Context, e *env, dir string, i int) (string, error)
	}{
		{"full disk", fullDisk}, {"file size", fileSize}, {"descriptors", fewDescriptors}, {"read-only directory", readOnlyDirectory}, {"address space", addressSpace},
	}
	for _, p := range parts {
		for i := range e.pick(3, 50) {
			dir, err := e.sub(fmt.Sprintf("%s-%d", strings.ReplaceAll(p.name, " ", "-"), i))
			if err != nil {
				return t, err
			}
			outcome, err := p.try(ctx, e, dir, i)
			var skip skipError
			if errors.As(err, &skip) {
				t.skip("%s: %s", p.name, skip)
				break
			}
			if err != nil {
				return t, fmt.Errorf("%s, point %d: %w", p.name, i, err)
			}
			t.add(p.name+": "+outcome, 1)
			if err := os.RemoveAll(dir); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// small mounts a file system of its own, of so many bytes.
func small(dir string, bytes uint64) (resize func(options string, flags uintptr) error, umount func() error, err error) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", bytes)); err != nil {
		return nil, nil, skipped("mounting a small file system needs root: %v", err)
	}
	resize = func(options string, flags uintptr) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, options)
	}
	return resize, func() error { return syscall.Unmount(dir, 0) }, nil
}

// mustEnd makes any end but these an error.
func mustEnd(kind, detail string, allowed ...string) error {
	for _, k := range allowed {
		if k == kind {
			return nil
		}
	}
	return fmt.Errorf("the child ended with %q: %s", kind, detail)
}

// verified verifies a file after its child, and that work can go on.
func verified(ctx context.Context, path string, seed uint64, acked int) error {
	s := killScript(seed)
	n, err := s.Verify(ctx, path, acked, 1)
	if err != nil {
		return fmt.Errorf("%d batches were acknowledged: %w", acked, err)
	}
	d, err := db.Open(ctx, path, work.Options())
	if err != nil {
		return err
	}
	err = s.Run(ctx, d, work.Plan{Every: 1, Steps: []string{work.Build, work.Compact}, Until: n + 2}, func(int, string) {})
	return errors.Join(err, d.Close())
}

func fullDisk(ctx context.Context, e *env, dir string, i int) (outcome string, err error) {
	rng, seed := e.rng("full disk", i), e.seed+uint64(i)
	resize, umount, err := small(dir, 192<<10+rng.Uint64N(4<<20))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, umount()) }()
	path := filepath.Join(dir, "full.anndb")
	acked, kind, detail, err := scarce(ctx, e, path, seed, "none", 0)
	if err == nil {
		// A backup is written by its caller, whose errors are the system's.
		if err = mustEnd(kind, detail, "no space", "done"); err != nil && strings.Contains(detail, work.Backup) && strings.Contains(detail, syscall.ENOSPC.Error()) {
			kind, err = "no space", nil
		}
	}
	if err == nil {
		err = resize("size=256m", 0)
	}
	if err == nil {
		err = verified(ctx, path, seed, acked)
	}
	return kind, err
}

func fileSize(ctx context.Context, e *env, dir string, i int) (string, error) {
	rng, seed := e.rng("file size", i), e.seed+uint64(i)
	path := filepath.Join(dir, "limited.anndb")
	acked, kind, detail, err := scarce(ctx, e, path, seed, "file size", 32<<10+rng.Uint64N(14<<20))
	if err == nil {
		if err = mustEnd(kind, detail, "no space", "done"); err != nil && strings.Contains(detail, work.Backup) && strings.Contains(detail, syscall.EFBIG.Error()) {
			kind, err = "no space", nil
		}
	}
	if err == nil {
		err = verified(ctx, path, seed, acked)
	}
	return kind, err
}

func fewDescriptors(ctx context.Context, e *env, dir string, i int) (string, error) {
	seed := e.seed + uint64(i)
	path := filepath.Join(dir, "few.anndb")
	// Six are the standard ones and the runtime's.
	acked, kind, detail, err := scarce(ctx, e, path, seed, "descriptors", 6+uint64(i%10))
	if err == nil {
		err = mustEnd(kind, detail, "no descriptor", "done")
	}
	if err == nil {
		err = verified(ctx, path, seed, acked)
	}
	return kind, err
}

func readOnlyDirectory(ctx context.Context, e *env, dir string, i int) (outcome string, err error) {
	rng, seed := e.rng("read-only", i), e.seed+uint64(i)
	resize, umount, err := small(dir, 256<<20)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, umount()) }()
	path := filepath.Join(dir, "fixed.anndb")
	n := 0
	if i%5 != 0 { // else there is no file yet
		d, err := db.Open(ctx, path, work.Options())
		if err != nil {
			return "", err
		}
		n = 1 + rng.IntN(12)
		err = killScript(seed).Run(ctx, d, work.Plan{Every: 3, Steps: []string{work.Build}, Until: n}, func(int, string) {})
		if err := errors.Join(err, d.Close()); err != nil {
			return "", err
		}
	}
	before, _ := os.ReadFile(path)
	if err := resize("", syscall.MS_RDONLY); err != nil {
		return "", err
	}
	_, kind, detail, err := scarce(ctx, e, path, seed, "none", 0)
	if err == nil {
		err = mustEnd(kind, detail, "read-only")
	}
	if err != nil || n == 0 {
		return kind, err
	}
	d, err := db.Open(ctx, path, &db.Options{ReadOnly: true})
	if err != nil {
		return kind, fmt.Errorf("open for reading: %w", err)
	}
	got, err := killScript(seed).VerifyDB(ctx, d)
	if err == nil && got != n {
		err = fmt.Errorf("%d batches, want %d", got, n)
	}
	if after, e := os.ReadFile(path); e != nil || !bytes.Equal(before, after) {
		err = errors.Join(err, e, errors.New("the file has changed"))
	}
	return kind, errors.Join(err, d.Close())
}

func addressSpace(ctx context.Context, e *env, dir string, i int) (string, error) {
	rng, seed := e.rng("address space", i), e.seed+uint64(i)
	path := filepath.Join(dir, "narrow.anndb")
	// What the runtime takes for itself is left to it.
	acked, kind, detail, err := scarce(ctx, e, path, seed, "address space", 3<<30+rng.Uint64N(90<<30))
	if err == nil {
		err = mustEnd(kind, detail, "done")
	}
	if err == nil {
		err = verified(ctx, path, seed, acked)
	}
	return kind, err
}
