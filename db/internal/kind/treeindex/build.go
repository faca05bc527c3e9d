package treeindex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/trees/budget"
)

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
			fail.ErrUnsuitable, key, st.Collection().Name, n, budget.SBT)
	}
	return nil
}

// treeJob returns the training job for trees of a kind.
func treeJob(kind budget.Kind, data *labelled.Rows) budget.Job {
	j := budget.Job{X: data.Rows, Sets: data.Sets, Rows: data.Live}
	if kind == budget.SBT {
		j.Class, j.Classes = make([]uint32, data.Rows.Rows()), max(2, data.Sets.Labels())
		for _, i := range data.Live {
			j.Class[i] = data.Sets.Row(i)[0]
		}
	}
	return j
}

// learn chooses parameters, if there is a grid, and trains the trees.
func (l *learned) learn(
	ctx context.Context, job budget.Job, data *labelled.Rows, timer *kind.Timer,
) error {
	o := &l.opts
	job.Workers = kind.WorkersOf(ctx)
	if o.Grid != nil {
		err := timer.Run("tune", func(func(int, int)) (err error) {
			tune := job
			tune.Rows, tune.Params = sampled(job.Rows, o.TuneRows, o.Params.Seed), o.Params
			tune.Stop, tune.Measure = kind.StopOf(ctx), o.Objective.OfSets
			tune.Progress = func(done, total int) { timer.Report("settings", done, total) }
			o.Params, l.trials, err = budget.Choose(ctx, l.kind, tune, *o.Grid)
			return err
		})
		if err != nil {
			return fmt.Errorf("cross-validation: %w", err)
		}
		o.Grid, o.TuneRows = nil, 0
	}
	job.Params = o.Params
	err := timer.Run("trees", func(report func(int, int)) (err error) {
		own := job
		own.Progress = report
		l.model, err = budget.Train(ctx, l.kind, own)
		return err
	})
	if err != nil || l.member {
		return err
	}
	return l.calibrate(ctx, job, data, timer)
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
