package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/db/internal/page"
)

const (
	partA Parts = 1 << iota
	partB
)

// testOptions has two buckets; the values of b must be equal to their keys.
func testOptions() Options {
	return Options{
		Reserve: 1 << 30, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Layout: &Layout{
			Buckets: []Bucket{{Name: "a", Part: partA}, {Name: "b", Part: partB, Values: true}},
			Pair: func(_ string, key, value []byte) error {
				if !bytes.Equal(key, value) {
					return fmt.Errorf("%q has %q", key, value)
				}
				return nil
			},
		},
	}
}

// makeFile makes a file with n pairs in each of two buckets.
func makeFile(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, Create(path, testOptions(), pairs(n, "a", "b")))
	return path
}

func pairs(n int, names ...string) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		for _, name := range names {
			b, err := tx.CreateBucketIfNotExists([]byte(name))
			for i := 0; err == nil && i < n; i++ {
				k := fmt.Appendf(nil, "%s-%06d", name, i)
				err = b.Put(k, k)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// reasonOf returns the reason of a *page.Error.
func reasonOf(err error) error {
	var e *page.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return err
}

func mustOpen(t *testing.T, path string, o Options) *File {
	t.Helper()
	f, err := Open(t.Context(), path, o)
	must(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestVerify damages a value, a key and the name of a bucket, which concern different parts.
func TestVerify(t *testing.T) {
	const all = partA | partB | FreePages
	cases := []struct {
		name        string
		old, new    string // bytes of the file
		a, b, whole string // messages of Verify
	}{
		{name: "valid"},
		{"value", "b-000009b-000009", "b-000009b-000x09", "", `"b-000009" has "b-000x09"`, `"b-000x09"`},
		{"value that is not verified", "a-000009a-000009", "a-000009a-000x09", "", "", ""},
		{"key", "a-000009a-000009", "z-000009a-000009", "leaf key", "", "leaf key"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := makeFile(t, 1000)
			data, err := os.ReadFile(path)
			must(t, err)
			if c.old != "" && !bytes.Contains(data, []byte(c.old)) {
				t.Fatalf("%s is not in the file", c.old)
			}
			must(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte(c.old), []byte(c.new)), 0o600))
			for parts, want := range map[Parts]string{partA: c.a, partB: c.b, all: c.whole} {
				f := mustOpen(t, path, testOptions())
				for range 2 { // the second call returns what the first one found
					err := f.Verify(t.Context(), parts)
					if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("parts %b: %v, want %q", parts, err, want)
					}
					if err != nil && reasonOf(err) != page.ErrDamaged {
						t.Errorf("parts %b: reason %v", parts, reasonOf(err))
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("unknown bucket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		must(t, Create(path, testOptions(), pairs(3, "a", "c")))
		err := mustOpen(t, path, testOptions()).Verify(t.Context(), partA)
		if reasonOf(err) != page.ErrDamaged || !strings.Contains(err.Error(), `unknown bucket "c"`) {
			t.Error(err)
		}
	})
	t.Run("other program", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		must(t, Create(path, testOptions(), pairs(3, "c", "d")))
		if err := mustOpen(t, path, testOptions()).Verify(t.Context(), partA); err != nil {
			t.Errorf("a file without known buckets is not damaged: %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		f := mustOpen(t, makeFile(t, 10), testOptions())
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := f.Verify(ctx, partA); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := f.Verify(t.Context(), partA); err != nil {
			t.Errorf("after a cancelled call: %v", err)
		}
	})
}

// TestOpenLocked opens a file that another handle has open, until a deadline, until the context
// ends, and until that handle replaces the file and closes it.
func TestOpenLocked(t *testing.T) {
	path := makeFile(t, 1)
	first := mustOpen(t, path, testOptions())
	o := testOptions()
	o.Timeout = 30 * time.Millisecond
	if _, err := Open(t.Context(), path, o); reasonOf(err) != ErrLocked {
		t.Errorf("%v, want ErrLocked", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Open(ctx, path, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be replaced on Windows")
	}
	o.Timeout = time.Minute
	opened := make(chan *File, 1)
	go func() {
		f, err := Open(context.WithoutCancel(t.Context()), path, o)
		if err != nil {
			t.Error(err)
		}
		opened <- f
	}()
	time.Sleep(20 * time.Millisecond) // not needed: Open may come too late to have to wait
	name, err := Temp(path)
	must(t, err)
	b, err := New(name, testOptions())
	must(t, err)
	must(t, errors.Join(b.Update(pairs(7, "a")), b.Close()))
	next, err := OpenValid(name, testOptions())
	must(t, err)
	must(t, errors.Join(first.ReplaceBy(next, name, path, false), first.Close(), next.Close()))
	f := <-opened
	if f == nil {
		return
	}
	defer f.Close()
	s, err := f.State()
	must(t, err)
	defer s.Release()
	s.Locked(func() {
		if n := s.Tx.Bucket([]byte("a")).Stats().KeyN; n != 7 {
			t.Errorf("%d pairs: the replaced file was opened", n)
		}
	})
}

// TestOpenInvalid opens files that must not be mapped.
func TestOpenInvalid(t *testing.T) {
	data, err := os.ReadFile(makeFile(t, 1000))
	must(t, err)
	damage := func(at ...int) []byte {
		d := bytes.Clone(data)
		for _, i := range at {
			d[i] ^= 1
		}
		return d
	}
	cases := []struct {
		name  string
		data  []byte
		want  error
		older error // with AcceptOlder
	}{
		{"valid", data, nil, nil},
		{"empty", nil, page.ErrForeign, page.ErrForeign},
		{"text", []byte(strings.Repeat("text ", 1000)), page.ErrForeign, page.ErrForeign},
		{"short", data[:len(data)/2], page.ErrShort, page.ErrShort},
		{"one meta page", data[:100], page.ErrShort, page.ErrShort},
		{"first meta page", damage(40), page.ErrDamaged, nil},
		{"second meta page", damage(page.Size + 40), page.ErrDamaged, nil},
		{"both meta pages", damage(40, page.Size+40), page.ErrDamaged, page.ErrDamaged},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			must(t, os.WriteFile(path, c.data, 0o600))
			for older, want := range map[bool]error{false: c.want, true: c.older} {
				o := testOptions()
				o.AcceptOlder, o.ReadOnly = older, true
				f, err := Open(t.Context(), path, o)
				if reasonOf(err) != want {
					t.Errorf("accept older %v: %v, want %v", older, err, want)
				}
				if err == nil {
					err = f.Close()
				}
				if err != nil && want == nil {
					t.Error(err)
				}
			}
		})
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Open(t.Context(), none, testOptions()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDamage recovers panics of bbolt, and lets all others pass, also those of functions that bbolt
// calls.
func TestDamage(t *testing.T) {
	f := mustOpen(t, makeFile(t, 10), testOptions())
	caught := func(fn func()) (err error) {
		defer f.guard(CatchFaults(), &err)
		fn()
		return nil
	}
	err := caught(func() {
		_ = f.bolt.View(func(tx *bbolt.Tx) error { return tx.Rollback() })
	})
	if reasonOf(err) != page.ErrDamaged || !strings.Contains(err.Error(), "managed") {
		t.Errorf("a panic of bbolt: %v", err)
	}
	var none []byte
	for name, fn := range map[string]func(){
		"text":  func() { panic("mine") },
		"error": func() { panic(errors.New("mine")) },
		"index": func() { none[len(none)] = 1 },
		"nil":   func() { var x *File; x.reserve = 1 },
		"in a call of bbolt": func() {
			_ = f.bolt.View(func(*bbolt.Tx) error { panic("mine") })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			t.Errorf("%s: a panic became %v", name, caught(fn))
		}()
	}
}

// TestTruncated reads a page of the map that the file no longer has.
func TestTruncated(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be truncated on Windows")
	}
	path := makeFile(t, 10_000)
	f := mustOpen(t, path, testOptions())
	s, err := f.State()
	must(t, err)
	defer s.Release()
	must(t, os.Truncate(path, 2*page.Size))
	err = func() (err error) {
		defer f.guard(CatchFaults(), &err)
		s.Locked(func() { s.Tx.Bucket([]byte("b")).Get([]byte("b-000005")) })
		return nil
	}()
	var e *page.Error
	if !errors.As(err, &e) || e.Reason != page.ErrDamaged || e.Offset < 2*page.Size {
		t.Errorf("%v, want damage beyond the end of the file", err)
	}
	s.Locked(func() {}) // the fault has not left the state locked
}

// TestStates counts references, and closes a retired file with its last state.
func TestStates(t *testing.T) {
	f := mustOpen(t, makeFile(t, 1), testOptions())
	readers := func(idle *State, want int) {
		t.Helper()
		if n, age := f.Readers(idle); n != want || (n > 0) != (age > 0) {
			t.Errorf("%d readers for %v, want %d", n, age, want)
		}
	}
	readers(nil, 0)
	s, err := f.State()
	must(t, err)
	readers(nil, 1)
	readers(s, 0)
	s.Acquire()
	readers(s, 1)
	s.Release()
	f.Retire()
	tx, err := f.Begin(false)
	if err != nil {
		t.Fatalf("closed while a state is in use: %v", err)
	}
	f.End(tx)
	s.Release()
	readers(nil, 0)
	if _, err := f.Begin(false); !errors.Is(err, berrors.ErrDatabaseNotOpen) {
		t.Errorf("%v, want a closed file", err)
	}
}

// TestRemoveLeftovers removes the files of Temp, and no others.
func TestRemoveLeftovers(t *testing.T) {
	path := makeFile(t, 1)
	name, err := Temp(path)
	must(t, err)
	dir := filepath.Dir(path)
	base := filepath.Base(name)
	last := "0"
	if strings.HasSuffix(base, last) {
		last = "1"
	}
	others := []string{
		".file.compact-12", ".file.compact-1234567890", ".file.compact-0123456789abcdef", ".file.compact-",
		".file2.compact-12", "file.compact-12", ".file.new-12", base + "0", base[:len(base)-1] + last,
		strings.Replace(base, ".file.", ".file2.", 1),
	}
	for _, other := range others {
		must(t, os.WriteFile(filepath.Join(dir, other), nil, 0o600))
	}
	folder, err := Temp(path)
	must(t, errors.Join(err, os.Remove(folder), os.Mkdir(folder, 0o700)))
	others = append(others, filepath.Base(folder))
	RemoveLeftovers(path, slog.New(slog.DiscardHandler))
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", name, err)
	}
	for _, other := range append(others, "file") {
		if _, err := os.Stat(filepath.Join(dir, other)); err != nil {
			t.Error(err)
		}
	}
}

// TestCreateInterrupted: what a crash leaves of a creation, a second name of the file at worst, is removed
// when the file is opened.
func TestCreateInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var made string
	must(t, Create(path, testOptions(), func(tx *bbolt.Tx) error {
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 {
			return fmt.Errorf("%v, %w", entries, err)
		}
		made = filepath.Join(filepath.Dir(path), entries[0].Name())
		return pairs(1, "a")(tx)
	}))
	if err := os.Link(path, made); err != nil {
		t.Skip(err)
	}
	RemoveLeftovers(path, slog.New(slog.DiscardHandler))
	if _, err := os.Stat(made); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", made, err)
	}
	must(t, mustOpen(t, path, testOptions()).Replaceable(path))
}

// TestCreateExisting keeps a file that exists already.
func TestCreateExisting(t *testing.T) {
	path := makeFile(t, 100)
	before, err := os.ReadFile(path)
	must(t, err)
	must(t, Create(path, testOptions(), pairs(1, "a")))
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, or %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	failed := errors.New("failed")
	none := filepath.Join(t.TempDir(), "none")
	if err := Create(none, testOptions(), func(*bbolt.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed creation left a file: %v", err)
	}
}

// TestRoomy: an idle state may be kept only if the file can double and take a large transaction.
func TestRoomy(t *testing.T) {
	path := makeFile(t, 1)
	for reserve, want := range map[int64]bool{roomBytes / 2: false, 2 * roomBytes: true} {
		o := testOptions()
		o.Reserve = reserve
		f := mustOpen(t, path, o)
		if f.Roomy() != want {
			t.Errorf("reserved %d bytes: roomy is %v", reserve, !want)
		}
		f.SetTight(true)
		if f.Roomy() {
			t.Errorf("reserved %d bytes: roomy before a large transaction", reserve)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := reserves(1<<40, 1<<20); len(got) != 4 || got[0] != 1<<40 || got[3] != 0 {
		t.Errorf("%v", got)
	}
}

// TestRoom: a directory has some room; of one that does not exist it is unknown.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if n := Room(dir); n <= 0 {
		t.Errorf("%d bytes", n)
	}
	if n := Room(filepath.Join(dir, "none")); n != UnknownRoom {
		t.Errorf("%d bytes of a directory that does not exist", n)
	}
}

// TestGrowth checks that a file is at most a step longer than its pages.
func TestGrowth(t *testing.T) {
	f := mustOpen(t, makeFile(t, 10), testOptions())
	value := make([]byte, 300<<10)
	for i := range 40 {
		tx, err := f.Begin(true)
		must(t, err)
		b, err := tx.CreateBucketIfNotExists([]byte("a"))
		if err == nil {
			err = b.Put(fmt.Appendf(nil, "%06d", i), value)
		}
		if err == nil {
			err = f.Commit(tx)
		}
		must(t, err)
		if tx, err = f.Begin(false); err != nil {
			t.Fatal(err)
		}
		pages := tx.Size()
		must(t, tx.Rollback())
		size, err := f.Size()
		must(t, err)
		if size < pages || size > pages+max(pages/8, leastGrowth)+leastGrowth {
			t.Fatalf("after %d writes: a file of %d bytes for %d of pages", i+1, size, pages)
		}
	}
}

// must ends a test that has got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is larger than the memory requests what it is about to read in sequence.
func TestRequests(t *testing.T) {
	o := testOptions()
	if f := mustOpen(t, makeFile(t, 1000), o); f.Requests() != nil {
		t.Error("a small file requests pages")
	}
	o.Memory = 4096
	f := mustOpen(t, makeFile(t, 1000), o)
	if f.Requests() == nil {
		t.Fatal("a file larger than the memory requests no pages")
	}
	f.Requests()(nil)
}
