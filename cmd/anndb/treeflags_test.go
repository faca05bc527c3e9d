package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrees builds every kind of budgeted tree over a small libsvm file and
// asks it.
func TestTrees(t *testing.T) {
	dir := t.TempDir()
	input, file := filepath.Join(dir, "rows.libsvm"), filepath.Join(dir, "a.anndb")
	var b strings.Builder
	for i := range 90 {
		c := i % 3
		fmt.Fprintf(&b, "%d %d:1 %d:%d %d:1\n", c, 1+c, 10+i%4, 1+i%2, 20+c)
	}
	if err := os.WriteFile(input, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(code int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if got := run(t.Context(), args, &out, &errs); got != code {
			t.Fatalf("%q: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	do(0, "import", file, "rows", input)
	for _, kind := range []string{"sbt", "pt", "at"} {
		text := do(0, "build", file, "rows", kind, "--kind", kind, "--budget", "2", "--weight", "tfidf")
		for _, want := range []string{"What was grown", "decisions", "tfidf, budget=2"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", kind, want, text)
			}
		}
		if text = do(0, "predict", file, "rows", "--index", kind, "--features", "1=1,20=1"); !strings.Contains(text, "1  1 ") {
			t.Errorf("%s: prediction\n%s", kind, text)
		}
	}
	do(0, "check", file)
	for _, wrong := range [][]string{
		{"--kind", "at", "--budget", "-1"},
		{"--kind", "at", "--trees", "3"},
		{"--kind", "at", "--folds", "3"},
		{"--kind", "lcif", "--budget", "3"},
		{"--kind", "pt", "--cost", "-2"},
	} {
		text := do(2, append([]string{"build", file, "rows", "x"}, wrong...)...)
		if !strings.Contains(text, "Try: anndb build --help") {
			t.Errorf("%q: %s", wrong, text)
		}
	}
}
