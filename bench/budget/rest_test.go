package main

import (
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
)

func TestRestSets(t *testing.T) {
	m := &restModels{labels: 3, rows: 2, value: []float32{-1, 0.5, 0.2, 0.7, 0.2, -1}}
	if got := m.best(0, 2, 2); !slices.Equal(got[0], []uint32{1, 2}) || !slices.Equal(got[1], []uint32{1, 0}) {
		t.Errorf("best %v", got)
	}
	for _, c := range []struct {
		threshold float32
		one       bool
		want      [2][]uint32
	}{
		{0, false, [2][]uint32{{1, 2}, {0, 1}}},
		{0.6, false, [2][]uint32{nil, {1}}},
		{0, true, [2][]uint32{{1}, {1}}},
	} {
		got, err := m.sets(0, 2, c.threshold, c.one)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if !slices.Equal(got.Row(i), want) {
				t.Errorf("threshold %v, one %v, row %d: %v", c.threshold, c.one, i, got.Row(i))
			}
		}
	}
}

// The threshold is the one with the best F1, not 0 where another is better.
func TestBestThreshold(t *testing.T) {
	m := &restModels{labels: 2, rows: 3, value: []float32{1, -0.4, -0.8, -0.9, -0.4, -0.4}}
	truth, err := labels.FromSets([][]uint32{{0}, {0, 1}, {1}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	f1, best, err := m.bestThreshold(0, truth, setThresholds)
	if err != nil {
		t.Fatal(err)
	}
	if f1 != 1 || best >= -0.4 || best < -0.8 {
		t.Errorf("F1 %v at %v", f1, best)
	}
	if zero, err := m.f1(0, truth, 0); err != nil || zero != 1./3 {
		t.Errorf("F1 at 0 is %v, %v", zero, err)
	}
}
