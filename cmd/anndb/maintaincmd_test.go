package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
)

// TestMaintain imports more documents after a build and maintains the file.
func TestMaintain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "docs.anndb")
	must(t, "import", file, "docs", writeTopics(t, filepath.Join(dir, "a.jsonl"), "jsonl", 120, 1))
	must(t, "build", file, "docs", "x")
	must(t, "import", file, "docs", writeTopics(t, filepath.Join(dir, "b.jsonl"), "jsonl", 30, 2), "--key-prefix", "more-")
	fresh := func() any { return mustJSON[map[string]rows](t, "stats", file)["indexes"][0]["fresh"] }
	if n := fresh(); n != float64(30) {
		t.Errorf("%v fresh rows", n)
	}
	if got := mustJSON[rows](t, "maintain", file, "--share", "0.9"); len(got) != 0 {
		t.Errorf("steps for a change below the share: %v", got)
	}
	got := mustJSON[rows](t, "maintain", file)
	if len(got) != 1 || got[0]["action"] != "segment" || got[0]["rows"] != float64(30) || got[0]["index"] != "x" {
		t.Errorf("steps %v", got)
	}
	if n := fresh(); n != float64(0) {
		t.Errorf("%v fresh rows after maintenance", n)
	}
	must(t, "check", file)
	lines := must(t, "stats", file, "--watch", "--every", "1ms", "--times", "3")
	if n := strings.Count(lines, "segments"); n != 3 {
		t.Errorf("%d lines of 3:\n%s", n, lines)
	}
	d, err := db.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	beside := must(t, "stats", file, "--watch", "--every", "1ms", "--times", "1")
	if n := strings.Count(beside, "segments"); n != 1 || !strings.Contains(beside, "150") {
		t.Errorf("watch beside a writer:\n%s", beside)
	}
}

// TestMaintainNotesSkipped: an index that cannot be maintained is named with the reason,
// and is no failure.
func TestMaintainNotesSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("a.libsvm"), "p 1:1 2:1\nq 2:1 3:2\np 1:2\nq 3:1\n")
	write(t, path("wide.libsvm"), "q 2:1 100000000:1\n")
	file := path("x.anndb")
	must(t, "import", file, "docs", path("a.libsvm"))
	must(t, "build", file, "docs", "model", "--kind", "lcif", "--k", "2", "--lambda", "0.5")
	must(t, "import", file, "docs", path("wide.libsvm"))
	_, errs, code := anndb(t, "maintain", file)
	if code != exitOK || !strings.Contains(errs, `index "model" of "docs" stays as it is`) || !strings.Contains(errs, "named features") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	fails(t, exitError, "named features", "build", file, "docs", "other", "--kind", "lcif", "--k", "2", "--lambda", "0.5")
}
