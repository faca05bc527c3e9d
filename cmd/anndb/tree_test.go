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
	text := must(t, "explain", f.file, "classes", "--features", "1=1,20=1", "--evidence", "1")
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
	ranked := mustJSON[rows](t, "predict", f.file, "classes", "-k", "3", "--features", "1=1,20=1")
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
		{exitError, []string{"explain", f.file, "docs", "--index", "at", "--features", "word1=-1"}, "word1"},
		{exitError, []string{"explain", f.file, "docs", "--index", "at", "--features", "word1=nan"}, "word1"},
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
