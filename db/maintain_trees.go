package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Budgeted trees follow changes part by part (DESIGN section 10; budget.Follow):
// nodes of which up to a fifth of the rows has changed keep their decisions, the
// others are learned anew with all that is below, and counts are those of the
// present rows. A tree keeps for that, beside its model, how many rows each part
// was learned from and how many have changed since, and which of the rows that it
// covers had been deleted. The weights of features stay until all is learned
// anew; features that came since have none.

// treeFollowing is what a stored tree needs to be followed.
type treeFollowing struct {
	drift *budget.Drift
	dead  *roaring.Bitmap // of the rows covered
}

// driftArrays are the arrays that say how many rows of each part have changed.
func driftArrays(a *arrays, d *budget.Drift) {
	array(a, arrayNodeLearned, &d.NodeLearned)
	array(a, arrayNodeChanged, &d.NodeChanged)
	array(a, arrayLeafLearned, &d.LeafLearned)
	array(a, arrayLeafChanged, &d.LeafChanged)
}

// treeStep is a step that makes a tree cover fresh rows and forget deleted ones.
type treeStep struct {
	m        *manifest // of the index before
	l        budgetLearned
	subtrees int
	read     int // rows read
}

// maintainTree says how a tree goes on: by a step, or learned anew.
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
	dead := roaring.New()
	if d := st.dead(); d != nil {
		dead = d.Clone()
	}
	names := make([]string, t.names.Len())
	for i := range names {
		names[i] = string(t.names.At(i))
	}
	known, err := labels.NewBuilder(names)
	if err != nil {
		return nil, false, corruptf(st.c.Name, "index %q: %w", m.Info.Name, err)
	}
	rows := &treeRows{st: st, tree: t, labels: known, held: map[int][]uint32{}}
	c := &budget.Change{Rows: rows, Share: drift}
	gone := roaring.AndNot(dead, t.following.dead)
	gone.RemoveRange(uint64(m.Info.Rows), 1<<32)
	for it := gone.Iterator(); it.HasNext(); {
		c.Removed = append(c.Removed, int(it.Next()))
	}
	rows.expect(t.model)
	if err := rows.hold(c.Removed); err != nil {
		return nil, false, err
	}
	c.Live = make([]int, 0, st.c.Rows)
	next := dead.Iterator()
	for row := range st.c.Rows {
		if next.AdvanceIfNeeded(row); next.HasNext() && next.PeekNext() == row {
			continue
		}
		c.Live = append(c.Live, int(row))
		if int(row) < m.Info.Rows {
			continue
		}
		c.Added = append(c.Added, int(row))
		// Labels that nobody had before get their numbers.
		set, err := rows.Set(int(row))
		if err != nil {
			return nil, false, err
		}
		rows.held[int(row)] = set
	}
	c.Cols, c.Labels = st.c.Dim, len(known.Names())
	var out *budget.Followed
	err = timer.run("trees", func(report func(int, int)) (err error) {
		// Reading the map is guarded on this goroutine only; Follow keeps to that.
		out, err = budget.Follow(ctx, t.model, t.following.drift, c, m.Info.Options.Budget.Params, workers, report)
		return err
	})
	switch {
	case errors.Is(err, budget.ErrInvalid), errors.Is(err, budget.ErrParams): // which a build had accepted
		return nil, false, corruptf(st.c.Name, "index %q: %w", m.Info.Name, err)
	case err != nil:
		return nil, false, fmt.Errorf("db: %s: %w", m.Budget.Kind, asOption(err))
	case out.Model == nil:
		return nil, true, nil
	}
	step := &treeStep{m: m, subtrees: out.Subtrees, read: out.Read}
	step.l = budgetLearned{
		n: int(st.c.Rows), points: len(c.Live), dim: m.Dim, metric: m.Metric, opts: m.Info.Options,
		model: out.Model, names: known.Names(), idf: t.idf, unit: t.unit,
		following: &treeFollowing{drift: out.Drift, dead: dead},
	}
	if st.c.Sparse {
		step.l.dim = st.c.Dim
	}
	return step, false, nil
}

// treeRows are the rows of a collection as a tree sees them.
type treeRows struct {
	st     *collState
	tree   *treeModel
	labels *labels.Builder // which gives labels that nobody had before the next numbers
	run    *coldRows
	held   map[int][]uint32 // label sets of rows that have been read
	rows   []uint32         // the rows of the labels read, those of one behind those of another
	ends   []int            // and where they end
}

// Row is a row as queries are: weighed and scaled as the training rows were.
func (r *treeRows) Row(i int) (vector.Sparse, error) {
	if !r.st.c.Sparse {
		return r.tree.prepare(listed(r.st.base.Rows.Vector(i, make([]float32, r.st.c.Dim)))), nil
	}
	return r.tree.prepare(r.st.sparseRows.row(uint32(i))), nil
}

// Set is the labels of a row by number.
func (r *treeRows) Set(i int) ([]uint32, error) {
	if set, ok := r.held[i]; ok {
		return set, nil
	}
	names, err := r.st.labelsOf(uint32(i), &r.run)
	if err != nil {
		return nil, err
	}
	set := make([]uint32, len(names))
	for k, name := range names {
		set[k] = r.labels.Number(name)
	}
	slices.Sort(set)
	return slices.Compact(set), nil
}

// runShare is how many labels' rows are read in the time that it takes to read
// and unpack the labels of one row and its neighbours.
const runShare = 16

// hold reads the label sets of rows that Set will be asked for, whose labels are
// known, together where that is faster than one by one.
func (r *treeRows) hold(rows []int) error {
	if len(rows)*runShare < len(r.labels.Names()) {
		return nil
	}
	y, err := r.Sets(rows, len(r.labels.Names()))
	if err != nil {
		return err
	}
	for i, row := range rows {
		r.held[row] = y.Row(i)
	}
	return nil
}

// expect makes room for the rows of all labels, of which the tree's leaves know
// how many there were.
func (r *treeRows) expect(m *budget.Model) {
	n := 0
	for leaf := range max(0, len(m.SetPtr)-1) {
		n += int(m.LeafRows[leaf]) * len(m.Set(leaf))
	}
	r.rows = make([]uint32, 0, min(n+n/16, 1<<24))
}

// readLabels reads the rows of the known labels that have not been read yet.
func (r *treeRows) readLabels() error {
	reader, err := r.st.labelReader()
	for _, name := range r.labels.Names()[len(r.ends):] {
		if err == nil {
			r.rows, err = reader.appendRows(r.rows, name)
		}
		if err != nil {
			return err
		}
		r.ends = append(r.ends, len(r.rows))
	}
	return err
}

// rowsOf are the rows of a label that has been read.
func (r *treeRows) rowsOf(label int) []uint32 {
	from := 0
	if label > 0 {
		from = r.ends[label-1]
	}
	return r.rows[from:r.ends[label]]
}

// Sets has the labels of rows by the sets of rows that labels have, which is much
// faster for many rows than reading each row's names. These must be known: fresh
// rows have been asked for theirs.
func (r *treeRows) Sets(rows []int, n int) (*labels.Matrix, error) {
	if err := r.readLabels(); err != nil {
		return nil, err
	}
	place := make([]int32, r.st.c.Rows) // of the rows asked for, from 1 on
	for i, row := range rows {
		place[row] = int32(i) + 1
	}
	sets := vector.CSR{Ptr: make([]uint64, len(rows)+2), Cols: n}
	for _, row := range r.rows {
		if at := place[row]; at > 0 {
			sets.Ptr[at+1]++
		}
	}
	for i := 1; i < len(sets.Ptr); i++ {
		sets.Ptr[i] += sets.Ptr[i-1]
	}
	// Filled in by label, so that those of a row ascend; its end moves along.
	sets.Index = make([]uint32, sets.Ptr[len(rows)+1])
	for l := range r.ends {
		for _, row := range r.rowsOf(l) {
			if at := place[row]; at > 0 {
				sets.Index[sets.Ptr[at]] = uint32(l)
				sets.Ptr[at]++
			}
		}
	}
	sets.Ptr = sets.Ptr[:len(rows)+1]
	y, err := labels.NewMatrix(sets)
	if err != nil {
		return nil, corruptf(r.st.c.Name, "%w", err)
	}
	return y, nil
}

// Sums adds up weights of rows' labels, by the sets of rows that labels have.
func (r *treeRows) Sums(rows []int, weight []uint64) ([]uint64, error) {
	if err := r.readLabels(); err != nil {
		return nil, err
	}
	all := make([]uint64, r.st.c.Rows)
	for l := range r.ends {
		w := weight[l]
		for _, row := range r.rowsOf(l) {
			all[row] += w
		}
	}
	sums := make([]uint64, len(rows))
	for i, row := range rows {
		sums[i] = all[row]
	}
	return sums, nil
}

var _ budget.Rows = (*treeRows)(nil)

// rows is how many rows the step read.
func (s *treeStep) rows() int { return s.read }

// action names the step.
func (s *treeStep) action() string {
	if s.subtrees > 0 {
		return "subtree"
	}
	return "count"
}

// emit writes the tree, whole: its arrays are read as one piece each, and
// writing them is little beside learning any part.
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
	if err := t.model.Validate(); err != nil || t.following == nil {
		return err
	}
	if n := m.Info.Rows - int(t.following.dead.GetCardinality()); n != m.Info.TrainingPoints {
		return fmt.Errorf("%d of %d rows were not deleted, the tree says %d", n, m.Info.Rows, m.Info.TrainingPoints)
	}
	return errors.Join(t.following.drift.Validate(t.model), t.model.CheckCounts(m.Info.TrainingPoints))
}
