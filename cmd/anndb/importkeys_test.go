package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
)

// TestImportReplacesNothing: rows are replaced only on request, and keys of files
// without keys go on behind those of the collection.
func TestImportReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("a.csv"), "1,1\n2,2\n3,3\n")
	write(t, path("k.csv"), "key,x,y\nk1,1,1\nk2,2,2\n")
	write(t, path("twice.csv"), "key,x,y\nk1,5,5\nk1,6,6\nk3,7,7\n")
	write(t, path("a.libsvm"), "p 1:1\nq 2:1\n")
	file := path("a.anndb")
	counts := func(args ...string) string {
		t.Helper()
		r := mustJSON[objects](t, append([]string{"import", file}, args...)...)[0]
		return fmt.Sprint(r["rows"], r["new"], r["replaced"], r["total"])
	}
	expect := func(want string, args ...string) {
		t.Helper()
		if got := counts(args...); got != want {
			t.Errorf("%v: %s, want %s", args, got, want)
		}
	}
	expect("3 3 0 3", "made", path("a.csv"))
	expect("3 3 0 6", "made", path("a.csv"))
	must(t, "search", file, "made", "--key", "5", "-k", "1")
	expect("3 0 3 6", "made", path("a.csv"), "--replace")
	expect("3 3 0 9", "made", path("a.csv"), "--key-prefix", "p")
	expect("3 3 0 12", "made", path("a.csv"), "--key-prefix", "p")
	must(t, "search", file, "made", "--key", "p5", "-k", "1")

	expect("2 2 0 2", "keys", path("k.csv"))
	fails(t, command.ExitError, `key "k1" in collection "keys" (--replace`, "import", file, "keys", path("k.csv"))
	expect("2 0 2 2", "keys", path("k.csv"), "--replace")
	fails(t, command.ExitError, "--replace", "import", file, "twice", path("twice.csv"))
	expect("3 1 2 3", "keys", path("twice.csv"), "--replace")
	hits := mustJSON[objects](t, "search", file, "keys", "--vector", "6,6", "-k", "1")
	if hits[0]["key"] != "k1" || hits[0]["distance"] != 0.0 {
		t.Errorf("the last row of a key does not count: %v", hits)
	}
	expect("2 2 0 2", "sparse", path("a.libsvm"))
	expect("2 2 0 4", "sparse", path("a.libsvm"))
	expect("2 0 2 4", "sparse", path("a.libsvm"), "--replace")
	must(t, "check", file)
}

// TestFailedImportLeavesNothing: an import that fails before it has written a row
// leaves neither the collection nor the file that it made; what was there before, or
// has rows, stays.
func TestFailedImportLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("good.csv"), "key,x,y\na,1,1\n")
	write(t, path("twice.csv"), "key,x,y\nk,1,1\nk,2,2\n")
	// Longer than what is read before the collection is made.
	write(t, path("late.csv"), "key,x,y\n"+strings.Repeat("k,1,1\n", 1000)+"k,x,y\n")
	for _, c := range []struct {
		name   string
		before []string // collections of a file that is there already; none for no file
		args   []string
		left   []string // none for no file
	}{
		{"new file", nil, []string{"new", path("twice.csv")}, nil},
		{"bad line behind the first rows", nil, []string{"new", path("late.csv"), "--replace"}, nil},
		{"bad name", nil, []string{"bad\x00name", path("good.csv")}, nil},
		{"file of others", []string{"old"}, []string{"new", path("twice.csv")}, []string{"old"}},
		{"existing collection", []string{"old"}, []string{"old", path("twice.csv")}, []string{"old"}},
	} {
		file := path(strings.ReplaceAll(c.name, " ", "-") + ".anndb")
		for _, name := range c.before {
			must(t, "import", file, name, path("good.csv"))
		}
		if _, errs, code := anndb(t, append([]string{"import", file}, c.args...)...); code == command.ExitOK || strings.Contains(errs, "stays") {
			t.Errorf("%s: exit code %d, %s", c.name, code, errs)
		}
		var left []string
		if there(file) {
			for _, r := range mustJSON[map[string]objects](t, "stats", file)["collections"] {
				left = append(left, fmt.Sprint(r["collection"]))
			}
		}
		if !slices.Equal(left, c.left) || there(file) != (c.left != nil) {
			t.Errorf("%s: left %q, want %q; file there: %v", c.name, left, c.left, there(file))
		}
	}
}

// there reports whether there is a file of a name.
func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
