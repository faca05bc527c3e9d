// Package golden compares what tests get with files of expectations, which -write-golden writes.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Write reports whether files of expectations are written instead of compared with.
var Write = flag.Bool("write-golden", false, "write the files of expectations in testdata")

// Compare compares a text with the file testdata/name, line by line, or writes the file.
func Compare(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *Write {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, lines := strings.Split(read(t, name), "\n"), strings.Split(got, "\n")
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

// Answers compares the answers to the lines of the file testdata/name. An answer has lines, which are
// indented in the file below their question; empty lines and those that begin with # are no questions.
func Answers(t *testing.T, name string, answer func(question string) string) {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(read(t, filepath.Join("testdata", name))) {
		if line[0] == '\t' {
			continue
		}
		out.WriteString(line)
		if line[0] != '#' && line[0] != '\n' {
			for a := range strings.Lines(answer(strings.TrimSuffix(line, "\n"))) {
				out.WriteString("\t" + strings.TrimSuffix(a, "\n") + "\n")
			}
		}
	}
	Compare(t, name, out.String())
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
