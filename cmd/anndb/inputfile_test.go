package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPredictStreams: predictions of several slices of queries come in the order of
// the queries, and equal those of one query at a time.
func TestPredictStreams(t *testing.T) {
	t.Parallel()
	f := withModel(t, newDocs(t))
	var many bytes.Buffer
	text := read(t, f.queries)
	first, _, _ := strings.Cut(text, "\n")
	const n = 600 // more than are predicted at a time
	for i := range n {
		many.WriteString(strings.Replace(first, `"key":"`, fmt.Sprintf(`"key":"%d-`, i), 1) + "\n")
	}
	all := f.path("many.jsonl")
	if err := os.WriteFile(all, many.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	one := mustJSON[objects](t, "predict", f.file, "docs", all, "--limit", "1", "-k", "2")
	got := mustJSON[objects](t, "predict", f.file, "docs", all, "-k", "2")
	if len(one) != 2 || len(got) != 2*n {
		t.Fatalf("%d and %d predictions", len(one), len(got))
	}
	for i, p := range got {
		key, _, _ := strings.Cut(p["query"].(string), "-")
		if key != fmt.Sprint(i/2) || p["label"] != one[i%2]["label"] || p["score"] != one[i%2]["score"] {
			t.Fatalf("prediction %d: %v, want %v", i, p, one[i%2])
		}
	}
	text, summary, _ := anndb(t, "predict", f.file, "docs", all, "-k", "2")
	if !strings.Contains(summary, fmt.Sprintf("queries: %d, ", n)) || strings.Count(text, "\n") != 1+2*n {
		t.Errorf("%d lines, %s", strings.Count(text, "\n"), summary)
	}
}
