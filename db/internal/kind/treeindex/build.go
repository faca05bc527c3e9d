package treeindex

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// maxRounds and maxIterations bound the options for learning a node, far above what it ever
// needs.
const (
	maxRounds     = 1000
	maxIterations = 100_000
)

// check refuses options that trees of the kind do not support.
func (o *Options) check() error {
	kind := o.Kind
	if err := labelled.CheckWeight(o.Weight); err != nil {
		return err
	}
	if o.Weight == labelled.WeightStandard {
		return fmt.Errorf("%w: weighting %q is for label models of kind lcif, not for trees",
			fail.Option, o.Weight)
	}
	if o.TuneRows < 0 {
		return fmt.Errorf("%w: tuning on %d rows", fail.Option, o.TuneRows)
	}
	if b := o.Params.BAC; b.Rounds > maxRounds || b.Iterations > maxIterations {
		return fmt.Errorf("%w: %d rounds of %d iterations, want at most %d and %d",
			fail.Option, b.Rounds, b.Iterations, maxRounds, maxIterations)
	}
	g := o.Grid
	if g == nil {
		return nil
	}
	for _, b := range g.Budgets {
		if b < 1 {
			return fmt.Errorf("%w: a grid with a budget of %d features", fail.Option, b)
		}
	}
	for _, c := range g.Costs {
		if !(c > 0 && c-c == 0) {
			return fmt.Errorf("%w: a grid with a cost of %g", fail.Option, c)
		}
	}
	for _, t := range g.Thresholds {
		if t-t != 0 {
			return fmt.Errorf("%w: a grid with a threshold of %g", fail.Option, t)
		}
	}
	for _, n := range g.Positives {
		if n < 1 {
			return fmt.Errorf("%w: a grid with %d positive rows", fail.Option, n)
		}
	}
	switch {
	case len(g.Positives) > 0 && kind != budget.AT:
		return fmt.Errorf("%w: numbers of positive rows are for trees of kind %s, not %s",
			fail.Option, budget.AT, kind)
	case len(g.Thresholds) > 0 && kind != budget.AT:
		return fmt.Errorf("%w: thresholds are for trees of kind %s, not %s", fail.Option, budget.AT, kind)
	case g.Folds < 0 || g.Folds == 1:
		return fmt.Errorf("%w: cross-validation of %d folds", fail.Option, g.Folds)
	}
	return nil
}

// oneLabelEach refuses rows that have no class, or several.
func oneLabelEach(st kind.Source, data *labelled.Rows) error {
	for _, i := range data.Live {
		n := len(data.Sets.Row(i))
		if n == 1 {
			continue
		}
		key, err := st.Key(uint32(i))
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: row %q of %q has %d labels, and a tree of kind %s wants one of each row",
			fail.Option, key, st.Collection().Name, n, budget.SBT)
	}
	return nil
}

// treeJob returns the training job for trees of a kind: rows as the trees use them, with the
// labels of data.
func treeJob(kind budget.Kind, rows *vector.CSR, data *labelled.Rows) budget.Job {
	j := budget.Job{X: rows, Sets: data.Sets, Rows: data.Live}
	if kind == budget.SBT {
		j.Class, j.Classes = make([]uint32, rows.Rows()), max(2, data.Sets.Labels())
		for _, i := range data.Live {
			j.Class[i] = data.Sets.Row(i)[0]
		}
	}
	return j
}

// learn chooses parameters, if there is a grid, and trains the trees.
func (l *learned) learn(ctx context.Context, job budget.Job, timer *kind.Timer) error {
	o := &l.opts
	job.Workers = kind.WorkersOf(ctx)
	if o.Grid != nil {
		err := timer.Run("tune", func(func(int, int)) (err error) {
			tune := job
			tune.Rows, tune.Params = sampled(job.Rows, o.TuneRows, o.Params.Seed), o.Params
			tune.Stop = kind.StopOf(ctx)
			tune.Progress = func(done, total int) { timer.Report("settings", done, total) }
			o.Params, l.trials, err = budget.Choose(ctx, o.Kind, tune, o.filled())
			return err
		})
		if err != nil {
			return fmt.Errorf("cross-validation: %w", err)
		}
	}
	return timer.Run("trees", func(report func(int, int)) (err error) {
		job.Params, job.Progress = o.Params, report
		l.model, err = budget.Train(ctx, o.Kind, job)
		return err
	})
}

// filled returns the grid with the values of Params in place of empty lists.
func (o *Options) filled() budget.Grid {
	g := *o.Grid
	if len(g.Budgets) == 0 {
		g.Budgets = []int{o.Params.BAC.Budget}
	}
	if len(g.Costs) == 0 {
		g.Costs = []float64{cmp.Or(o.Params.BAC.C, 5)} // the meaning of zero in Params
	}
	return g
}

// defaultTuneRows is the number of rows that a tuner of label models uses at most by default.
const defaultTuneRows = 10_000

// sampled returns at most limit of the rows, ascending, drawn by seed; a limit of 0 means the
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

// oneSet reports whether all rows have the same labels.
func oneSet(d *labelled.Rows) bool {
	first := d.Sets.Row(d.Live[0])
	return !slices.ContainsFunc(d.Live, func(i int) bool { return !slices.Equal(d.Sets.Row(i), first) })
}

// describeSet returns a set of labels in words.
func (l *learned) describeSet(set []uint32) string {
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
