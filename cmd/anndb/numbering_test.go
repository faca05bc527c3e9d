package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNumbering: a collection's first file says from which number features count;
// later files, queries, --features and exports follow it.
func TestNumbering(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("zero.libsvm"), "p 0:1 1:1\nq 1:1\ns 2:1\n")
	write(t, path("one.libsvm"), "p 1:1 2:1\nq 2:1\ns 3:1\n")
	write(t, path("query.libsvm"), "q 1:1\n") // without the first feature, by chance
	write(t, path("has0.libsvm"), "q 0:1\n")
	zero, one := path("zero.anndb"), path("one.anndb")
	for file, in := range map[string]string{zero: path("zero.libsvm"), one: path("one.libsvm")} {
		must(t, "import", file, "c", in, "--as", "libsvm")
	}
	if got := mustJSON[map[string]rows](t, "stats", zero)["collections"][0]["numbering"]; got != "from 0" {
		t.Errorf("stats: numbering %v", got)
	}
	best := func(args ...string) any {
		t.Helper()
		return mustJSON[rows](t, append([]string{"search"}, args...)...)[0]["key"]
	}
	// Row 1 has the feature 1 in the one file, row 0 has it in the other.
	for file, want := range map[string]string{zero: "1", one: "0"} {
		if got := best(file, "c", "--query", path("query.libsvm"), "--as", "libsvm", "-k", "1"); got != want {
			t.Errorf("%s: a query file finds row %v, want %s", file, got, want)
		}
		if got := best(file, "c", "--features", "1=1", "-k", "1"); got != want {
			t.Errorf("%s: --features finds row %v, want %s", file, got, want)
		}
	}
	fails(t, exitError, "features count from 1 in collection", "search", one, "c", "--query", path("has0.libsvm"))
	fails(t, exitError, `feature 0, but features count from 1 in collection "c"`, "import", one, "c", path("has0.libsvm"))
	fails(t, exitUsage, "there is no feature 0", "search", one, "c", "--features", "0=1")
	fails(t, exitUsage, `--base 0: collection "c" counts features from 1`, "import", one, "c", path("query.libsvm"), "--base", "0")
	fails(t, exitUsage, `--base 1: collection "c" counts features from 0`, "search", zero, "c", "--query", path("query.libsvm"), "--base", "1")
	for file, in := range map[string]string{zero: "zero.libsvm", one: "one.libsvm"} {
		must(t, "export", file, "c", path("out.libsvm"))
		if got, want := read(t, path("out.libsvm")), read(t, path(in)); got != want {
			t.Errorf("export of %s:\n%s", in, got)
		}
	}
	// A row that is added means what it says.
	must(t, "import", zero, "c", path("query.libsvm"), "--key-prefix", "t")
	must(t, "export", zero, "c", path("out.libsvm"))
	if got := read(t, path("out.libsvm")); !strings.HasSuffix(got, "\nq 1:1\n") {
		t.Errorf("the added row is not what the file has:\n%s", got)
	}
	must(t, "build", one, "c", "labels", "--kind", "lcif", "--folds", "3")
	if got := must(t, "explain", one, "c", "--features", "3=1"); !strings.Contains(got, " 3 ") {
		t.Errorf("an explanation does not call feature 3 so:\n%s", got)
	}
}

// TestNumberingOfFormats: xmc and jsonl count from 0 whatever the collection does,
// so their first feature is the collection's first.
func TestNumberingOfFormats(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("one.libsvm"), "p 1:1 2:1\nq 2:1\ns 3:1\n")
	write(t, path("rows.xmc"), "1 3 1\n0 1:1\n")
	file := path("c.anndb")
	must(t, "import", file, "one", path("one.libsvm"))
	out, errs, code := anndb(t, "search", file, "one", "--query", path("rows.xmc"), "-k", "1", "--format", "csv")
	if code != exitOK || !strings.Contains(out, "0,1,1,1,0") || !strings.Contains(errs, "its feature 0 is feature 1 of collection \"one\"") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	must(t, "import", file, "zero", path("rows.xmc"))
	fails(t, exitUsage, "counts features from 0", "import", file, "zero", path("one.libsvm"), "--base", "1")
	fails(t, exitUsage, "--base is for libsvm files", "import", file, "new", path("rows.xmc"), "--base", "0")
}

// TestNumberingOfVectors: the same of libsvm files read as vectors; a collection
// that no such file was imported into first does not guess.
func TestNumberingOfVectors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("zero.libsvm"), "p 0:1 1:1\nq 1:1\n")
	write(t, path("query.libsvm"), "q 1:1\n")
	write(t, path("rows.csv"), "1,1\n0,1\n")
	file := path("c.anndb")
	must(t, "import", file, "file", path("zero.libsvm"), "--dense")
	must(t, "import", file, "csv", path("rows.csv"))
	hits := mustJSON[rows](t, "search", file, "file", "--query", path("query.libsvm"), "-k", "1")
	if hits[0]["key"] != "1" || hits[0]["distance"] != 0.0 {
		t.Errorf("%v", hits)
	}
	fails(t, exitUsage, "say --base 0 or --base 1", "search", file, "csv", "--query", path("query.libsvm"), "-k", "1")
}

// read is a file's text.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
