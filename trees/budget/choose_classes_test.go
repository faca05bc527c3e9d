package budget

import (
	"errors"
	"slices"
	"testing"
)

func TestChooseMulticlass(t *testing.T) {
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
	params, trials, err := ChooseMulticlass(t.Context(), x, class, 4, nil, Params{Seed: 1}, grid, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(trials) != 2 || !slices.ContainsFunc(trials, func(tr Trial) bool { return tr.Budget == params.BAC.Budget }) {
		t.Errorf("chose %+v of %+v", params, trials)
	}
	for _, tr := range trials {
		if tr.Score <= 0.5 || tr.Score >= 1 {
			t.Errorf("score %v", tr.Score)
		}
	}
	// Two classes give what ChooseSBT gives.
	two := make([]uint32, len(y))
	for i := range two {
		two[i] = uint32(max(0, int(y[i])))
	}
	_, want, err := ChooseSBT(t.Context(), x, y, nil, Params{Seed: 1}, grid, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := ChooseMulticlass(t.Context(), x, two, 2, nil, Params{Seed: 1}, grid, 0, nil)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
	if _, _, err := ChooseMulticlass(t.Context(), x, class, 3, nil, Params{}, grid, 0, nil); !errors.Is(err, ErrInput) {
		t.Errorf("class beyond: %v", err)
	}
	if _, _, err := ChooseMulticlass(t.Context(), x, class[1:], 4, nil, Params{}, grid, 0, nil); !errors.Is(err, ErrInput) {
		t.Errorf("a class too few: %v", err)
	}
	if _, _, err := ChooseMulticlass(t.Context(), nil, nil, 4, nil, Params{}, grid, 0, nil); !errors.Is(err, ErrInput) {
		t.Errorf("no rows: %v", err)
	}
	if _, _, err := ChooseMulticlass(t.Context(), x, make([]uint32, len(y)), 3, nil, Params{}, grid, 0, nil); !errors.Is(err, ErrOneClass) {
		t.Errorf("one class: %v", err)
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
