package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeSet writes rows of two labels; each label has words of its own.
func writeSet(t *testing.T, path string, n int) {
	t.Helper()
	var arff bytes.Buffer
	arff.WriteString("@relation 'words: -C -2'\n")
	for f := range 20 {
		fmt.Fprintf(&arff, "@attribute word%d numeric\n", f)
	}
	arff.WriteString("@attribute a {0,1}\n@attribute b {0,1}\n@data\n")
	for i := range n {
		label := i % 2
		arff.WriteString("{")
		for j := range 4 {
			fmt.Fprintf(&arff, "%d %d,", 10*label+2*j+(i>>j)%2, 1+i%3)
		}
		fmt.Fprintf(&arff, "%d 1}\n", 20+label)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(arff.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// small is a configuration for a set of few rows, in a folder of its own.
func small(t *testing.T) *config {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "medical"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeSet(t, filepath.Join(dir, "medical", "medical-train.arff.gz"), 60)
	writeSet(t, filepath.Join(dir, "medical", "medical-test.arff.gz"), 30)
	return &config{
		Data: dir, Sets: []string{"medical"}, Folds: 2, Objectives: []string{"micro-f1", "p@1"},
		Format: "table",
	}
}

func TestText(t *testing.T) {
	c := small(t)
	var out bytes.Buffer
	if err := c.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"60 rows to train, 30 to test", "0.690", "lcif"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestJSON(t *testing.T) {
	c := small(t)
	c.Format = "json"
	var out bytes.Buffer
	if err := c.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got map[string][]map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got["quality"]) != 6 {
		t.Errorf("%v", got)
	}
}

func TestTunesAsThePaper(t *testing.T) {
	for _, paper := range []bool{false, true} {
		o, err := (&config{Paper: paper}).options()
		if err != nil || o.Tune.Paper != paper {
			t.Errorf("--paper=%v: %v, %v", paper, o.Tune.Paper, err)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for want, c := range map[string]config{
		"nothing":      {Sets: []string{"nothing"}},
		"--workers":    {Workers: -1},
		"--folds":      {Folds: 1},
		"fame":         {Objectives: []string{"fame"}},
		"medical-trai": {Data: t.TempDir(), Sets: []string{"medical"}},
	} {
		if err := c.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
