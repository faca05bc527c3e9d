package group

import (
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// TestCutsOfLabels: a label has the cut of the first part that has one for it, others that of the first part.
func TestCutsOfLabels(t *testing.T) {
	by := func(names []string, single float64, cuts ...float64) Model {
		t := &labels.Thresholds{Single: single, PerLabel: cuts}
		return Model{Version: 1, Alone: true, Learned: 1, Labels: names, Params: lcif.Params{Thresholds: t}}
	}
	m, err := newModels([]Model{by([]string{"c", "a"}, 0.5, 0.1, 0.9), by([]string{"a", "b"}, 0.7, 0.2, 0.3)})
	if err != nil {
		t.Fatal(err)
	}
	list := []db.Prediction{{Label: "a"}, {Label: "b"}, {Label: "c"}, {Label: "d"}}
	for i, cut := range []float32{0.9, 0.3, 0.1, 0.5} {
		for _, above := range []bool{false, true} {
			list[i].Probability = cut - 0.01
			if above {
				list[i].Probability = cut + 0.01
			}
			if m.choose(list, false); list[i].Predicted != above {
				t.Errorf("%v", list[i])
			}
		}
	}
}
