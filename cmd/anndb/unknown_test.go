package main

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUnknownFeaturesNoted: a search and a prediction say on standard error which
// features no row has.
func TestUnknownFeaturesNoted(t *testing.T) {
	dir := t.TempDir()
	file, in := filepath.Join(dir, "n.anndb"), filepath.Join(dir, "n.jsonl")
	write(t, in, `{"key":"a","features":{"x":1,"y":1},"labels":["p"]}
{"key":"b","features":{"x":1},"labels":["p"]}
{"key":"c","features":{"z":1},"labels":["q"]}
`)
	must(t, "import", file, "n", in)
	out, errs, code := anndb(t, "search", file, "n", "--features", "x=1,epidemic=1", "--format", "csv")
	if code != exitOK || errs != "1 of 2 features is not known: epidemic\n" {
		t.Errorf("exit code %d, standard error %q", code, errs)
	}
	if !strings.Contains(out, "b,1,0.29289323,p") || !strings.Contains(out, "a,0,0.5,p") {
		t.Errorf("distances are not those of the whole query:\n%s", out)
	}
	must(t, "search", file, "n", "--features", "x=1,z=1")
	must(t, "build", file, "n", "labels", "--kind", "lcif", "--folds", "3")
	_, errs, code = anndb(t, "predict", file, "n", "--features", "a\x1b[31m=1,b=2")
	if code != exitOK || errs != "2 of 2 features are not known: a\\x1b[31m, b\n" {
		t.Errorf("exit code %d, standard error %q", code, errs)
	}
}

// TestReadmeFeatures: the features of the README's examples are Bibtex's.
func TestReadmeFeatures(t *testing.T) {
	data := os.Getenv("ANNDB_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(data, "bibtex", "bibtex-train.arff.gz"))
	if err != nil {
		t.Skipf("no data set: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	arff, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`docs\.anndb bibtex .*--features (\S+)`).FindAllSubmatch(readme, -1)
	if len(examples) == 0 {
		t.Fatal("the README has no example with --features")
	}
	for _, e := range examples {
		for part := range strings.SplitSeq(string(e[1]), ",") {
			name, _, _ := strings.Cut(part, "=")
			if !strings.Contains(string(arff), "\n@attribute "+name+" ") {
				t.Errorf("README: %s: Bibtex has no feature %q", e[0], name)
			}
		}
	}
}

// TestControlCharacters: what files hold does not reach the terminal raw.
func TestControlCharacters(t *testing.T) {
	dir := t.TempDir()
	file, in := filepath.Join(dir, "n.anndb"), filepath.Join(dir, "n.jsonl")
	write(t, in, `{"key":"\u001b[31mred","features":{"x":1},"labels":["z\u0007"]}
{"key":"two\nlines","features":{"x":1,"y":1}}
`)
	must(t, "import", file, "n", in)
	for _, format := range []string{"text", "markdown"} {
		for _, args := range [][]string{{"search", file, "n", "--features", "x"}, {"stats", file, "n"}} {
			out := must(t, append(args, "--format", format)...)
			if strings.ContainsAny(out, "\x1b\x07") || strings.Contains(out, "two\n") {
				t.Errorf("%v: %q", args, out)
			}
			if args[0] == "search" && !strings.Contains(out, `"two\nlines"`) {
				t.Errorf("the key is not quoted:\n%s", out)
			}
		}
	}
	hits := mustJSON[rows](t, "search", file, "n", "--features", "x")
	if hits[0]["key"] != "\x1b[31mred" {
		t.Errorf("JSON has %q", hits[0]["key"])
	}
	_, errs, _ := anndb(t, "search", file, "n", "--key", "\x1b[31m")
	if strings.Contains(errs, "\x1b") {
		t.Errorf("message %q", errs)
	}
}

// TestExportIsPrivate: an export has the mode of its database, and an interrupted
// one leaves nothing.
func TestExportIsPrivate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := os.Chmod(f.file, mode); err != nil {
			t.Fatal(err)
		}
		must(t, "export", f.file, "things", f.path("out.csv"))
		if info, err := os.Stat(f.path("out.csv")); err != nil || info.Mode().Perm() != mode {
			t.Errorf("the export has mode %v, the database %v, %v", info.Mode(), mode, err)
		}
	}
	before, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(ctx, []string{"export", f.file, "things", f.path("other.csv")}, io.Discard, io.Discard); code == exitOK {
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
