package index

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// TestCheck: values out of range and contradictions are refused, by the name of the field; the limits
// themselves and zero values are not.
func TestCheck(t *testing.T) {
	params := &lcif.Params{K: 3, Lambda: 0.5}
	for _, c := range []struct {
		o    Options
		dim  int
		want string // the name of the refused field, empty for none
	}{
		{&Forest{}, 4, ""}, {&Postings{}, 0, ""}, {&LCIF{}, 0, ""}, {&LCIF{}, 4, ""}, {&Trees{}, 4, ""},
		{&Forest{Trees: 4096, Depth: 24, LeafNeighbors: 4096, ListNeighbors: 1024, Coordinates: 4}, 4, ""},
		{&Forest{Trees: 4097}, 4, "Trees 4097 (want 0 to 4096)"},
		{&Forest{Trees: -1}, 4, "Trees"},
		{&Forest{Learner: "oak"}, 4, "Learner"},
		{&Forest{Density: math.NaN()}, 4, "Density"},
		{&Forest{SketchBytes: 65}, 4, "SketchBytes"},
		{&Forest{SketchBytes: 64, NoSketches: true}, 4, "SketchBytes"},
		{&Forest{Coordinates: 5}, 4, "Coordinates"},
		{&LCIF{Params: params, Folds: 2}, 0, ""},
		{&LCIF{Folds: 1}, 0, "Folds"},
		{&LCIF{FeatureShares: []float64{0.5, 0}}, 0, "FeatureShares 0 (want above 0 and at most 1)"},
		{&LCIF{FeatureShares: []float64{0.5}}, 4, "FeatureShares"},
		{&LCIF{Params: &lcif.Params{K: 1, Lambda: 2}}, 0, "Params.Lambda"},
		{&LCIF{Params: &lcif.Params{Lambda: 1}}, 0, "Params.K"},
		{&LCIF{Cut: &lcif.Cut{}}, 0, "Cut"},
		{&LCIF{Weight: "standard"}, 0, "Weight"},
		{&LCIF{Weight: "tfidf"}, 4, "Weight"},
		{&LCIF{Neighbors: "x"}, 0, "Neighbors"},
		{&Trees{Kind: "pt", AllowEmpty: true}, 4, "AllowEmpty"},
		{&Trees{Grid: &budget.Grid{Budgets: []int{1, 0}}}, 4, "Grid.Budgets 0 (want at least 1)"},
		{&Trees{Grid: &budget.Grid{Costs: []float64{math.Inf(1)}}}, 4, "Grid.Costs"},
		{&Trees{Budget: 3, Grid: &budget.Grid{Budgets: []int{1}}}, 4, "Budget"},
	} {
		err := c.o.CheckFor(c.dim)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.o, err)
			}
			continue
		}
		var refused *Error
		if !errors.As(err, &refused) || !errors.Is(err, fail.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
			continue
		}
		field := strings.Fields(c.want)[0]
		text := refused.Text(func(of string) string {
			if of == field {
				return "--flag"
			}
			return of
		})
		if !strings.Contains(text, "--flag") || strings.ContainsAny(text, "{}") {
			t.Errorf("%v as text of a command: %q", err, text)
		}
	}
}
