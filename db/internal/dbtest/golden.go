package dbtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// WriteGolden is whether files of expectations are written instead of compared with.
var WriteGolden = flag.Bool("write-golden", false, "write the files of expectations in testdata")

// Golden compares a text with the file of expectations testdata/name, line by line, or writes the file.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *WriteGolden {
		Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		Must(t, os.WriteFile(name, []byte(got), 0o644))
		return
	}
	data, err := os.ReadFile(name)
	Must(t, err)
	want, lines := strings.Split(string(data), "\n"), strings.Split(got, "\n")
	for i := range max(len(want), len(lines)) {
		var w, l string
		if i < len(want) {
			w = want[i]
		}
		if i < len(lines) {
			l = lines[i]
		}
		if w != l {
			t.Errorf("%s, line %d (-write-golden writes the file):\n got %s\nwant %s", name, i+1, l, w)
		}
	}
}
