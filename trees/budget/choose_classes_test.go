package budget

import (
	"errors"
	"slices"
	"testing"
)

func TestChooseClasses(t *testing.T) {
	x, y := blobs(150, 30, 3, 0.5, 1)
	class := make([]uint32, len(y))
	for i := range class {
		class[i] = uint32(max(0, int(y[i])))
		if class[i] == 1 && x.Row(i).Value[0] > 0 {
			class[i] = 2
		}
	}
	// A class of one row is missing from the training part of a fold.
	class[7] = 3
	grid := Grid{Budgets: []int{1, 3}, Costs: []float64{1}, Folds: 3}
	params, trials, err := Choose(t.Context(), SBT, Job{X: x, Class: class, Classes: 4, Params: Params{Seed: 1}}, grid)
	must(t, err)
	if len(trials) != 2 || !slices.ContainsFunc(trials, func(tr Trial) bool { return tr.Budget == params.BAC.Budget }) {
		t.Errorf("chose %+v of %+v", params, trials)
	}
	for _, tr := range trials {
		if tr.Score <= 0.5 || tr.Score >= 1 {
			t.Errorf("score %v", tr.Score)
		}
	}
	for _, c := range []struct {
		name string
		job  Job
		want error
	}{
		{"class beyond", Job{X: x, Class: class, Classes: 3}, ErrInput},
		{"a class too few", Job{X: x, Class: class[1:], Classes: 4}, ErrInput},
		{"no rows", Job{Classes: 4}, ErrInput},
		{"one class", Job{X: x, Class: make([]uint32, len(y)), Classes: 3}, ErrOneClass},
		{"one class of two", Job{X: x, Class: make([]uint32, len(y)), Classes: 2}, ErrOneClass},
	} {
		c.job.Params = Params{BAC: BACParams{Budget: 1}}
		if _, _, err := Choose(t.Context(), SBT, c.job, grid); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestDefaultGrid(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		features   int
		budgets    []int
		thresholds int
	}{{SBT, 5, []int{5}, 0}, {PT, 50, []int{10, 30, 50}, 0}, {AT, 5000, []int{10, 30, 100, 300}, 5}, {AT, 0, []int{1}, 5}} {
		g := DefaultGrid(c.kind, c.features)
		if !slices.Equal(g.Budgets, c.budgets) || len(g.Thresholds) != c.thresholds || len(g.Costs) == 0 || (len(g.Positives) > 0) != (c.kind == AT) {
			t.Errorf("%s, %d features: %+v", c.kind, c.features, g)
		}
	}
}
