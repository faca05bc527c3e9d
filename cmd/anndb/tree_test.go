package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTrees is the fixture of documents with trees of kinds at and pt, and a
// second collection of one class a row with one of kind sbt.
func newTrees(t *testing.T) fixture {
	t.Helper()
	f := newDocs(t)
	for _, kind := range []string{"at", "pt"} {
		must(t, "build", f.file, "docs", kind, "--kind", kind, "--budget", "5")
	}
	var b strings.Builder
	for i := range 90 {
		c := i % 3
		fmt.Fprintf(&b, "%d %d:1 %d:%d %d:1\n", c, 1+c, 10+i%4, 1+i%2, 20+c)
	}
	classes := f.path("classes.libsvm")
	if err := os.WriteFile(classes, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "import", f.file, "classes", classes, "--no-sync")
	must(t, "build", f.file, "classes", "sbt", "--kind", "sbt", "--budget", "2")
	return f
}

func TestExplainTree(t *testing.T) {
	t.Parallel()
	f := newTrees(t)
	type answer struct {
		Query  string
		Labels []scoredLabel
		Path   pathJSON
	}
	for _, kind := range []string{"at", "pt"} {
		args := []string{"explain", f.file, "docs", "--index", kind, "--features", "word0=2,word1=3,word9=1"}
		text := must(t, args...)
		for _, want := range []string{"margin", "offset", "leaf", "word1", "training rows", "0 without a label"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", kind, want, text)
			}
		}
		got := mustJSON[[]answer](t, append(args, "--evidence", "0")...)
		if len(got) != 1 || got[0].Query != "features" || len(got[0].Path.Decisions) == 0 {
			t.Fatalf("%s: %+v", kind, got)
		}
		for _, d := range got[0].Path.Decisions {
			sum := d.Offset
			for _, x := range d.Features {
				sum += x.Adds
			}
			if math.Abs(sum-d.Margin) > 1e-4 || d.Yes != (d.Margin > 0) || (d.Label == "") != (kind == "pt") || d.Present != len(d.Features) {
				t.Errorf("%s: %+v adds up to %g", kind, d, sum)
			}
		}
		predicted := mustJSON[rows](t, "predict", f.file, "docs", "--index", kind, "--features", "word0=2,word1=3,word9=1")
		if len(predicted) != len(got[0].Labels) || len(predicted) != len(got[0].Path.Answer) {
			t.Errorf("%s: predicted %v, explained %+v", kind, predicted, got[0])
		}
		if csv := must(t, append(args, "--format", "csv")...); strings.Count(csv, "\nfeatures,") != strings.Count(csv, "\n")-1 {
			t.Errorf("%s: a line of csv without its query:\n%s", kind, csv)
		}
	}
	text := must(t, "explain", f.file, "classes", "--features", "2=1,21=1", "--evidence", "1")
	for _, want := range []string{"1, node ", "votes)", "leaf  1 ("} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	// A row that no decision says yes to has an explanation all the same.
	lone := mustJSON[[]answer](t, "explain", f.file, "docs", "--index", "at", "--features", "word60=1")
	if len(lone) != 1 || len(lone[0].Path.Decisions) == 0 || lone[0].Labels == nil {
		t.Errorf("%+v", lone)
	}
	// Classes are ranked by the margins of their trees.
	ranked := mustJSON[rows](t, "predict", f.file, "classes", "-k", "3", "--features", "2=1,21=1")
	if len(ranked) != 3 || ranked[0]["label"] != "1" || ranked[1]["score"].(float64) > ranked[0]["score"].(float64) {
		t.Errorf("%v", ranked)
	}
}

func TestPlotTree(t *testing.T) {
	t.Parallel()
	f := newTrees(t)
	text := must(t, "plot", "tree", f.file, "docs", "at", "--nodes", "0", "--depth", "0")
	for _, want := range []string{"topic", "? +", "·word", "yes: {", "labels open"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "more decision") {
		t.Errorf("the whole tree hides decisions:\n%s", text)
	}
	short := must(t, "plot", "tree", f.file, "docs", "at", "--nodes", "2", "--features", "1")
	if strings.Count(short, "·word") != 2 || !strings.Contains(short, "more decision") {
		t.Errorf("two decisions of one feature:\n%s", short)
	}
	if dot := must(t, "plot", "tree", f.file, "docs", "pt", "--out", "dot"); !strings.HasPrefix(dot, "digraph tree {") {
		t.Errorf("dot:\n%s", dot)
	}
	svg := must(t, "plot", "tree", f.file, "docs", "pt", "--out", "svg")
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for _, ending := range []string{"svg", "png", "dot", "txt"} {
		path := f.path("tree." + ending)
		done := mustJSON[rows](t, "plot", "tree", f.file, "docs", "at", "--out", path, "--nodes", "4")
		if len(done) != 1 || done[0]["decisions"].(float64) != 4 || done[0]["hidden"].(float64) == 0 {
			t.Errorf("%s: %v", ending, done)
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			t.Fatalf("%s: %v", ending, err)
		}
		if ending != "png" {
			continue
		}
		img, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		colours := map[string]bool{}
		for x := range img.Bounds().Dx() {
			for y := range img.Bounds().Dy() {
				colours[fmt.Sprint(img.At(x, y))] = true
			}
		}
		if len(colours) < 10 || !colours["{238 243 250 255}"] {
			t.Errorf("%d colours in %v", len(colours), img.Bounds())
		}
	}
	one := must(t, "plot", "tree", f.file, "classes", "sbt", "--class", "2")
	if !strings.HasPrefix(one, "2 against the rest\n") || strings.Contains(one, "1 against") {
		t.Errorf("class 2:\n%s", one)
	}
}

func TestTreeMisuse(t *testing.T) {
	t.Parallel()
	f := newTrees(t)
	must(t, "build", f.file, "docs", "words")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"plot", "tree", f.file, "docs", "at", "--out", "tree.gif"}, "tree.gif"},
		{exitUsage, []string{"plot", "tree", f.file, "docs", "at", "--nodes", "-1"}, "--nodes"},
		{exitUsage, []string{"plot", "tree", f.file, "docs", "at", "--features", "0"}, "--features"},
		{exitUsage, []string{"plot", "tree", f.file, "docs"}, "name one"},
		{exitUsage, []string{"plot", "tree", f.file, "classes", "--class", "7"}, `"7"`},
		{exitError, []string{"plot", "tree", f.file, "docs", "words"}, "words"},
		{exitError, []string{"plot", "tree", f.file, "docs", "none"}, "none"},
		{exitError, []string{"plot", "tree", f.file, "nothing"}, "nothing"},
		{exitError, []string{"plot", "tree", f.path("no.anndb"), "docs"}, "no.anndb"},
		{exitError, []string{"plot", "tree", f.file, "docs", "at", "--out", filepath.Join(f.dir, "none", "x.svg")}, "x.svg"},
		{exitUsage, []string{"explain", f.file, "docs", "--features", "word1=1"}, "name one"},
		{exitError, []string{"explain", f.file, "docs", "--index", "none", "--features", "word1=1"}, "none"},
		{exitUsage, []string{"explain", f.file, "docs", "--index", "at", "--features", "word1=x"}, `"x"`},
		{exitUsage, []string{"explain", f.file, "docs", "--index", "at", "--features", "word1=-1"}, "word1"},
		{exitUsage, []string{"explain", f.file, "docs", "--index", "at", "--features", "word1=nan"}, "word1"},
	} {
		out, errs, code := anndb(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("anndb %s: exit code %d, want %d\n%s%s", strings.Join(c.args, " "), code, c.code, out, errs)
		}
	}
	left, err := filepath.Glob(f.path(".*partial*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestTuneTrees chooses by cross-validation and shows what was measured; the
// measures of a test file have the decisions beside those of training.
func TestTuneTrees(t *testing.T) {
	t.Parallel()
	f := newTrees(t)
	report := mustJSON[map[string]rows](t, "tune", f.file, "docs", "tuned", "--kind", "at", "--budgets", "1,8", "--cost", "2", "--thresholds=-0.5,0,40", "--folds", "3")
	trials := report["trials"]
	if len(trials) != 12 || trials[0]["positive"] == nil || trials[0]["chosen"] != true || trials[1]["chosen"] != false || trials[0]["score"].(float64) < trials[1]["score"].(float64) ||
		trials[0]["budget"] != 8.0 || trials[0]["cost"] != 2.0 || trials[0]["threshold"] == 40.0 {
		t.Errorf("%v", trials)
	}
	if s, _ := report["index"][0]["setting"].(string); !strings.Contains(s, "budget=8 cost=2") {
		t.Errorf("setting %q", s)
	}
	text := must(t, "build", f.file, "classes", "cv", "--kind", "sbt", "--costs", "0.1,1", "--budget", "2")
	for _, want := range []string{"share of rows with the right class", "2 settings", "true"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	text = must(t, "tune", f.file, "classes", "--kind", "sbt", "--settings", "2", "--folds", "2")
	if !strings.Contains(text, "6 settings") || strings.Count(text, "\nfalse") != 1 { // budgets 10 and 22, three costs
		t.Errorf("tuned by the usual grid:\n%s", text)
	}
	stats := mustJSON[map[string]rows](t, "stats", f.file)
	entries := map[string]map[string]any{}
	for _, r := range stats["trees"] {
		entries[r["index"].(string)] = r
	}
	for _, name := range []string{"docs/at", "docs/pt", "docs/tuned", "classes/sbt"} {
		e := entries[name]
		if e == nil || e["decisions"].(float64) < e["entropy"].(float64)-1e-9 || e["bytes"].(float64) < 100 || e["depth"].(float64) < 1 {
			t.Errorf("%s: %v", name, e)
		}
	}
	if entries["docs/pt"]["below"] != true || entries["classes/sbt"]["below"] != nil {
		t.Errorf("%v", entries)
	}
	detail := must(t, "stats", f.file, "docs")
	for _, want := range []string{"theorem 12", "tuned: What cross-validation measured: example-based F1", "entropy_plus_1"} {
		if !strings.Contains(detail, want) {
			t.Errorf("%q is not in\n%s", want, detail)
		}
	}
	measures := map[string]float64{}
	for _, r := range mustJSON[rows](t, "evaluate", f.file, "docs", "--queries", f.queries, "--index", "tuned") {
		measures[r["measure"].(string)] = r["value"].(float64)
	}
	if measures["decisions a row"] < 1 || measures["example-f1"] < 0.5 || measures["p@1"] < measures["p@3"] || measures["entropy of the leaves"] <= 0 {
		t.Errorf("%v", measures)
	}
	for _, wrong := range [][]string{
		{"--kind", "at", "--objective", "p@1"},
		{"--budgets", "3"},
		{"--kind", "pt", "--threshold", "0.1"},
		{"--kind", "at", "--budgets", "0"},
		{"--kind", "at", "--folds", "1"},
		{"--kind", "at", "--settings", "-1"},
		{"--kind", "kd"},
	} {
		if out, errs, code := anndb(t, append([]string{"tune", f.file, "docs"}, wrong...)...); code != exitUsage || out != "" {
			t.Errorf("%q: exit code %d\n%s%s", wrong, code, out, errs)
		}
	}
}

// TestBadTrees builds what cannot be: the message names what is wrong.
func TestBadTrees(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.anndb")
	line := func(text string, n int) string { return strings.Repeat(text+"\n", n) }
	for name, c := range map[string]struct{ rows, kind, want string }{
		"single":   {line("a 1:1 2:3", 9) + line("a 1:2", 9), "sbt", `single class: all 18 rows have the label "a"`},
		"oneset":   {line("a,b 1:1 2:3", 9) + line("a,b 1:2", 9), "at", `the labels "a", "b"`},
		"several":  {line("a,b 1:1 2:3", 9) + line("c 1:2", 9), "sbt", `row "0" of "several" has 2 labels`},
		"none":     {line(" 1:1 2:3", 9), "pt", `no row of "none" has a label`},
		"constant": {line("a 1:1 2:3", 9) + line("b 1:1 2:3", 9), "sbt", `over "constant": the rows do not suffice for the index: bad input: constant features`},
	} {
		input := filepath.Join(dir, name+".libsvm")
		if err := os.WriteFile(input, []byte(c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, "import", file, name, input, "--no-sync")
		out, errs, code := anndb(t, "build", file, name, "tree", "--kind", c.kind)
		if code == exitOK || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", name, code, c.want, out, errs)
		}
		if info := mustJSON[map[string]rows](t, "stats", file, name); len(info["indexes"]) != 0 {
			t.Errorf("%s: an index was left: %v", name, info["indexes"])
		}
	}
	for name, value := range map[string]string{"nan": "nan", "infinite": "inf"} {
		input := filepath.Join(dir, name+".libsvm")
		if err := os.WriteFile(input, []byte(line("a 1:1 2:3", 2)+"b 1:"+value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, errs, code := anndb(t, "import", file, name, input); code != exitError || !strings.Contains(errs, input) || out != "" {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
	must(t, "check", file)
}

// TestDenseTree learns classes of a libsvm file with negative values, which
// only a dense collection takes, and which does not say how wide it is.
func TestDenseTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, input, other := filepath.Join(dir, "a.anndb"), filepath.Join(dir, "rows.libsvm"), filepath.Join(dir, "tests.libsvm")
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "%+d 1:%d 2:%d 5:%g\n", 2*(i%2)-1, 2*(i%2)-1, i%3-1, float64(i%7)/7)
	}
	narrow := "1 1:1\n-1 1:-1 2:1\n"
	for path, text := range map[string]string{input: b.String(), other: narrow, filepath.Join(dir, "wide.libsvm"): "1 1:1 6:1\n", filepath.Join(dir, "empty.libsvm"): "1\n-1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, code := anndb(t, "import", file, "rows", input); code != exitError || !strings.Contains(errs, "negative value -1") {
		t.Errorf("sparse: exit code %d, %s", code, errs)
	}
	if r := mustJSON[rows](t, "import", file, "rows", input, "--dense", "--no-sync"); r[0]["dim"] != 5.0 {
		t.Errorf("%v", r)
	}
	must(t, "build", file, "rows", "tree", "--kind", "sbt", "--budget", "2")
	for _, r := range mustJSON[rows](t, "evaluate", file, "rows", "--queries", other) {
		if r["measure"] == "accuracy" && r["value"] != 1.0 {
			t.Errorf("%v", r)
		}
	}
	if text := must(t, "explain", file, "rows", "--vector", "1,0,0,0,0"); !strings.Contains(text, "leaf  1 (") {
		t.Errorf("explain:\n%s", text)
	}
	if _, errs, code := anndb(t, "evaluate", file, "rows", "--queries", filepath.Join(dir, "wide.libsvm")); code != exitError || !strings.Contains(errs, "feature 6, the collection 5 dimensions") {
		t.Errorf("a wide file: exit code %d, %s", code, errs)
	}
	if _, errs, code := anndb(t, "import", file, "void", filepath.Join(dir, "empty.libsvm"), "--dense"); code != exitError || !strings.Contains(errs, "has a feature") {
		t.Errorf("no feature: exit code %d, %s", code, errs)
	}
}
