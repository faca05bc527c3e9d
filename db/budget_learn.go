package db

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// maxRounds and maxIterations bound what the learning of a node may be told to
// do: far more than it ever needs.
const (
	maxRounds     = 1000
	maxIterations = 100_000
)

// check refuses options that no tree of the kind can honour.
func (o BudgetOptions) check(kind forest.Kind) error {
	if err := o.Weight.check(); err != nil {
		return err
	}
	if o.Weight == WeightStandard {
		return fmt.Errorf("%w: weighting %q is for label models of kind %s, not for trees", ErrOption, o.Weight, KindLCIF)
	}
	if o.TuneRows < 0 {
		return fmt.Errorf("%w: tuning on %d rows", ErrOption, o.TuneRows)
	}
	if b := o.Params.BAC; b.Rounds > maxRounds || b.Iterations > maxIterations {
		return fmt.Errorf("%w: %d rounds of %d iterations, want at most %d and %d", ErrOption, b.Rounds, b.Iterations, maxRounds, maxIterations)
	}
	g := o.Grid
	if g == nil {
		return nil
	}
	for _, b := range g.Budgets {
		if b < 1 {
			return fmt.Errorf("%w: a grid with a budget of %d features", ErrOption, b)
		}
	}
	for _, c := range g.Costs {
		if !(c > 0 && c-c == 0) {
			return fmt.Errorf("%w: a grid with a cost of %g", ErrOption, c)
		}
	}
	for _, t := range g.Thresholds {
		if t-t != 0 {
			return fmt.Errorf("%w: a grid with a threshold of %g", ErrOption, t)
		}
	}
	for _, n := range g.Positives {
		if n < 1 {
			return fmt.Errorf("%w: a grid with %d positive rows", ErrOption, n)
		}
	}
	switch {
	case len(g.Positives) > 0 && kind != KindAT:
		return fmt.Errorf("%w: numbers of positive rows are for trees of kind %s, not %s", ErrOption, KindAT, kind)
	case len(g.Thresholds) > 0 && kind != KindAT:
		return fmt.Errorf("%w: thresholds are for trees of kind %s, not %s", ErrOption, KindAT, kind)
	case g.Folds < 0 || g.Folds == 1:
		return fmt.Errorf("%w: cross-validation of %d folds", ErrOption, g.Folds)
	}
	return nil
}

// oneLabelEach refuses rows that have no class, or several.
func (st *collState) oneLabelEach(data *labelled) error {
	for _, i := range data.live {
		n := len(data.sets.Row(i))
		if n == 1 {
			continue
		}
		key, err := st.key(uint32(i))
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: row %q of %q has %d labels, and a tree of kind %s wants one of each row", ErrOption, key, st.c.Name, n, KindSBT)
	}
	return nil
}

// treeProblem is what trees learn from: rows as they see them, with labels.
type treeProblem struct {
	kind forest.Kind
	rows *vector.CSR
	sets *labels.Matrix
	live []int
	// Of KindSBT, the class of each row, and ±1 where there are two classes.
	class []uint32
	sign  []int8
}

func newTreeProblem(kind forest.Kind, rows *vector.CSR, data *labelled) *treeProblem {
	p := &treeProblem{kind: kind, rows: rows, sets: data.sets, live: data.live}
	if kind == KindSBT {
		p.class, p.sign = make([]uint32, rows.Rows()), make([]int8, rows.Rows())
		for _, i := range data.live {
			p.class[i] = data.sets.Row(i)[0]
			p.sign[i] = int8(2*min(int(p.class[i]), 1) - 1)
		}
	}
	return p
}

// job is the problem as package budget takes it.
func (p *treeProblem) job(params budget.Params, workers int) budget.Job {
	return budget.Job{
		X: p.rows, Sets: p.sets, Class: p.class, Classes: max(2, p.sets.Labels()), Rows: p.live, Params: params, Workers: workers,
	}
}

// train learns the tree of the kind.
func (p *treeProblem) train(ctx context.Context, params budget.Params, workers int, report func(done, total int)) (*budget.Model, error) {
	switch {
	case p.kind == KindPT:
		return budget.TrainPT(ctx, p.rows, p.sets, p.live, params, workers, report)
	case p.kind == KindAT:
		return budget.TrainAT(ctx, p.rows, p.sets, p.live, params, workers, report)
	case p.sets.Labels() > 2:
		return budget.TrainMulticlass(ctx, p.rows, p.class, p.sets.Labels(), p.live, params, workers, report)
	}
	return budget.TrainSBT(ctx, p.rows, p.sign, p.live, params, workers, report)
}

// choose tries a grid by cross-validation on the given rows.
func (p *treeProblem) choose(ctx context.Context, rows []int, params budget.Params, grid budget.Grid, workers int, report func(done, total int)) (budget.Params, []budget.Trial, error) {
	switch {
	case p.kind != KindSBT:
		return budget.ChooseSets(ctx, budget.Kind(p.kind), p.rows, p.sets, rows, params, grid, workers, report)
	case p.sets.Labels() > 2:
		return budget.ChooseMulticlass(ctx, p.rows, p.class, p.sets.Labels(), rows, params, grid, workers, report)
	}
	return budget.ChooseSBT(ctx, p.rows, p.sign, rows, params, grid, workers, report)
}

// learn chooses parameters, where there is something to choose from, and trains.
func (l *budgetLearned) learn(ctx context.Context, p *treeProblem, timer *stageTimer) error {
	o := &l.opts.Budget
	if o.Grid != nil {
		err := timer.run("tune", func(report func(int, int)) (err error) {
			rows := sampled(p.live, o.TuneRows, o.Params.Seed)
			o.Params, l.trials, err = p.choose(ctx, rows, o.Params, o.filled(), l.opts.Workers, report)
			return err
		})
		if err != nil {
			return fmt.Errorf("cross-validation: %w", err)
		}
	}
	return timer.run("trees", func(report func(int, int)) (err error) {
		l.model, err = p.train(ctx, o.Params, l.opts.Workers, report)
		return err
	})
}

// filled is the grid with the parameters in place of empty lists.
func (o BudgetOptions) filled() budget.Grid {
	g := *o.Grid
	if len(g.Budgets) == 0 {
		g.Budgets = []int{o.Params.BAC.Budget}
	}
	if len(g.Costs) == 0 {
		g.Costs = []float64{cmp.Or(o.Params.BAC.C, 5)} // which zero means there
	}
	return g
}

// defaultTuneRows is how many rows a tuner of label models tries.
const defaultTuneRows = 10_000

// sampled is at most limit of the rows, ascending, drawn by seed; 0 for the
// default.
func sampled(rows []int, limit int, seed uint64) []int {
	if limit == 0 {
		limit = defaultTuneRows
	}
	if len(rows) <= limit {
		return rows
	}
	rng := rand.New(rand.NewPCG(seed, 0x74756e65))
	out := make([]int, limit)
	for i, at := range rng.Perm(len(rows))[:limit] {
		out[i] = rows[at]
	}
	slices.Sort(out)
	return out
}

// oneSet says whether all rows have the same labels.
func (d *labelled) oneSet() bool {
	first := d.sets.Row(d.live[0])
	return !slices.ContainsFunc(d.live, func(i int) bool { return !slices.Equal(d.sets.Row(i), first) })
}

// describeSet is a set of labels in words.
func (l *budgetLearned) describeSet(set []uint32) string {
	const most = 5
	var names []string
	for _, i := range set[:min(most, len(set))] {
		names = append(names, fmt.Sprintf("%q", l.names[i]))
	}
	s := strings.Join(names, ", ")
	switch {
	case len(set) > most:
		return fmt.Sprintf("the labels %s and %d more", s, len(set)-most)
	case len(set) == 1:
		return "the label " + s
	}
	return "the labels " + s
}
