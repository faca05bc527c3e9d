package main

import (
	"strings"
	"testing"
)

// A dense collection made of sparse records has a label model beside its
// forest, which finds the neighbours.
func TestDenseLabelModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := fixture{dir: dir, file: dir + "/test.anndb"}
	rows := writeTopics(t, f.path("docs.arff"), "", topicRows, 10)
	tests := writeTopics(t, f.path("tests.arff"), "", topicTests, 20)
	for _, args := range [][]string{
		{"import", f.file, "docs", rows, "--dense", "--metric", "cosine", "--no-sync"},
		{"build", f.file, "docs", "main", "--trees", "4"},
		{"tune", f.file, "docs", "labels", "--objective", "accuracy", "--settings", "3", "--folds", "3"},
	} {
		must(t, args...)
	}
	if s := must(t, "stats", f.file); !strings.Contains(s, "neighbours by main") {
		t.Errorf("stats:\n%s", s)
	}
	type measured struct {
		Measure string
		Value   float64
	}
	good := false
	for _, m := range mustJSON[[]measured](t, "evaluate", f.file, "docs", "--index", "labels", "--queries", tests, "--json") {
		good = good || m.Measure == "accuracy" && m.Value > 0.8
	}
	if !good {
		t.Error("labels are predicted badly, or accuracy is missing")
	}
	// Without a name the forest is measured, and the label model is no forest.
	if s := must(t, "evaluate", f.file, "docs", "--queries", tests); !strings.Contains(s, "main") || strings.Contains(s, "accuracy") {
		t.Errorf("evaluate:\n%s", s)
	}
	if s := must(t, "explain", f.file, "docs", "--key", "3"); !strings.Contains(s, "topic") || !strings.Contains(s, "carried by") {
		t.Errorf("explain:\n%s", s)
	}
	vector := strings.TrimSuffix(strings.Repeat("0,", topics*topicWords+otherWords-1), ",") + ",1"
	if s := must(t, "predict", f.file, "docs", "--vector", vector, "--top", "2"); !strings.Contains(s, "topic") {
		t.Errorf("predict:\n%s", s)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"evaluate", f.file, "docs", "--index", "labels,main", "--queries", tests}, "label models and forests"},
		{[]string{"evaluate", f.file, "docs", "--index", "labels", "--holdout", "3"}, "--queries"},
		{[]string{"import", f.file, "x", rows, "--dense", "--named"}, "--dense"},
		{[]string{"evaluate", f.file, "docs", "--index", "labels", "--queries", tests, "--labels", "y"}, "--labels"},
	} {
		if _, errs, code := anndb(t, c.args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", c.args, code, exitUsage, c.want, errs)
		}
	}
	if _, errs, code := anndb(t, "evaluate", f.file, "docs", "--index", "labels", "--queries", writeRows(t, f.path("other.jsonl"), 3, 1)); code != exitError || !strings.Contains(errs, "dimensions") {
		t.Errorf("queries of another dimension: exit code %d, %s", code, errs)
	}
}
