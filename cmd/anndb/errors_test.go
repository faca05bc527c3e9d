package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// TestErrorsNameTheRemedy: an error is one line that names the file, flag or key,
// and what to do, without names that only Go programs know.
func TestErrorsNameTheRemedy(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	write(t, f.path("empty"), "")
	write(t, f.path("text.csv"), "key,a\nx,1\n")
	write(t, f.path("zipped"), "\x1f\x8b\x08\x00")
	damaged, err := os.ReadFile(f.file)
	if err != nil {
		t.Fatal(err)
	}
	damaged[40] ^= 0xff // in a meta page
	write(t, f.path("damaged"), string(damaged))
	docs := f.path("docs.libsvm")
	write(t, docs, "a 1:1 2:1\nb 2:1\n")
	must(t, "import", f.file, "docs", docs)
	must(t, "import", f.file, "bare", f.rows)
	must(t, "build", f.file, "bare", "--trees", "2", "--depth", "3", "--no-tune")
	vector := []string{"search", f.file, "things", "--vector", "1,2,3,4,5,6,7,8"}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitError, "file does not exist: import creates a database", []string{"stats", f.path("missing")}},
		{exitError, "there is no folder " + f.path("nowhere"), []string{"import", f.path("nowhere/x"), "c", f.rows}},
		{exitError, "it is a folder", []string{"stats", f.dir}},
		{exitError, "it is empty", []string{"check", f.path("empty")}},
		{exitError, "it looks like text; import it", []string{"build", f.path("text.csv"), "c"}},
		{exitError, "it looks like a gzip file", []string{"compact", f.path("zipped")}},
		{exitError, "anndb repair " + f.path("damaged") + " --to NEW", []string{"stats", f.path("damaged")}},
		{exitError, "anndb repair " + f.path("damaged") + " --to NEW", []string{"import", f.path("damaged"), "c", f.rows}},
		{exitError, "not an anndb database: it looks like text", []string{"restore", f.path("text.csv"), f.path("new")}},
		{exitError, "backup " + f.path("missing"), []string{"restore", f.path("missing"), f.path("new")}},
		{exitError, "name a new file", []string{"repair", f.file, "--to", f.rows}},
		{exitUsage, "is a folder", []string{"backup", f.file, f.dir, "--force"}},
		{exitUsage, "is a folder", []string{"restore", f.file, f.dir, "--force"}},
		{exitUsage, "is a folder", []string{"repair", f.file, "--to", f.dir}},
		{exitError, "the file that bench --out writes", []string{"plot", f.path("text.csv")}},
		{exitError, "create " + f.path("nowhere/b"), []string{"backup", f.file, f.path("nowhere/b")}},
		{exitError, "create " + f.path("nowhere/o.csv"), []string{"export", f.file, "things", f.path("nowhere/o.csv")}},
		{exitUsage, "-k must be at least 1", append(vector, "-k", "-1")},
		{exitUsage, "-k must be at least 1", append(vector, "-k=-1")},
		{exitUsage, "--limit must not be negative", []string{"search", f.file, "things", "--query", f.queries, "--limit", "-3"}},
		{exitUsage, `1 has the value NaN`, []string{"search", f.file, "docs", "--features", "1=NaN"}},
		{exitUsage, `1 has the value -2`, []string{"search", f.file, "docs", "--features", "1=-2"}},
		{exitUsage, `out of the range of float32`, []string{"search", f.file, "docs", "--features", "1=1e40"}},
		{exitUsage, "voting needs member lists", []string{"search", f.file, "bare", "--vector", "1,2,3,4,5,6,7,8", "--method", "voting"}},
		{exitError, "make one with anndb tune", []string{"evaluate", f.file, "docs", "--queries", docs}},
		{exitUsage, "--second-orders", []string{"tune", f.file, "docs", "--graph", "1"}},
		{exitUsage, "--second-order ", []string{"build", f.file, "docs", "--kind", "lcif", "--lambda", "1", "--k", "1", "--graph", "1"}},
		{exitUsage, "--base go with --train", []string{"build", f.file, "things", "--base", "1"}},
	} {
		out, errs, code := anndb(t, c.args...)
		first, rest, _ := strings.Cut(errs, "\n")
		if code != c.code || out != "" || !strings.Contains(first, c.want) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
		if rest != "" && !strings.HasPrefix(rest, "Try: ") {
			t.Errorf("%q: more than one line:\n%s", c.args, errs)
		}
		for _, internal := range []string{"db: ", "dataset: ", "query: ", "invalid option", "bad option", "Accept", ".partial", ".new-", "EOF"} {
			if strings.Contains(strings.TrimPrefix(first, "anndb: "), internal) {
				t.Errorf("%q: %q in %s", c.args, internal, first)
			}
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"Usage: anndb <command>", []string{"help"}},
		{"Usage: anndb search", []string{"help", "search"}},
		{"anndb", []string{"version"}},
		{"anndb", []string{"--version"}},
	} {
		if out := must(t, c.args...); !strings.HasPrefix(out, c.want) {
			t.Errorf("%q: %s", c.args, out)
		}
	}
}

// TestNegativeNumbers: a value may begin with a minus.
func TestNegativeNumbers(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	want := must(t, "search", f.file, "things", "--vector=-1,2,3,4,5,6,7,8", "-k3", "--format", "csv", "--index", "flat")
	got := must(t, "search", f.file, "things", "--vector", "-1,2,3,4,5,6,7,8", "-k=3", "--format", "csv", "--index", "flat")
	if cut := func(s string) string { s, _, _ = strings.Cut(s, "\n\n"); return s }; cut(got) != cut(want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestInterruptedOpen: an interrupt ends a command while it opens the file.
func TestInterruptedOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"stats", f.file},
		{"stats", f.file, "things"},
		{"drop", f.file, "things", "--yes"},
		{"maintain", f.file},
		{"repair", f.file},
	} {
		var out, errs bytes.Buffer
		if code := run(ctx, args, &out, &errs); code != exitInterrupted || out.Len() > 0 {
			t.Errorf("%s: exit code %d\n%s%s", args[0], code, out.String(), errs.String())
		}
	}
	if got := mustJSON[map[string]rows](t, "stats", f.file); len(got["collections"]) != 1 {
		t.Errorf("%v", got)
	}
}

// TestBaseOfQueries: build and bench read vectors of libsvm files as --base says.
func TestBaseOfQueries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := f.path("train.libsvm")
	write(t, in, strings.Repeat("a 1:1 8:1\nb 2:1 3:-2\n", 20))
	fails(t, exitUsage, "--base 0 or --base 1", "build", f.file, "things", "--train", in)
	must(t, "build", f.file, "things", "--train", in, "--base", "1")
	fails(t, exitUsage, "--base 0 or --base 1", "bench", f.file, "things", "--queries", in)
	must(t, "bench", f.file, "things", "--queries", in, "--base", "1", "--kinds", "kd", "--depths", "4", "--trees", "2",
		"--vote-trees", "2", "--rounds", "1", "--limit", "20", "--labels-k", "5")
}
