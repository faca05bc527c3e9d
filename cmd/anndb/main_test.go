package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
)

// anndb runs a command line and returns what it wrote and its exit code.
func anndb(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	return runArgs(context.Background(), args)
}

// runArgs runs a command line in a context.
func runArgs(ctx context.Context, args []string) (out, errs string, code int) {
	var o, e bytes.Buffer
	p := &command.Program{In: strings.NewReader(""), Out: &o, Errs: &e, Interruptible: cancelable}
	code = run(ctx, p, args)
	return o.String(), e.String(), code
}

// dear matches the note of a build that searches of high recall cost much of an exact scan. It is a matter
// of measured times, so a test neither wants it nor forbids it.
var dear = regexp.MustCompile(`(?m)^from recall [\d.]+ on, a search takes .*\n`)

// must runs a command line that has to succeed, with nothing but a summary on standard error.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := anndb(t, args...)
	errs = dear.ReplaceAllString(errs, "")
	if code != command.ExitOK || errs != "" && !strings.HasPrefix(errs, "queries: ") {
		t.Fatalf("anndb %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// mustJSON runs a command with --json and decodes its one value.
func mustJSON[T any](t *testing.T, args ...string) T {
	t.Helper()
	out := must(t, append(args, "--json")...)
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("anndb %s: %v in\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

type objects = []map[string]any

const (
	testRows    = 600
	testDim     = 8
	testQueries = 40
)

// writeRows writes labelled, clustered vectors of a seed as jsonl.
func writeRows(t *testing.T, path string, n int, seed uint64) string {
	t.Helper()
	w, err := dataset.Create(path, dataset.Schema{Dim: testDim})
	if err != nil {
		t.Fatal(err)
	}
	centres := rand.New(rand.NewPCG(1, 1)) // the same for rows and queries
	var centre [6][testDim]float64
	for c := range centre {
		for j := range testDim {
			centre[c][j] = 5 * centres.NormFloat64()
		}
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range n {
		c := rng.IntN(len(centre))
		v := make([]float32, testDim)
		for j := range v {
			v[j] = float32(centre[c][j] + rng.NormFloat64())
		}
		err := w.Write(&dataset.Record{
			Key: fmt.Appendf(nil, "row-%03d", i), Vector: v, Labels: []string{fmt.Sprintf("c%d", c)},
			Payload: fmt.Appendf(nil, "payload of %d", i),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// fixture is a folder with rows, queries and a database that holds the rows.
type fixture struct{ dir, rows, queries, file string }

func (f fixture) path(name string) string { return filepath.Join(f.dir, name) }

func newFixture(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{dir: dir, rows: filepath.Join(dir, "rows.jsonl"), queries: filepath.Join(dir, "queries.jsonl"), file: filepath.Join(dir, "test.anndb")}
	writeRows(t, f.rows, testRows, 10)
	writeRows(t, f.queries, testQueries, 20)
	must(t, "import", f.file, "things", f.rows, "--no-sync")
	return f
}

// cancelable is for programs that no signal interrupts.
func cancelable(ctx context.Context, _ func() bool) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	docs := withModel(t, newDocs(t))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"import", f.file, "things", f.rows, "--key-prefix", "again-"},
		{"export", f.file, "things", f.path("x.csv")},
		{"build", f.file, "things", "b"},
		{"search", f.file, "things", f.queries},
		{"evaluate", f.file, "things", "--queries", f.queries},
		{"stats", f.file},
		{"stats", f.file, "things"},
		{"drop", f.file, "things", "--yes"},
		{"maintain", f.file},
		{"repair", f.file},
		{"check", f.file},
		{"backup", f.file, f.path("b.anndb")},
		{"compact", f.file},
		{"import", docs.file, "docs", docs.rows, "--key-prefix", "again-"},
		{"export", docs.file, "docs", f.path("x.libsvm")},
		{"build", docs.file, "docs"},
		{"tune", docs.file, "docs"},
		{"search", docs.file, "docs", docs.queries},
		{"predict", docs.file, "docs", docs.queries},
		{"evaluate", docs.file, "docs", "--queries", docs.queries},
	} {
		out, errs, code := runArgs(ctx, args)
		if code != command.ExitInterrupted || out != "" || !strings.Contains(errs, "interrupted") {
			t.Errorf("%s: exit code %d\n%s%s", args[0], code, out, errs)
		}
	}
	for _, name := range []string{"x.csv", "x.xmc", "b.anndb"} {
		if _, err := os.Stat(f.path(name)); err == nil {
			t.Errorf("%s was left behind", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(f.dir, "*partial*"))
	if hidden, _ := filepath.Glob(filepath.Join(f.dir, ".*partial*")); err != nil || len(left)+len(hidden) > 0 {
		t.Errorf("left behind: %v %v", left, hidden)
	}
	must(t, "check", f.file)
	if got := mustJSON[map[string]objects](t, "stats", f.file); got["collections"][0]["rows"] != float64(testRows) {
		t.Errorf("%v", got["collections"])
	}
}

// TestControlCharacters: what arguments hold does not reach the terminal raw.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	for _, args := range [][]string{{"like", "\x1b[31m"}, {"a\x1b[31m=1"}} {
		if _, errs, _ := anndb(t, append([]string{"search", f.file, "docs"}, args...)...); !strings.Contains(errs, `\x1b[31m`) {
			t.Errorf("%q: message %q", args, errs)
		}
	}
}

// TestExportIsPrivate: what is made from the rows of a database has its mode, and an interrupted export
// leaves nothing.
func TestExportIsPrivate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := os.Chmod(f.file, mode); err != nil {
			t.Fatal(err)
		}
		for out, args := range map[string][]string{
			"out.csv":      {"export", f.file, "things", f.path("out.csv")},
			"out.jsonl.gz": {"export", f.file, "things", f.path("out.jsonl.gz")},
			"copy.anndb":   {"backup", f.file, f.path("copy.anndb")},
			"report.html":  {"report", f.file, "--out", f.path("report.html")},
		} {
			must(t, append(args, "--force")...)
			if info, err := os.Stat(f.path(out)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s has mode %v, the database %v, %v", out, info.Mode(), mode, err)
			}
		}
	}
	before, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, code := runArgs(ctx, []string{"export", f.file, "things", f.path("other.csv")}); code == command.ExitOK {
		t.Error("an interrupted export succeeded")
	}
	if after, err := os.ReadDir(f.dir); err != nil || len(after) != len(before) {
		t.Errorf("left behind: %v, %v", after, err)
	}
}

// write makes a text file.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
