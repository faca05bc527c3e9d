package goroot

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/anndb/anndb/internal/lsa"
)

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(text), 0o644))
	}
	return dir
}

func TestWalk(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"a/b/x.go": `package b

// Split cuts a string. It has a second sentence.
func Split(s string) []string { return helper(s) }

func helper(s string) []string { return nil }

// List is a list.
type List[T any] struct{ head *T }

// Push adds.
func (l *List[T]) Push(v T) {}

type hidden int

func (hidden) Visible() {}

type (
	// Pair has a comment of its own.
	Pair struct{}
	Alias = Pair
)
`,
		"a/b/y_windows.go":    "package b\n\nfunc Split(s string) []string { return windows }\n",
		"a/b/x_test.go":       "package b\n\nfunc TestThing() {}\n",
		"a/b/testdata/t.go":   "package t\n\nfunc InTestdata() {}\n",
		"a/broken.go":         "package a\n\nfunc Broken( {\n",
		"a/cmd/main.go":       "package main\n\nfunc Exported() {}\n",
		"a/b/README.md":       "func NotGo() {}",
		"_skipped/z.go":       "package z\n\nfunc Z() {}\n",
		"a/other/.hidden.txt": "",
	})
	for _, workers := range []int{1, 4} {
		docs, err := Walk(context.Background(), dir, workers, nil)
		must(t, err)
		var got []string
		for _, d := range docs {
			got = append(got, d.Kind+" "+d.Key)
		}
		want := []string{"type a/b.Alias", "type a/b.List", "method a/b.List.Push", "type a/b.Pair", "func a/b.Split"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("workers %d (-want +got):\n%s", workers, diff)
		}
		split := docs[4]
		if split.Synopsis != "Split cuts a string." {
			t.Errorf("synopsis %q", split.Synopsis)
		}
		want = []string{"split", "split", "cuts", "string", "it", "has", "second", "sentence", "func", "split", "string", "string", "return", "helper"}
		if diff := cmp.Diff(want, Tokens(nil, split.Text)); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	}
}

func TestWalkErrors(t *testing.T) {
	if _, err := Walk(context.Background(), filepath.Join(t.TempDir(), "none"), 1, nil); !errors.Is(err, ErrNoSource) {
		t.Errorf("missing folder: %v", err)
	}
	if _, err := Walk(context.Background(), t.TempDir(), 1, nil); !errors.Is(err, ErrNoSource) {
		t.Errorf("empty folder: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Walk(ctx, writeTree(t, map[string]string{"a/a.go": "package a\n\nfunc A() {}\n"}), 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	t.Setenv("GOROOT", t.TempDir())
	if _, err := Find(context.Background()); !errors.Is(err, ErrNoSource) {
		t.Errorf("Find in an empty folder: %v", err)
	}
}

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"a b c", nil},
		{"ReadFile", []string{"read", "file"}},
		{"HTTPServer parseURL", []string{"http", "server", "parse", "url"}},
		{"max_len9 utf8x 12ab", []string{"max", "len9", "utf8x", "ab"}},
		{"für Élan", []string{"für", "élan"}},
	} {
		if diff := cmp.Diff(c.want, Tokens(nil, c.in)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestTFIDF(t *testing.T) {
	docs := []Document{
		{Text: "apple apple banana"}, {Text: "apple cherry"}, {Text: "banana cherry rare"}, {Text: "cherry"}, {Text: "other unique"},
	}
	s, terms, err := TFIDF(context.Background(), docs, 2, 0.5, 2)
	must(t, err)
	// cherry is in 3 of 5 documents, above the half; rare, other, unique in one.
	if diff := cmp.Diff([]string{"apple", "banana"}, terms); diff != "" {
		t.Fatalf("terms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 2, 3, 4, 4, 4}, s.Ptr); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	// Both terms have idf ln(5/2), so the first row is (1+ln 2, 1) to unit length.
	a := 1 + math.Log(2)
	n := math.Hypot(a, 1)
	for i, want := range []float64{a / n, 1 / n, 1, 1} {
		if math.Abs(s.Val[i]-want) > 1e-12 {
			t.Errorf("value %d is %g, want %g", i, s.Val[i], want)
		}
	}
}

// TestStandardLibrary checks the whole chain on the real tree: the documents
// exist, and functions of one family are closer than unrelated ones.
func TestStandardLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("parses the whole standard library")
	}
	ctx := context.Background()
	root, err := Find(ctx)
	if err != nil {
		t.Skip(err)
	}
	var docs []Document
	for _, p := range []string{"strings", "bytes", "net", "encoding", "os", "sort"} {
		d, err := Walk(ctx, filepath.Join(root, "src", p), 0, nil)
		must(t, err)
		for i := range d {
			d[i].Key = filepath.ToSlash(filepath.Join(p, d[i].Key))
		}
		docs = append(docs, d...)
	}
	m, _, err := TFIDF(ctx, docs, 3, 0.3, 0)
	must(t, err)
	const dims = 32
	x, _, err := lsa.SVD(ctx, m, lsa.Options{Dims: dims, Rounds: 4, Seed: 1})
	must(t, err)
	vec := func(key string) []float32 {
		i := slices.IndexFunc(docs, func(d Document) bool { return d.Key == key })
		if i < 0 {
			t.Fatalf("no document %s", key)
		}
		return x[i*dims : (i+1)*dims]
	}
	cosine := func(a, b []float32) float64 {
		var ab, aa, bb float64
		for i := range a {
			ab += float64(a[i]) * float64(b[i])
			aa += float64(a[i]) * float64(a[i])
			bb += float64(b[i]) * float64(b[i])
		}
		return ab / math.Sqrt(aa*bb)
	}
	near := cosine(vec("strings/strings.Split"), vec("strings/strings.SplitN"))
	far := cosine(vec("strings/strings.Split"), vec("net/http.Get"))
	if near < far+0.3 {
		t.Errorf("Split~SplitN %.3f, Split~http.Get %.3f: no structure", near, far)
	}
}

func TestFiles(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":            "// Package a greets.\npackage a\n\nimport (\n\t\"strings\"\n\tgreeting \"fmt\"\n)\n\nimport \"fmt\"\n\nvar x = strings.ToUpper(\"hello hello\")\n",
		"a/none.go":         "package a\n\nvar y = 1\n",
		"a/bad.go":          "package a\n\nimport \"fmt\n",
		"a/a_test.go":       "package a\n\nimport \"testing\"\n",
		"b/testdata/x/x.go": "package x\n\nimport \"os\"\n",
		"b/b.go":            "package b\nimport \"os\"\nvar " + strings.Repeat("q", 50) + " = os.Args\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, workers := range []int{1, 3} {
		files, err := Files(t.Context(), root, workers, nil)
		must(t, err)
		want := []File{
			{"a/a.go", []string{"fmt", "strings"}, map[string]int{"package": 2, "greets": 1, "var": 1, "strings": 1, "to": 1, "upper": 1, "hello": 2}},
			{"b/b.go", []string{"os"}, map[string]int{"package": 1, "var": 1, "os": 1, "args": 1}},
		}
		if !reflect.DeepEqual(files, want) {
			t.Errorf("%d workers: %v, want %v", workers, files, want)
		}
	}
	if _, err := Files(t.Context(), filepath.Join(root, "missing"), 1, nil); !errors.Is(err, ErrNoSource) {
		t.Errorf("no folder: %v", err)
	}
}

// must ends a test that has got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
