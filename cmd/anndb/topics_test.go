package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/dataset"
)

const (
	topics     = 6
	topicWords = 8 // of each topic
	otherWords = 20
	topicRows  = 240
	topicTests = 60
)

// topicHeader names features and labels.
func topicHeader() dataset.Schema {
	h := dataset.Schema{Kind: dataset.Sparse, Dim: topics*topicWords + otherWords}
	for f := range h.Dim {
		h.FeatureNames = append(h.FeatureNames, fmt.Sprint("word", f))
	}
	for l := range topics {
		h.LabelNames = append(h.LabelNames, fmt.Sprint("topic", l))
	}
	return h
}

// writeTopics writes documents of one or two topics each, whose labels follow
// from their words.
func writeTopics(t *testing.T, path string, n int, seed uint64) {
	t.Helper()
	h := topicHeader()
	w, err := dataset.Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range n {
		counts := make([]float32, h.Dim)
		var names []string
		for range 1 + rng.IntN(2) {
			topic := rng.IntN(topics)
			if name := h.LabelNames[topic]; !slices.Contains(names, name) {
				names = append(names, name)
			}
			for range 5 {
				counts[topic*topicWords+rng.IntN(topicWords)]++
			}
		}
		for range 3 {
			counts[topics*topicWords+rng.IntN(otherWords)]++
		}
		rec := dataset.Record{Key: fmt.Appendf(nil, "doc-%03d", i), Labels: names, Payload: fmt.Appendf(nil, "payload of %d", i)}
		for f, v := range counts {
			if v > 0 {
				rec.Features.Index = append(rec.Features.Index, uint32(f))
				rec.Features.Value = append(rec.Features.Value, v)
			}
		}
		if err := w.Write(&rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// newDocs is a folder with documents, test documents and a database that
// holds the documents by the names of their words.
func newDocs(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{dir: dir, rows: filepath.Join(dir, "docs.jsonl"), queries: filepath.Join(dir, "tests.jsonl"), file: filepath.Join(dir, "test.anndb")}
	writeTopics(t, f.rows, topicRows, 10)
	writeTopics(t, f.queries, topicTests, 20)
	must(t, "import", f.file, "docs", f.rows, "--no-sync")
	return f
}

// withModel adds a label model that is not tuned.
func withModel(t *testing.T, f fixture) fixture {
	t.Helper()
	must(t, "build", f.file, "docs", "labels", "--kind", "lcif", "--k", "10", "--lambda", "0.5", "--alpha", "1.5", "--beta", "2", "--threshold", "0.3", "--weight", "tfidf")
	return f
}
