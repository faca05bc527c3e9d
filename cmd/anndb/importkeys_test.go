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
