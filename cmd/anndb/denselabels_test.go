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
	if s := must(t, "stats", f.file, "--all"); !strings.Contains(s, "neighbours by main") {
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
	if s := must(t, "explain", f.file, "docs", "--key", "3"); !strings.Contains(s, "topic") || !strings.Contains(s, "because of") {
		t.Errorf("explain:\n%s", s)
	}
	vector := strings.TrimSuffix(strings.Repeat("0,", topics*topicWords+otherWords-1), ",") + ",1"
	if s := must(t, "predict", f.file, "docs", "--vector", vector, "--top", "2"); !strings.Contains(s, "topic") {
		t.Errorf("predict:\n%s", s)
	}
}

// Second-order scores are tuned, stored, explained and maintained from the command
// line, over dense and sparse rows.
func TestSecondOrderLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := fixture{dir: dir, file: dir + "/test.anndb"}
	rows := writeTopics(t, f.path("docs.arff"), "", topicRows, 10)
	more := writeTopics(t, f.path("more.arff"), "", 30, 30)
	tests := writeTopics(t, f.path("tests.arff"), "", topicTests, 20)
	for _, c := range []struct{ coll, dense string }{{"dense", "--dense"}, {"sparse", ""}} {
		load := func(file string, flags ...string) {
			args := append([]string{"import", f.file, c.coll, file, "--no-sync"}, flags...)
			if c.dense != "" {
				args = append(args, c.dense)
			}
			must(t, args...)
		}
		load(rows)
		given := []string{"build", f.file, c.coll, "given", "--kind", "lcif", "--k", "8", "--lambda", "1", "--second-order", "0.4"}
		must(t, given...)
		if s := must(t, "stats", f.file, c.coll, "--all"); !strings.Contains(s, "second-order=0.4") {
			t.Errorf("stats:\n%s", s)
		}
		predict := []string{"predict", f.file, c.coll, "--index", "given", "--query", tests, "--explain", "--evidence", "0"}
		if s := must(t, predict...); !strings.Contains(s, "by its own nearest rows") {
			t.Errorf("predict:\n%s", s)
		}
		load(more, "--key-prefix", "more")
		must(t, "maintain", f.file)
		predict = append(predict, "--json")
		before := must(t, predict...)
		must(t, given...)
		if after := must(t, predict...); before != after {
			t.Errorf("a maintained model predicts otherwise than a rebuilt one:\n%s\n%s", before, after)
		}
		tuned := must(t, "tune", f.file, c.coll, "tuned", "--second-orders", "0.5", "--folds", "3", "--tune-rows", "60", "--json")
		if !strings.Contains(tuned, `"second_order": 0.5`) {
			t.Errorf("tune:\n%s", tuned)
		}
		must(t, "check", f.file)
	}
}
