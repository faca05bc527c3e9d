package main

import (
	"bytes"
	"encoding/xml"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

// newTrees is the fixture of documents with trees of kinds at and pt.
func newTrees(t *testing.T) fixture {
	t.Helper()
	f := newDocs(t)
	for _, kind := range []string{"at", "pt"} {
		must(t, "build", f.file, "docs", kind, "--kind", kind, "--budget", "5")
	}
	return f
}

func TestExplainTree(t *testing.T) {
	t.Parallel()
	f := newTrees(t)
	type reason struct {
		Text  string
		Score float64
		Parts []reason
	}
	type answer struct {
		Query       string
		Labels      objects
		Explanation reason
	}
	for _, kind := range []string{"at", "pt"} {
		args := []string{"explain", f.file, "docs", "--index", kind, "--features", "word0=2,word1=3,word9=1"}
		got := mustJSON[[]answer](t, append(args, "--evidence", "0")...)
		if len(got) != 1 || got[0].Query != "features" || len(got[0].Explanation.Parts) == 0 {
			t.Fatalf("%s: %+v", kind, got)
		}
		for _, d := range got[0].Explanation.Parts {
			sum := 0.0
			for _, x := range d.Parts {
				sum += x.Score
			}
			what, answer, _ := strings.Cut(d.Text, "? ")
			if math.Abs(sum-d.Score) > 1e-4 || strings.HasPrefix(answer, "yes") != (d.Score > 0) || strings.HasPrefix(what, "node ") != (kind == "pt") {
				t.Errorf("%s: %+v adds up to %g", kind, d, sum)
			}
		}
		predicted := mustJSON[objects](t, "predict", f.file, "docs", "--index", kind, "--features", "word0=2,word1=3,word9=1")
		if leaf, _, _ := strings.Cut(got[0].Explanation.Text, " in "); len(predicted) != len(got[0].Labels) || len(predicted) != len(strings.Split(leaf, ", ")) {
			t.Errorf("%s: predicted %v, explained %+v", kind, predicted, got[0])
		}
		if csv := must(t, append(args, "--format", "csv")...); strings.Count(csv, "\nfeatures,") != strings.Count(csv, "\n")-1 {
			t.Errorf("%s: a line of csv without its query:\n%s", kind, csv)
		}
	}
	// A row that no decision says yes to has an explanation all the same.
	lone := mustJSON[[]answer](t, "explain", f.file, "docs", "--index", "at", "--features", "word60=1")
	if len(lone) != 1 || len(lone[0].Explanation.Parts) == 0 || lone[0].Labels == nil {
		t.Errorf("%+v", lone)
	}
}

func TestPlotTree(t *testing.T) {
	t.Parallel()
	f := newTrees(t)
	svg := must(t, "plot", "tree", f.file, "docs", "pt", "--out", "svg")
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for _, ending := range []string{"svg", "dot", "txt"} {
		path := f.path("tree." + ending)
		done := mustJSON[objects](t, "plot", "tree", f.file, "docs", "at", "--out", path, "--nodes", "4")
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
		colours := map[color.Color]bool{}
		for x := range img.Bounds().Dx() {
			for y := range img.Bounds().Dy() {
				colours[color.RGBAModel.Convert(img.At(x, y))] = true
			}
		}
		if len(colours) < 10 || !colours[color.RGBA{238, 243, 250, 255}] {
			t.Errorf("%d colours in %v", len(colours), img.Bounds())
		}
	}
}
