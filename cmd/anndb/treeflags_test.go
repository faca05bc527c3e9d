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
		for _, want := range []string{"theorem 12", "decisions", "tfidf, budget=2"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", kind, want, text)
			}
		}
		if text = do(0, "predict", file, "rows", "--index", kind, "--features", "2=1,21=1"); !strings.Contains(text, "1  1 ") {
			t.Errorf("%s: prediction\n%s", kind, text)
		}
	}
	text := do(0, "build", file, "rows", "exact", "--kind", "sbt", "--budget", "2", "--exact")
	if want := "budget=2 exact"; !strings.Contains(text, want) {
		t.Errorf("%q is not in\n%s", want, text)
	}
	do(0, "check", file)
	for _, wrong := range [][]string{
		{"--kind", "at", "--budget", "-1"},
		{"--kind", "at", "--trees", "3"},
		{"--kind", "at", "--folds", "3"},
		{"--kind", "at", "--budget", "0"},
		{"--kind", "at", "--budgets", "5,0"},
		{"--kind", "at", "--budget", "5", "--budgets", "5,6"},
		{"--kind", "at", "--cost", "0"},
		{"--kind", "at", "--cost", "nan"},
		{"--kind", "at", "--cost", "inf"},
		{"--kind", "at", "--costs", "1,inf"},
		{"--kind", "at", "--thresholds", "nan"},
		{"--kind", "at", "--threshold", "inf"},
		{"--kind", "at", "--thresholds", "0", "--folds", "1"},
		{"--kind", "at", "--tune-rows", "10"},
		{"--kind", "at", "--objective", "micro-f1"},
		{"--kind", "at", "--k", "3"},
		{"--kind", "pt", "--thresholds", "0"},
		{"--kind", "pt", "--positives", "2"},
		{"--kind", "at", "--positives", "0"},
		{"--kind", "at", "--positives", "2", "--min-positive", "2"},
		{"--kind", "sbt", "--threshold", "0"},
		{"--kind", "pt", "--min-positive", "2"},
		{"--kind", "tree"},
		{"--budgets", "5"},
		{"--kind", "lcif", "--budget", "3"},
		{"--kind", "pt", "--cost", "-2"},
	} {
		text := do(2, append([]string{"build", file, "rows", "x"}, wrong...)...)
		if !strings.Contains(text, "Try: anndb build --help") {
			t.Errorf("%q: %s", wrong, text)
		}
	}
}
