package main

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

func matrix(t *testing.T, n int, sets ...[]uint32) *labels.Matrix {
	t.Helper()
	m, err := labels.FromSets(sets, n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSetsAreKnown(t *testing.T) {
	for _, name := range setNames() {
		if !slices.Contains(wordnets, name) && !slices.Contains(lcifbench.Names(false), name) {
			t.Errorf("no set %q", name)
		}
	}
}

// Shares 1, 0 and one half, by a bound from 6 rows; the row without labels does not count, but its set does.
func TestDeliver(t *testing.T) {
	d := deliver(matrix(t, 3, []uint32{0}, []uint32{1}, []uint32{0, 2}, nil),
		matrix(t, 3, []uint32{0, 1}, nil, []uint32{2}, []uint32{0}), 6)
	want := math.Sqrt(1./6) * math.Sqrt(1./3+1./6)
	if d.Recall != 0.5 || d.Size != 1 || math.Abs(d.Error-want) > 1e-12 {
		t.Errorf("%+v, want 0.5 ± %g, size 1", d, want)
	}
}

// The best label is always in the set, others if they exceed the threshold; the threshold is that of the best sets.
func TestPeerChooses(t *testing.T) {
	p := &peer{values: [][]float32{{0.2, -1}, {-0.3, -0.9}, {-0.4, -2}}}
	p.rank(2)
	a, err := p.answer(-0.35)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.sets.Row(0), []uint32{0, 1}) || !slices.Equal(a.sets.Row(1), []uint32{1}) {
		t.Errorf("sets %v and %v", a.sets.Row(0), a.sets.Row(1))
	}
	threshold, value, err := p.choose(lcif.MicroF1, matrix(t, 3, []uint32{0, 1}, []uint32{1}))
	if err != nil || value != 1 || threshold < -0.4-1e-9 || threshold >= -0.3 {
		t.Errorf("threshold %g, value %g, %v", threshold, value, err)
	}
}

func TestStandardize(t *testing.T) {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 2}
	for _, v := range [][]float32{{1, 5}, {3, 5}, {7, 6}} {
		x.Append(full(v))
	}
	standardize(x, 2)
	if got := []float32{x.Row(0).Value[0], x.Row(1).Value[0], x.Row(2).Value[0], x.Row(0).Value[1]}; !slices.Equal(got, []float32{-1, 1, 5, 0}) {
		t.Errorf("%v", got)
	}
}

func TestResultsAreKept(t *testing.T) {
	c := config{out: t.TempDir(), sets: "corel5k", systems: "lcif,at", objectives: "micro-f1", format: "csv"}
	ece := 0.25
	r := result{job: job{"corel5k", "at", "micro-f1"}, Precision: []float64{0.5, 0.4, 0.3}, CalibrationError: &ece,
		Delivered: [2]delivered{{Recall: 0.8, Error: 0.01, Size: 3}}}
	for range 2 {
		if err := r.append(filepath.Join(c.out, "results.jsonl")); err != nil {
			t.Fatal(err)
		}
	}
	known, err := readResults(c.results())
	if err != nil || len(known) != 2 || known[0].job != r.job || *known[1].CalibrationError != ece {
		t.Fatalf("%+v, %v", known, err)
	}
	var out bytes.Buffer
	if err := c.print(&out, known[:1]); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 || !strings.Contains(lines[1], "paper: lcif") || !strings.Contains(lines[4], "at,micro-f1") {
		t.Errorf("%s", out.String())
	}
}

// Label 0 has too many training rows and label 3 none; label 2 does not occur: label 1 alone counts.
func TestRareF1(t *testing.T) {
	truth := matrix(t, 4, []uint32{0, 1}, []uint32{1}, []uint32{3})
	sets := matrix(t, 4, []uint32{0, 1}, []uint32{0}, []uint32{2})
	if f1 := rareF1(truth, sets, []int{5, 4, 1, 0}); math.Abs(f1-2./3) > 1e-12 {
		t.Errorf("%g, want 2/3", f1)
	}
}
