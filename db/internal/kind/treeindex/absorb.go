package treeindex

import (
	"context"
	"errors"

	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// step is a step of maintenance after which a budgeted tree covers fresh rows and no longer
// counts deleted ones (see budget.Follow). The weights of features stay until the tree is
// retrained, and features that are new since then have none.
type step struct {
	kind.WholeStep
	m        *kind.Manifest // of the index before the step
	l        learned
	subtrees int
}

// Absorb returns the next step of a tree, or reports that the tree must be retrained.
func (Kind) Absorb(
	ctx context.Context, st kind.Source, m *kind.Manifest, timer *kind.Timer,
) (s kind.Step, rebuild bool, err error) {
	if rebuild, err = tooSpread(ctx, st, optionsOf(m).Weight); rebuild || err != nil {
		return nil, rebuild, err
	}
	c := st.Collection()
	x, err := st.OpenNamed(ctx, m.Info.Name)
	if err != nil {
		return nil, false, err
	}
	t := x.(*Model)
	known := make([]string, t.names.Len())
	for i := range known {
		known[i] = t.Label(uint32(i))
	}
	var data *labelled.Rows
	var names []string
	err = timer.Run("read", func(report func(int, int)) error {
		data, names, err = labelled.Read(ctx, st, known, report)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if t.Model.Kind == budget.SBT && oneLabelEach(st, data) != nil {
		return nil, true, nil // a build returns the error
	}
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: c.Dim}
	for i := range data.Rows.Rows() {
		rows.Append(t.Prepare(data.Rows.Row(i)))
	}
	job := treeJob(optionsOf(m).Kind, rows, data)
	job.Params, job.Workers = optionsOf(m).Params, kind.WorkersOf(ctx)
	relabelled, err := st.Relabelled(m.Object)
	if err != nil {
		return nil, false, err
	}
	since := budget.Since{Covered: m.Info.Rows, Share: kind.Drift}
	if relabelled != nil {
		since.Relabelled = func(row int) bool { return relabelled.Contains(uint32(row)) }
	}
	var out *budget.Followed
	err = timer.Run("trees", func(report func(int, int)) (err error) {
		job.Progress = report
		out, err = budget.Follow(ctx, t.Model, job, since)
		return err
	})
	switch {
	case errors.Is(err, budget.ErrInvalid), errors.Is(err, budget.ErrParams):
		// The build accepted the parameters, so the stored ones are damaged.
		return nil, false, st.Corrupt("index %q: %w", m.Info.Name, err)
	case err != nil:
		return nil, false, fail.Wrapf(kind.AsParameter(err), "%s", detailOf(m).Kind)
	case out.Model == nil:
		return nil, true, nil
	}
	return &step{m: m, subtrees: out.Subtrees, l: learned{
		n: int(c.Rows), points: len(data.Live), dim: c.Dim, metric: m.Metric, opts: *optionsOf(m),
		model: out.Model, names: names, idf: t.idf, unit: t.unit,
	}}, false, nil
}

// tooSpread reports whether a tree of the collection must be rebuilt since features are numbered with
// too large gaps: a build leaves out the features that no row has. Weights cannot be rebuilt either,
// which is an error.
func tooSpread(ctx context.Context, st kind.Source, weight string) (bool, error) {
	c := st.Collection()
	if !c.Sparse {
		return false, nil
	}
	set, err := st.Sparse(ctx)
	if err != nil {
		return false, err
	}
	err = labelled.CheckSpread(c.Name, c.Dim, set.Entries())
	if weight != "" && weight != labelled.WeightNone {
		return false, err
	}
	return err != nil, nil
}

// Rows returns the number of rows that the step has read.
func (s *step) Rows() int { return s.l.points }

// Action returns the name of the step, as in MaintainStep.Action.
func (s *step) Action() string {
	if s.subtrees > 0 {
		return "subtree"
	}
	return "count"
}

// Emit writes the whole tree, since each of its arrays is one block.
func (s *step) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	written, err := s.l.Emit(object, sink)
	if err != nil {
		return nil, err
	}
	m := *s.m
	m.Object, m.Dim, m.Own = object, written.Dim, written.Own
	stats := s.l.model.Stats()
	m.Info.Rows, m.Info.TrainingPoints, m.Info.Tree, m.Info.Bytes = s.l.n, s.l.points, &stats, written.Info.Bytes
	return &m, nil
}

// Check checks that a tree's arrays and counts are consistent with each other and with the rows
// that the index covers.
func (t *Model) Check(context.Context) error {
	return errors.Join(t.Model.Validate(), t.Model.CheckCounts(t.m.Info.TrainingPoints))
}
