package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/vector"
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
func writeTopics(t *testing.T, path, format string, n int, seed uint64, more ...dataset.Record) string {
	t.Helper()
	h := topicHeader()
	h.Format = format
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
		more = append(more, rec)
	}
	for i := range more {
		if err := w.Write(&more[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// newDocs is a folder with documents, test documents and a database that
// holds the documents by the names of their words.
func newDocs(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{dir: dir, rows: filepath.Join(dir, "docs.jsonl"), queries: filepath.Join(dir, "tests.jsonl"), file: filepath.Join(dir, "test.anndb")}
	writeTopics(t, f.rows, "", topicRows, 10)
	writeTopics(t, f.queries, "", topicTests, 20)
	must(t, "import", f.file, "docs", f.rows, "--no-sync")
	return f
}

// withModel adds a label model that is not tuned.
func withModel(t *testing.T, f fixture) fixture {
	t.Helper()
	must(t, "build", f.file, "docs", "labels", "--kind", "lcif", "--k", "10", "--lambda", "0.5", "--alpha", "1.5", "--beta", "2", "--threshold", "0.3", "--weight", "tfidf")
	return f
}

func TestSparseImport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	file := path("x.anndb")
	h := topicHeader()
	for name, list := range map[string][]string{"labels.txt": h.LabelNames, "words.txt": h.FeatureNames} {
		if err := dataset.WriteNames(path(name), list, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, file, format string
		flags              []string
		named              bool
	}{
		{"libsvm", "a.libsvm", "", nil, false},
		{"unnamed", "a.data.gz", "libsvm", nil, false},
		{"based", "b.data", "libsvm", []string{"--as", "libsvm", "--base", "1", "--sparse"}, false},
		{"xmc", "a.txt", "", []string{"--label-names", path("labels.txt")}, false},
		{"xmc named", "b.txt.gz", "", []string{"--label-names", path("labels.txt"), "--feature-names", path("words.txt"), "--named"}, true},
		{"arff", "a.arff", "", nil, false},
		{"arff named", "b.arff", "", []string{"--named"}, true},
		{"jsonl", "a.jsonl", "", nil, true},
	} {
		writeTopics(t, path(c.file), c.format, 50, 7)
		got := mustJSON[objects](t, append([]string{"import", file, c.name, path(c.file), "--no-sync"}, c.flags...)...)[0]
		if got["rows"] != 50.0 || got["created"] != true || got["named"] != c.named || got["labels"] != float64(topics) {
			t.Errorf("%s: %v", c.name, got)
		}
		key := "7"
		if strings.HasPrefix(c.name, "jsonl") {
			key = "doc-007"
		}
		near := mustJSON[objects](t, "search", file, c.name, "--key", key, "-k", "3", "--payload")
		itself := slices.ContainsFunc(near, func(hit map[string]any) bool { return hit["key"] == key })
		if len(near) != 3 || itself || !strings.HasPrefix(fmt.Sprint(near[0]["labels"]), "[topic") {
			t.Errorf("%s: %v", c.name, near)
		}
		ask := "word0=2, word1"
		switch {
		case got["numbering"] == "from 1":
			ask = "2,1=2"
		case !c.named:
			ask = "1,0=2"
		}
		for i, hit := range mustJSON[objects](t, "search", file, c.name, "--features", ask, "-k", "2") {
			want := near0(t, file, i)
			if fmt.Sprintf("%.5f", hit["distance"]) != want {
				t.Errorf("%s: hit %d of %s at %v, want %s", c.name, i, ask, hit["distance"], want)
			}
		}
	}
	again := mustJSON[objects](t, "import", file, "xmc", path("a.txt"), "--key-prefix", "more-", "--limit", "5", "--label-names", path("labels.txt"))[0]
	if again["rows"] != 5.0 || again["created"] != false {
		t.Errorf("%v", again)
	}
	text := must(t, "stats", file)
	for _, want := range []string{"sparse, named", "sparse ", "cosine"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	must(t, "check", file)
}

// near0 is the distance that the first collection, numbered libsvm, gives: all
// collections hold the same rows.
func near0(t *testing.T, file string, i int) string {
	t.Helper()
	return fmt.Sprintf("%.5f", mustJSON[objects](t, "search", file, "libsvm", "--features", "2,1=2", "-k", "2")[i]["distance"])
}

func TestSparseExport(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	back := f.path("back.jsonl.gz")
	if got := mustJSON[objects](t, "export", f.file, "docs", back)[0]; got["rows"] != float64(topicRows) || got["format"] != "jsonl" {
		t.Errorf("%v", got)
	}
	words, names := f.path("words.txt"), f.path("labels.txt")
	must(t, "export", f.file, "docs", f.path("back.xmc"), "--feature-names", words, "--label-names", names)
	must(t, "export", f.file, "docs", f.path("back.svm"))
	must(t, "export", f.file, "docs", f.path("back.arff"))
	search := func(coll string) string {
		t.Helper()
		return must(t, "search", f.path("again.anndb"), coll, "--query", f.queries, "-k", "3", "--format", "csv")
	}
	must(t, "import", f.path("again.anndb"), "jsonl", back, "--no-sync")
	must(t, "import", f.path("again.anndb"), "xmc", f.path("back.xmc"), "--named", "--feature-names", words, "--label-names", names, "--no-sync")
	must(t, "import", f.path("again.anndb"), "svm", f.path("back.svm"), "--named", "--feature-names", words, "--base", "1", "--no-sync")
	must(t, "import", f.path("again.anndb"), "arff", f.path("back.arff"), "--named", "--no-sync")
	want := must(t, "search", f.file, "docs", "--query", f.queries, "-k", "3", "--format", "csv")
	if got := search("jsonl"); got != want {
		t.Errorf("jsonl:\n%s\nwant\n%s", got, want)
	}
	for _, coll := range []string{"xmc", "svm", "arff"} {
		// Only jsonl keeps keys; the others number the rows in their order.
		got := strings.Split(search(coll), "\n")
		for i, line := range strings.Split(want, "\n") {
			a, b := strings.Split(line, ","), strings.Split(got[i], ",")
			if i > 0 && line != "" {
				a[2], b[2] = "", ""
			}
			if !slices.Equal(a, b) {
				t.Fatalf("%s: line %d is %v, want %v", coll, i, b, a)
			}
		}
	}
	// Labels that are numbers stay as they are.
	one := f.path("one.xmc")
	if err := os.WriteFile(one, []byte("2 5 3\n0,2 1:1\n2 2:1 4:3.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "import", f.file, "one", one)
	must(t, "export", f.file, "one", f.path("two.xmc"))
	a, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	// The header was filled in last, into a line of blanks.
	b, err := os.ReadFile(f.path("two.xmc"))
	if head, rest, _ := strings.Cut(string(b), "\n"); err != nil || strings.TrimRight(head, " ")+"\n"+rest != string(a) {
		t.Errorf("%v: %s, want %s", err, b, a)
	}
}

func TestPredict(t *testing.T) {
	t.Parallel()
	f := withModel(t, newDocs(t))
	got := mustJSON[objects](t, "predict", f.file, "docs", "--query", f.queries, "--top", "3")
	if len(got) < 2*topicTests || got[0]["query"] != "doc-000" || got[0]["rank"] != 1.0 || got[1]["score"].(float64) > got[0]["score"].(float64) {
		t.Errorf("%d predictions, first %v", len(got), got[0])
	}
	words := "word16=3,word17=2,word18=2" // of topic 2
	one := mustJSON[objects](t, "predict", f.file, "docs", "--features", words, "--explain", "--evidence", "2", "--index", "labels")
	if len(one) == 0 || one[0]["label"] != "topic2" {
		t.Fatalf("%v", one)
	}
	parts := one[0]["explanation"].(map[string]any)["parts"].([]any)
	near, features := parts[0].(map[string]any), parts[1].(map[string]any)
	if len(near["parts"].([]any)) != 2 || len(features["parts"].([]any)) != 2 {
		t.Fatalf("%v", parts)
	}
	sum := near["score"].(float64) + features["score"].(float64)
	if d := sum - one[0]["score"].(float64); d > 1e-5 || d < -1e-5 {
		t.Errorf("parts sum to %g, score %v", sum, one[0]["score"])
	}
	if w := features["parts"].([]any)[0].(map[string]any)["feature"]; w != "word16" && w != "word17" && w != "word18" {
		t.Errorf("most important feature %v", w)
	}
	if csv := must(t, "predict", f.file, "docs", "--key", "doc-003", "--explain", "--format", "csv", "--evidence", "0"); strings.Count(csv, "doc-003,topic") < 5 {
		t.Errorf("csv leaves out what people need not read twice:\n%s", csv)
	}
}

func TestEvaluateLabels(t *testing.T) {
	t.Parallel()
	f := withModel(t, newDocs(t))
	must(t, "build", f.file, "docs", "near", "--kind", "lcif", "--k", "3", "--lambda", "1")
	must(t, "build", f.file, "docs", "rows", "--kind", "postings")
	all := mustJSON[objects](t, "evaluate", f.file, "docs", "--queries", f.queries, "--threads", "2")
	measures := func(list objects, index string) map[string]map[string]any {
		out := map[string]map[string]any{}
		for _, r := range list {
			if r["index"] == index {
				out[r["measure"].(string)] = r
			}
		}
		return out
	}
	both := measures(all, "labels")
	if len(all) != 2*len(both) || len(measures(all, "near")) != len(both) {
		t.Fatalf("%v", all)
	}
	for _, name := range []string{"accuracy", "micro-f1", "macro-f1", "p@1", "ndcg@5"} {
		if v := both[name]["value"].(float64); v < 0.8 || v > 1 {
			t.Errorf("%s is %g", name, v)
		}
	}
	if h := both["hamming-loss"]["value"].(float64); h <= 0 || h > 0.1 {
		t.Errorf("Hamming loss %g", h)
	}
	if both["p@3"]["value"].(float64) > both["p@1"]["value"].(float64) || both["µs a row"]["value"].(float64) <= 0 {
		t.Errorf("%v", both)
	}
	// A label that the collection does not know is missed: it costs recall,
	// not precision.
	var more []dataset.Record
	for i := range 10 {
		more = append(more, dataset.Record{
			Key: fmt.Appendf(nil, "new-%d", i), Labels: []string{"topic2", "unheard of"},
			Features: vector.Sparse{Index: []uint32{16, 17, 18}, Value: []float32{3, 2, 2}},
		})
	}
	path := writeTopics(t, f.path("more.jsonl"), "", 0, 1, more...)
	text := must(t, "evaluate", f.file, "docs", "--queries", path, "--index", "labels")
	if !strings.Contains(text, "rows: 10, labels: 7, 1 of them unknown to the collection") {
		t.Error(text)
	}
	missed := measures(mustJSON[objects](t, "evaluate", f.file, "docs", "--queries", path, "--index", "labels"), "labels")
	if missed["p@1"]["value"] != 1.0 || missed["micro-recall"]["value"] != 0.5 {
		t.Errorf("%v", missed)
	}
	// Five labels neither occur nor are predicted: 0/0.
	mulan, zero := missed["macro-f1"]["value"].(float64), missed["macro-f1"]["zero"].(float64)
	if mulan-zero < 0.5 {
		t.Errorf("macro F1 %g and %g", mulan, zero)
	}
	// Files with lists of labels count those that no row has: topics 1 to 5.
	arff := writeTopics(t, f.path("few.arff"), "", 3, 5)
	if text := must(t, "evaluate", f.file, "docs", "--queries", arff, "--index", "labels"); !strings.Contains(text, "rows: 3, labels: 6, 0") {
		t.Error(text)
	}
}
