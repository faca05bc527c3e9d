package main

import (
	"path/filepath"
	"regexp"
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
	short, err := small(t).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if cells := 6 * len(ks) * len(recalls); short > cells/10 {
		t.Errorf("%d of %d cells are short", short, cells)
	}
}

// A collection that grows with maintenance delivers what is asked in nearly all cells.
func TestHistories(t *testing.T) {
	short, err := small(t).histories(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if cells := len(ks) * len(recalls); short > cells/10 {
		t.Errorf("%d of %d cells are short", short, cells)
	}
}

// A cell that finds none of the true rows counts as such.
func TestCell(t *testing.T) {
	b := small(t)
	if err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.d.Close()
	b.asked = [][]float32{b.row(0), b.row(1)}
	options := make([]db.SearchOptions, 2)
	near := [][]db.Hit{{{Distance: 1e9}}, {{Distance: -1}}}
	got, _, err := b.cell(t.Context(), options, near, 1, 0.9)
	if err != nil || got != 0.5 {
		t.Errorf("recall %g, %v, want 0.5", got, err)
	}
}
