package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestImportReportsFormats: a file is refused as what it is, with the way out.
func TestImportReportsFormats(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		text, want string
		flags      []string
	}{
		"weka":     {"@relation r\n@attribute a numeric\n@data\n1\n", "--labels-xml", nil},
		"lab":      {"2 10 5\n0,9 1:1\n", "label 9, the header promises 5 from 0 on (read as xmc: --as", nil},
		"semi.csv": {"key;a;b\nx;1;2\n", "';' the separator?", nil},
		"other":    {"a b\nc d\n", `"a b" is not a number (read as csv: --as`, nil},
	} {
		in := f.path(name)
		write(t, in, c.text)
		fails(t, exitError, c.want, append([]string{"import", f.file, "new", in}, c.flags...)...)
	}
	got := mustJSON[rows](t, "import", f.file, "semi", f.path("semi.csv"), "--separator", ";")[0]
	if got["rows"] != 1.0 || got["dim"] != 2.0 {
		t.Errorf("%v", got)
	}
	fails(t, exitUsage, "--separator", "import", f.file, "new", f.path("semi.csv"), "--separator", "::")
	fails(t, exitUsage, "libsvm files hold no dense records", "export", f.file, "things", f.path("x.libsvm"))
}

// TestPredictStreams: predictions of several slices of queries come in the order of
// the queries, and equal those of one query at a time.
func TestPredictStreams(t *testing.T) {
	t.Parallel()
	f := withModel(t, newDocs(t))
	var many bytes.Buffer
	text := read(t, f.queries)
	first, _, _ := strings.Cut(text, "\n")
	n := 2*predictSlice + 3
	for i := range n {
		many.WriteString(strings.Replace(first, `"key":"`, fmt.Sprintf(`"key":"%d-`, i), 1) + "\n")
	}
	all := f.path("many.jsonl")
	if err := os.WriteFile(all, many.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	one := mustJSON[rows](t, "predict", f.file, "docs", "--query", all, "--limit", "1", "-k", "2")
	got := mustJSON[rows](t, "predict", f.file, "docs", "--query", all, "-k", "2")
	if len(one) != 2 || len(got) != 2*n {
		t.Fatalf("%d and %d predictions", len(one), len(got))
	}
	for i, p := range got {
		key, _, _ := strings.Cut(p["query"].(string), "-")
		if key != fmt.Sprint(i/2) || p["label"] != one[i%2]["label"] || p["score"] != one[i%2]["score"] {
			t.Fatalf("prediction %d: %v, want %v", i, p, one[i%2])
		}
	}
	text = must(t, "predict", f.file, "docs", "--query", all, "-k", "2")
	if !strings.Contains(text, fmt.Sprintf("queries: %d, ", n)) || strings.Count(text, "\n") < 2*n {
		t.Errorf("%d lines", strings.Count(text, "\n"))
	}
}
