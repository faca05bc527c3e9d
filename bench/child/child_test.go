package child

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// echo answers query i with the rows i, i+1, …, all but the last.
type echo struct {
	at, k  int
	set    Words
	closed bool
}

func (e *echo) About() string { return "echo 1" }
func (e *echo) Build(_ context.Context, base *Rows, o Words, threads int) error {
	if o["fail"] != "" {
		return errors.New("two\nlines")
	}
	return nil
}
func (e *echo) Detail() string                { return "all:1" }
func (e *echo) Save(string) error             { return nil }
func (e *echo) Open(string, int, Words) error { return nil }
func (e *echo) Set(o Words) error             { e.set = o; return nil }
func (e *echo) Search(_ *Rows, i, k int) error {
	e.at, e.k = i, k
	return nil
}
func (e *echo) Take(ids []uint32) {
	for j := range ids {
		ids[j] = uint32(e.at + j)
	}
	ids[len(ids)-1] = Missing
}
func (e *echo) Batch(*Rows, int, int) error { return nil }
func (e *echo) Close() error                { e.closed = true; return nil }

// raw writes n rows of dim bytes.
func raw(t *testing.T, n, dim int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(path, make([]byte, n*dim), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServe(t *testing.T) {
	path := raw(t, 5, 3)
	commands := []string{
		"info",
		"queries q " + path + " 5 3 u8",
		"run q 2 3 1 4 ef=7",
	}
	var out bytes.Buffer
	e := &echo{}
	if err := Serve(e, 0, strings.NewReader(strings.Join(commands, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ok echo 1", "ok", "ok 4 2 3 allocs="} {
		line, err := out.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("answer %q, %v; want %q", line, err, want)
		}
	}
	ids := make([]uint32, 4*2)
	if err := binary.Read(&out, binary.NativeEndian, ids); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if ids[2*i] != uint32(i) || ids[2*i+1] != Missing {
			t.Errorf("query %d: ids %v", i, ids[2*i:2*i+2])
		}
	}
	if out.Len() != 3*4*4 {
		t.Errorf("%d bytes of times, want 3 passes of 4", out.Len())
	}
	if e.set["ef"] != "7" || !e.closed {
		t.Errorf("setting %v, closed %v", e.set, e.closed)
	}
}

func TestServeErrors(t *testing.T) {
	path := raw(t, 5, 3)
	for _, c := range []string{
		"nonsense",
		"queries q " + path + " 5 4 u8",
		"queries q " + path + " 0 3 u8",
		"queries q " + path + " 5",
		"queries",
		"run q 10 1 0 0",
		"build 2",
		"base " + path + " 5 3 u8\nbuild 1 fail=yes",
		"base " + path + " 5 3 u8\nbuild x",
		"base " + path + " 5 3 u8\nbuild 1 word",
		"first f q 10",
		"open f",
		"batch q 10",
		"save",
	} {
		var out bytes.Buffer
		if err := Serve(&echo{}, 0, strings.NewReader(c), &out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if want := strings.Count(c, "\n") + 1; len(lines) != want {
			t.Errorf("%q: %d answers, want %d: %q", c, len(lines), want, lines)
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "error ") {
			t.Errorf("%q: answer %q", c, last)
		}
	}
}

func TestBuildTellsItsTime(t *testing.T) {
	var out bytes.Buffer
	in := "base " + raw(t, 5, 3) + " 5 3 u8\nbuild 1\nquit\n"
	if err := Serve(&echo{}, 0, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "ok seconds=") || !strings.Contains(s, " detail=all:1") {
		t.Errorf("answers %q", s)
	}
}
