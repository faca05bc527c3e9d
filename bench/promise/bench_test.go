package main

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

func small(t *testing.T) *bench {
	g := vectors.NewGenerator(vectors.Family[0], 1)
	return &bench{
		set: &vectors.Set{Name: "small", Metric: vector.L2, Dim: vectors.GenDim, Base: g.Rows(1, 2500),
			Test: g.Rows(2, 60), Valid: g.Rows(3, 40)},
		path:    filepath.Join(t.TempDir(), "small.anndb"),
		only:    regexp.MustCompile("^all|random 10 |another|farthest tenth|50 %|grown 100 to 1000$"),
		queries: 100,
	}
}

// Every kind of scenario runs, and nearly all cells of a small set deliver what is asked.
func TestBench(t *testing.T) {
	b := small(t)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cells := 6 * len(ks) * len(recalls); b.short > cells/10 {
		t.Errorf("%d of %d cells are short", b.short, cells)
	}
}

// A collection that grows with maintenance delivers what is asked in nearly all cells.
func TestHistories(t *testing.T) {
	b := small(t)
	if err := b.histories(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cells := len(ks) * len(recalls); b.short > cells/10 {
		t.Errorf("%d of %d cells are short", b.short, cells)
	}
}

// Cells count the true rows that are found, and order queries by contrast.
func TestCell(t *testing.T) {
	b := small(t)
	if err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.d.Close()
	queries := []truth{
		{query: db.Query{Vector: b.row(0)}, near: []float32{1e9}, mean: 4e18},
		{query: db.Query{Vector: b.row(1)}, near: []float32{-1}, mean: 1},
	}
	got, err := b.cell(t.Context(), queries, 1, 0.9)
	want := cell{asked: 0.9, recall: 0.5, deviation: 0.5 / math.Sqrt2, below: 0.5, hardest: 1, ratio: got.ratio,
		micros: got.micros, ofScan: got.ofScan, slow: got.slow}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if n := countTo([]float32{1, 2, 2, 3}, 2); n != 3 {
		t.Errorf("%d distances up to 2, want 3", n)
	}
}

// Half of the rows of the mixed set are means of what they were.
func TestMix(t *testing.T) {
	rows := []float32{1, 3, 5, 7}
	if mix(rows, 1); !slices.Equal(rows, []float32{3, 5, 4, 4}) {
		t.Errorf("%v", rows)
	}
}
