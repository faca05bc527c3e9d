package db

import (
	"context"
	"errors"

	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// treeStep makes a budgeted tree cover fresh rows and forget deleted ones (see
// budget.Follow). The weights of features stay until the tree is retrained, and
// features that came since then have none.
type treeStep struct {
	m        *manifest // of the index before
	l        budgetLearned
	subtrees int
}

// maintainTree returns the next step of a tree, or reports that the tree must be
// retrained.
func (st *collState) maintainTree(ctx context.Context, r *indexRef, m *manifest, workers int, timer *stageTimer) (s step, again bool, err error) {
	if m.Budget.Cols > st.c.Dim {
		return nil, false, corruptf(st.c.Name, "index %q: %d features of %d", m.Info.Name, m.Budget.Cols, st.c.Dim)
	}
	if st.c.Sparse && checkSpread(st.c.Name, st.c.Dim, st.sparseRows.entries()) != nil {
		return nil, true, nil // a build leaves out the features that no row has
	}
	x, err := st.index(ctx, r)
	if err != nil {
		return nil, false, err
	}
	t := x.tree
	known := make([]string, t.names.Len())
	for i := range known {
		known[i] = string(t.names.At(i))
	}
	var data *labelled
	var names []string
	err = timer.run("read", func(report func(int, int)) error {
		data, names, err = st.readLabelled(ctx, known, report)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if t.model.Kind == budget.SBT && st.oneLabelEach(data) != nil {
		return nil, true, nil // which a build refuses
	}
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: st.c.Dim}
	for i := range data.rows.Rows() {
		rows.Append(t.prepare(data.rows.Row(i)))
	}
	job := treeJob(m.Info.Options.Kind, rows, data)
	job.Params, job.Workers = m.Info.Options.Budget.Params, workers
	var out *budget.Followed
	err = timer.run("trees", func(report func(int, int)) (err error) {
		job.Progress = report
		out, err = budget.Follow(ctx, t.model, job, m.Info.Rows, drift)
		return err
	})
	switch {
	case errors.Is(err, budget.ErrInvalid), errors.Is(err, budget.ErrParams): // which a build had accepted
		return nil, false, corruptf(st.c.Name, "index %q: %w", m.Info.Name, err)
	case err != nil:
		return nil, false, wrapf(asOption(err), "%s", m.Budget.Kind)
	case out.Model == nil:
		return nil, true, nil
	}
	return &treeStep{m: m, subtrees: out.Subtrees, l: budgetLearned{
		n: int(st.c.Rows), points: len(data.live), dim: st.c.Dim, metric: m.Metric, opts: m.Info.Options,
		model: out.Model, names: names, idf: t.idf, unit: t.unit,
	}}, false, nil
}

// rows is how many rows the step read.
func (s *treeStep) rows() int { return s.l.points }

// action names the step.
func (s *treeStep) action() string {
	if s.subtrees > 0 {
		return "subtree"
	}
	return "count"
}

// emit writes the whole tree: each of its arrays is one block.
func (s *treeStep) emit(object uint64, sink blockSink) (*manifest, error) {
	written, err := s.l.emit(object, sink)
	if err != nil {
		return nil, err
	}
	m := *s.m
	m.Object, m.Dim, m.Budget = object, written.Dim, written.Budget
	stats := s.l.model.Stats()
	m.Info.Rows, m.Info.TrainingPoints, m.Info.Tree, m.Info.Bytes = s.l.n, s.l.points, &stats, written.Info.Bytes
	return &m, nil
}

func (s *treeStep) objects() int        { return 1 }
func (s *treeStep) parts() []uint64     { return nil }
func (s *treeStep) garbage() []blockRef { return nil }

// check checks a tree's arrays and counts against each other, and these against
// the rows that the index covers.
func (t *treeModel) check(m *manifest) error {
	return errors.Join(t.model.Validate(), t.model.CheckCounts(m.Info.TrainingPoints))
}
