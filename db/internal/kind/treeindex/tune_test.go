package treeindex_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// A grid is tried, the best of it is used, and what was measured is stored.
func TestTreesChooseParameters(t *testing.T) {
	t.Parallel()
	d, _, _, _ := topics(t)
	classes := map[int]*db.DB{2: points(t, 2), 3: points(t, 3)}
	for _, c := range []struct {
		name   string
		d      *db.DB
		coll   string
		kind   budget.Kind
		grid   budget.Grid
		trials int
	}{
		{"annotation", d, "docs", budget.AT, budget.Grid{Budgets: []int{1, 20}, Costs: []float64{1}, Thresholds: []float32{-0.5, 0, 50}, Folds: 3}, 6},
		{"powerset", d, "docs", budget.PT, budget.Grid{Budgets: []int{1, 20}, Folds: 2}, 2},
		{"two classes", classes[2], "points", budget.SBT, budget.Grid{Costs: []float64{0.1, 1}}, 2},
		{"three classes", classes[3], "points", budget.SBT, budget.Grid{Budgets: []int{1, 2}, Costs: []float64{1}, Folds: 3}, 2},
	} {
		o := &index.Trees{Kind: string(c.kind), Grid: &c.grid, TuneRows: 300, Params: budget.Params{BAC: budget.BACParams{Rounds: 3}}}
		var stages []string
		info, err := c.d.Collection(c.coll).Build(t.Context(), "tuned", o, dbtest.Reporting(func(p dbtest.Progress) {
			if !slices.Contains(stages, p.Stage) {
				stages = append(stages, p.Stage)
			}
		}))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(info.TreeTrials) != c.trials || !slices.Contains(stages, "tune") || info.BuildSeconds["tune"] <= 0 {
			t.Errorf("%s: %+v in stages %q", c.name, info.TreeTrials, stages)
		}
		best := slices.MaxFunc(info.TreeTrials, func(a, b budget.Trial) int { return int(math.Copysign(1, a.Score-b.Score)) })
		p := info.Options.(*index.Trees).Params
		chosen := slices.IndexFunc(info.TreeTrials, func(tr budget.Trial) bool {
			return tr.Budget == p.BAC.Budget && tr.C == p.BAC.C && tr.Threshold == p.Threshold
		})
		if chosen < 0 || info.TreeTrials[chosen].Score != best.Score || best.Score < 0.5 {
			t.Errorf("%s: chose %+v of %+v", c.name, p, info.TreeTrials)
		}
		if c.kind == budget.AT && (p.Threshold == 50 || p.BAC.Budget != 20) {
			t.Errorf("%s: chose %+v of %+v", c.name, p, info.TreeTrials)
		}
		again, err := c.d.Collection(c.coll).Build(t.Context(), "again", o, nil)
		dbtest.Must(t, err)
		err = c.d.View(func(s *db.Snapshot) error {
			stored, err := s.Collection(c.coll).Index("tuned")
			if err == nil && (!slices.Equal(stored.TreeTrials, info.TreeTrials) || !slices.Equal(again.TreeTrials, info.TreeTrials)) {
				t.Errorf("%s: stored %+v, built again %+v", c.name, stored.TreeTrials, again.TreeTrials)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Errors of training name the collection, and the row or the label that is to
// blame.
func TestTreesNameWhatIsWrong(t *testing.T) {
	d, _, _, _ := topics(t)
	fill := func(coll string, n int, row func(i int) db.Row) {
		t.Helper()
		if _, err := d.Create(t.Context(), coll, db.Schema{Sparse: true}); err != nil {
			t.Fatal(err)
		}
		dbtest.Fill(t, d, coll, 0, n, func(i int) db.Row {
			r := row(i)
			r.Key = fmt.Append(nil, "row-", i)
			return r
		})
	}
	x := func(i int) vector.Sparse {
		return vector.Sparse{Index: []uint32{uint32(i % 5), 7}, Value: []float32{1, float32(1 + i%3)}}
	}
	same := vector.Sparse{Index: []uint32{3, 4}, Value: []float32{1, 2}}
	fill("single", 20, func(i int) db.Row { return db.Row{Sparse: x(i), Labels: []string{"only"}} })
	fill("pair", 20, func(i int) db.Row { return db.Row{Sparse: x(i), Labels: []string{"one", "two"}} })
	fill("bare", 20, func(i int) db.Row { return db.Row{Sparse: x(i)} })
	fill("void", 0, nil)
	fill("constant", 20, func(i int) db.Row { return db.Row{Sparse: same, Labels: []string{fmt.Sprint(i % 2)}} })
	fill("everywhere", 20, func(i int) db.Row {
		return db.Row{Sparse: vector.Sparse{Index: []uint32{3, 4}, Value: []float32{1, float32(1 + i%2)}}, Labels: []string{fmt.Sprint(i % 2)}}
	})
	fill("gap", 20, func(i int) db.Row {
		r := db.Row{Sparse: x(i), Labels: []string{fmt.Sprint(i % 2)}}
		if i == 13 {
			r.Labels = nil
		}
		return r
	})
	fill("rare", 20, func(i int) db.Row { // the second class may be missing from a fold's training part
		return db.Row{Sparse: x(i), Labels: []string{fmt.Sprint(i / 19)}}
	})
	grid := func(g budget.Grid) index.Trees { return index.Trees{Grid: &g} }
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		coll  string
		kind  budget.Kind
		o     index.Trees
		want  error
		names string
	}{
		{"single", budget.SBT, index.Trees{}, budget.ErrOneClass, `all 20 rows have the label "only"`},
		{"single", budget.AT, index.Trees{}, budget.ErrOneClass, `over "single"`},
		{"pair", budget.PT, index.Trees{}, budget.ErrOneClass, `the labels "one", "two"`},
		{"pair", budget.SBT, index.Trees{}, fail.ErrUnsuitable, `row "row-0" of "pair" has 2 labels`},
		{"bare", budget.AT, index.Trees{}, db.ErrUnsuitable, `no row of "bare" has a label`},
		{"bare", budget.SBT, index.Trees{}, db.ErrUnsuitable, `no row of "bare" has a label`},
		{"void", budget.PT, index.Trees{}, fail.Empty, `"void"`},
		{"constant", budget.SBT, index.Trees{}, budget.ErrConstant, `over "constant"`},
		{"constant", budget.PT, index.Trees{}, budget.ErrConstant, `over "constant"`},
		{"gap", budget.SBT, index.Trees{}, fail.ErrUnsuitable, `row "row-13" of "gap" has 0 labels`},
		{"docs", budget.AT, index.Trees{Params: budget.Params{BAC: budget.BACParams{Budget: -3}}}, fail.Option, "Budget -3"},
		{"docs", budget.AT, index.Trees{Params: budget.Params{BAC: budget.BACParams{C: inf}}}, fail.Option, "C +Inf"},
		{"docs", budget.AT, index.Trees{Params: budget.Params{BAC: budget.BACParams{C: nan}}}, fail.Option, "C NaN"},
		{"docs", budget.AT, index.Trees{Params: budget.Params{Threshold: float32(nan)}}, fail.Option, "Threshold NaN"},
		{"single", budget.SBT, index.Trees{Params: budget.Params{Folds: 99}}, fail.Option, "99 folds"},
		{"docs", budget.AT, grid(budget.Grid{Budgets: []int{5, 0}}), fail.Option, "Budgets 0"},
		{"docs", budget.AT, grid(budget.Grid{Costs: []float64{1, 0}}), fail.Option, "Costs 0"},
		{"docs", budget.AT, grid(budget.Grid{Costs: []float64{nan}}), fail.Option, "Costs NaN"},
		{"docs", budget.AT, grid(budget.Grid{Thresholds: []float32{float32(inf)}}), fail.Option, "Thresholds +Inf"},
		{"docs", budget.PT, grid(budget.Grid{Thresholds: []float32{0}}), fail.Option, "not pt"},
		{"docs", budget.PT, grid(budget.Grid{Positives: []int{2}}), fail.Option, "not pt"},
		{"docs", budget.AT, grid(budget.Grid{Positives: []int{0}}), fail.Option, "Positives 0"},
		{"docs", budget.PT, grid(budget.Grid{Folds: 1}), fail.Option, "Folds 1"},
		{"docs", budget.PT, index.Trees{TuneRows: -1}, fail.Option, "TuneRows -1"},
		{"rare", budget.SBT, grid(budget.Grid{Budgets: []int{1, 2}}), budget.ErrOneClass, "cross-validation"},
		{"rare", budget.SBT, grid(budget.Grid{Folds: 30}), budget.ErrInput, "30 folds of 20 rows"},
	} {
		c.o.Kind = string(c.kind)
		_, err := d.Collection(c.coll).Build(t.Context(), "tree", &c.o, nil)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s over %q: %v, want %v with %q", c.kind, c.coll, err, c.want, c.names)
		}
	}
	// A feature that all rows have is weighed, too.
	dbtest.Builds(t, d, "everywhere", "tree", &index.Trees{Kind: string(budget.SBT), Weight: "tfidf"})
	err := d.View(func(s *db.Snapshot) error {
		list, err := s.Collection("single").Indexes()
		if len(list) > 0 {
			t.Errorf("an index was left: %+v", list)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := d.Check(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}
