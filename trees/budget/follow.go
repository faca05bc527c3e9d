package budget

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// Followed is a model that has followed a change of its rows.
type Followed struct {
	// Model shares nothing with the former model. It is nil if all trees must be
	// retrained.
	Model *Model
	// Subtrees is how many subtrees were relearned, Rows how many rows they were
	// learned from in total.
	Subtrees, Rows int
}

// Since describes how the rows have changed since a model was trained or followed them.
type Since struct {
	// Covered is the number of rows of X that the model covers: later rows are new.
	Covered int
	// Relabelled, if not nil, reports whether a covered row may have other labels now. It counts
	// as a row that was deleted and added again.
	Relabelled func(row int) bool
	// Share is the largest share of changed rows with which a node keeps its decision.
	Share float64
}

// Follow returns a model for changed rows. The job has the present rows, with
// the parameters that m was trained with. Of these, m counts the rows of X below
// Covered, and others that have been deleted since; a replaced row is deleted
// and comes again as a new row. Features, labels and classes may be added, and
// keep their numbers.
//
// Follow routes all rows through m once: those of SBT by its decisions, those of
// PT and AT by their labels, as in training. A node of which more than the given
// share of its present rows came or went since it was learned is relearned from
// its present rows, with all nodes below it. The other nodes keep their decisions
// bit for bit. Counts, the classes of leaves, and the one-sets and working sets
// of AT (definitions 9 and 10) are exact in either case.
//
// A leaf of PT or AT whose rows have several label sets is relearned, so that
// new label sets can be answered. PT routes a label set without a leaf to the
// leaf that it predicts for the first of its rows. Where a side of a node of PT
// or AT has no rows left, the other side takes the place of the node. A class
// that is new to a SBT of three or more classes gets a tree.
//
// All trees must be retrained if a root has changed by more than the share, if
// no decision is left, if a class of a SBT has no row, or if a SBT of two classes
// gets a third.
//
// Follow costs a prediction per row for SBT, and a walk by the row's labels for
// PT and AT, besides the training of the subtrees that it relearns.
//
// Errors: ErrParams, ErrInput, ErrInvalid for a model that cannot have counted
// the rows, and the context's.
func Follow(ctx context.Context, m *Model, job Job, since Since) (*Followed, error) {
	rows, err := job.prepare(m.Kind)
	if err != nil {
		return nil, fmt.Errorf("budget: follow: %w", err)
	}
	f := &follower{Job: job, Since: since, m: m.Clone(), rows: rows}
	ok, err := f.start()
	if err == nil && ok {
		ok, err = f.follow(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("budget: follow: %w", err)
	}
	if !ok {
		return &Followed{}, nil
	}
	out := &Followed{Subtrees: len(f.parts), Model: &Model{
		Kind: m.Kind, Cols: job.X.Cols, Labels: job.labels(m.Kind), Voters: m.Voters,
		Threshold: m.Threshold, KeepTop: m.KeepTop,
	}}
	for _, p := range f.parts {
		out.Rows += len(p.rows)
	}
	flatten(out.Model, f.roots)
	if err := out.Model.Validate(); err != nil { // m was not valid
		return nil, fmt.Errorf("budget: follow: %w", err)
	}
	return out, nil
}

// follower is the work of Follow.
type follower struct {
	Job
	Since
	m    *Model
	rows []int32

	leaves []*grown // of m, by number
	roots  []*grown // of the new model
	parts  []part
}

// part is a node whose subtree is relearned from its present rows, with what
// training knows when it gets there.
type part struct {
	at   **grown
	rows []int32 // ascending
	// The tree of a SBT, the depth in it and the seed.
	tree, depth int
	seed        uint64
	// For AT, the labels decided or recorded above, and those too rare there.
	set, dropped []uint32
}

// start checks that the model fits the job and takes it apart. It reports false
// if all trees must be retrained.
func (f *follower) start() (ok bool, err error) {
	m, labels := f.m, f.labels(f.m.Kind)
	switch {
	case f.X.Cols < m.Cols || labels < m.Labels || !(f.Share > 0):
		return false, fmt.Errorf("%w: %d features, %d labels, share %v", ErrParams, f.X.Cols, labels, f.Share)
	case m.Voters != f.Params.Folds || m.Kind == SBT && m.Labels == 2 && labels > 2:
		return false, nil
	case m.Kind != SBT && m.Roots[0] < 0:
		return false, fmt.Errorf("%w: a tree of label sets without decision", ErrInvalid)
	}
	f.leaves, f.roots = m.thaw()
	if m.Kind != SBT {
		return true, nil
	}
	f.roots = append(f.roots, make([]*grown, f.trees()-len(m.Roots))...)
	for _, n := range f.countClasses(f.rows) {
		if n == 0 || n == len(f.rows) {
			return false, nil
		}
	}
	return true, nil
}

// follow counts the rows of all trees, and relearns the parts that need it. It
// reports false if all trees must be retrained.
func (f *follower) follow(ctx context.Context) (ok bool, err error) {
	signs := make([][]int8, len(f.roots)) // of a SBT
	for t := range f.roots {
		if f.m.Kind == SBT {
			signs[t] = f.signs(t)
		}
		if t >= len(f.m.Roots) {
			f.parts = append(f.parts, part{at: &f.roots[t], rows: f.rows, tree: t, seed: f.seed(t)})
			continue
		}
		leaf, err := f.route(ctx, t)
		if err != nil {
			return false, err
		}
		if err := f.count(t, leaf, signs[t]); err != nil {
			return false, err
		}
		if ok, err := f.revise(ctx, t); !ok || err != nil {
			return false, err
		}
	}
	if len(f.parts) == 0 {
		return true, nil
	}
	return true, f.relearn(ctx, signs)
}

// route returns the leaf of every row in a tree of the model.
func (f *follower) route(ctx context.Context, tree int) ([]int32, error) {
	leaf, m := make([]int32, len(f.rows)), f.m
	switch m.Kind {
	case SBT:
		index := NewIndex(m)
		err := forRows(ctx, len(leaf), f.Workers, func() func(int) {
			p := NewPredictor(index)
			return func(i int) {
				l, _ := p.Leaf(f.X.Row(int(f.rows[i])), tree)
				leaf[i] = int32(l)
			}
		})
		return leaf, err
	case PT:
		of := make(map[string]int32, m.Leaves())
		for l := range m.Leaves() {
			of[setKey(m.Set(l))] = int32(l)
		}
		p := NewPredictor(NewIndex(m))
		for i, r := range f.rows {
			key := setKey(f.Sets.Row(int(r)))
			if _, ok := of[key]; !ok {
				l, _ := p.Leaf(f.X.Row(int(r)), 0)
				of[key] = int32(l)
			}
			leaf[i] = of[key]
		}
	case AT:
		for i, r := range f.rows {
			ref := m.Roots[0]
			for ref >= 0 {
				if has(f.Sets.Row(int(r)), m.NodeLabel[ref]) {
					ref = m.Left[ref]
				} else {
					ref = m.Right[ref]
				}
			}
			leaf[i] = ^ref
		}
	}
	return leaf, ctx.Err()
}

// setKey returns a label set as the key of a map.
func setKey(set []uint32) string {
	b := make([]byte, 0, 4*len(set))
	for _, l := range set {
		b = binary.LittleEndian.AppendUint32(b, l)
	}
	return string(b)
}

// count sets the rows of all nodes and leaves of a tree, and adds those that
// came and went to what has changed since they were learned.
func (f *follower) count(tree int, leaf []int32, signs []int8) error {
	var order []*grown
	each(f.roots[tree:tree+1], func(g *grown) { order = append(order, g) })
	n := make([]int, len(f.leaves))
	for _, l := range leaf {
		n[l]++
	}
	// The rows of a leaf follow those of the leaf before it, so that the rows below
	// any node are adjacent.
	sorted, at := make([]int32, len(leaf)), 0
	for _, g := range order {
		if g.left == nil {
			g.reached = sorted[at:at]
			at += n[g.number]
		}
	}
	for i, l := range leaf {
		g := f.leaves[l]
		g.reached = append(g.reached, f.rows[i])
	}
	for _, g := range slices.Backward(order) { // children before their parents
		if g.left != nil {
			g.reached = g.left.reached[:len(g.left.reached)+len(g.right.reached)]
		}
		g.positive = 0
		added := 0
		for _, r := range g.reached {
			if int(r) >= f.Covered || f.Relabelled != nil && f.Relabelled(int(r)) {
				added++
			}
			if signs != nil && signs[r] > 0 {
				g.positive++
			}
		}
		removed := g.rows + added - len(g.reached)
		if removed < 0 {
			return fmt.Errorf("%w: a node or leaf of %d rows has %d rows, %d of them new",
				ErrInvalid, g.rows, len(g.reached), added)
		}
		g.rows, g.changed = len(g.reached), g.changed+added+removed
	}
	return nil
}

// stale reports whether so many rows of a node have changed that it is
// relearned.
func (f *follower) stale(g *grown) bool { return float64(g.changed) > f.Share*float64(g.rows) }

// revise brings the nodes and leaves of a counted tree up to date and collects
// the parts to relearn, highest first. It reports false if all trees must be
// retrained.
func (f *follower) revise(ctx context.Context, tree int) (ok bool, err error) {
	sets := &at{y: f.Sets, params: f.Params}
	var count []uint32
	if f.m.Kind == AT {
		count = make([]uint32, f.Sets.Labels())
	}
	root := &f.roots[tree]
	stack := []part{{at: root, tree: tree, seed: f.seed(tree)}}
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g := *p.at
		if p.at == root && (f.stale(g) || g.left == nil && f.m.Kind != SBT) {
			return false, nil
		}
		if g.left == nil {
			if !f.reviseLeaf(sets, g, p, count) {
				f.addPart(p)
			}
			continue
		}
		if f.m.Kind != SBT && (g.left.rows == 0 || g.right.rows == 0) {
			*p.at = g.right
			if g.right.rows == 0 {
				*p.at = g.left
			}
			stack = append(stack, p)
			continue
		}
		if f.stale(g) {
			f.addPart(p)
			continue
		}
		left := part{at: &g.left, tree: tree, depth: p.depth + 1, seed: mix(p.seed, 2)}
		right := part{at: &g.right, tree: tree, depth: p.depth + 1, seed: mix(p.seed, 1)}
		if f.m.Kind == AT {
			g.ones, g.working = nil, 0
			_, _, rare := sets.divideLabels(g, g.reached, p.set, p.dropped, count)
			right.set, right.dropped = union(p.set, g.ones), rare
			left.set, left.dropped = insert(right.set, g.label), rare
		}
		stack = append(stack, right, left)
	}
	return true, nil
}

// addPart adds the subtree at p to what is relearned.
func (f *follower) addPart(p part) {
	p.rows = slices.Sorted(slices.Values((*p.at).reached))
	f.parts = append(f.parts, p)
}

// reviseLeaf gives a leaf the answer of its rows. It reports false if the leaf is
// to be relearned.
func (f *follower) reviseLeaf(sets *at, g *grown, p part, count []uint32) bool {
	switch f.m.Kind {
	case PT:
		g.set = f.Sets.Row(int(g.reached[0]))
		for _, r := range g.reached {
			if !slices.Equal(f.Sets.Row(int(r)), g.set) {
				return false
			}
		}
	case AT:
		g.ones, g.working = nil, 0
		_, open, _ := sets.divideLabels(g, g.reached, p.set, p.dropped, count)
		g.set = union(p.set, g.ones)
		return !open
	case SBT:
		if 2*g.positive > g.rows {
			g.class = 1
		} else if 2*g.positive < g.rows {
			g.class = -1
		}
		if !f.stale(g) {
			return true
		}
		if p.depth < f.Params.MaxDepth && g.rows >= f.Params.MinRows && g.minority() > 0 {
			return false
		}
		g.changed = 0 // training would make it a leaf, too
	}
	return true
}

// relearn trains the parts and puts them in their places.
func (f *follower) relearn(ctx context.Context, signs [][]int8) error {
	pool := newPool(0, f.Progress)
	trees, fresh := make([]sbtTree, len(f.parts)), make([]*grown, len(f.parts))
	var tasks []task
	for i, p := range f.parts {
		if f.m.Kind == SBT {
			s := &sbt{x: f.X, rows: p.rows, params: f.Params, pool: pool}
			var first task
			trees[i], first = s.plant(signs[p.tree], p.depth, p.seed)
			tasks, pool.total = append(tasks, first), pool.total+len(p.rows)
			continue
		}
		x, y := f.only(p.rows)
		all := positions(len(p.rows))
		columns := columnsOf(x, all)
		if f.m.Kind == PT {
			t := &pt{x: x, columns: columns, params: f.Params, pool: pool}
			var more []task
			fresh[i], more = t.plant(y.Powersets(), all)
			tasks = append(tasks, more...)
			continue
		}
		t := &at{x: x, columns: columns, y: y, params: f.Params, pool: pool}
		fresh[i] = &grown{}
		tasks, pool.total = append(tasks, t.task(fresh[i], all, p.set, p.dropped)), pool.total+len(p.rows)
	}
	if err := pool.run(ctx, f.X.Cols, f.labels(f.m.Kind), f.Workers, tasks); err != nil {
		return err
	}
	if f.m.Kind == SBT {
		// The rows of a subtree are counted by its decisions as they are stored.
		m := &Model{Kind: SBT, Cols: f.X.Cols, Labels: 2, Voters: f.m.Voters}
		if err := f.finish(ctx, m, trees); err != nil {
			return err
		}
		_, fresh = m.thaw()
	}
	for i, p := range f.parts {
		*p.at = fresh[i]
	}
	return nil
}

// has reports whether an ascending set has a label.
func has(set []uint32, label uint32) bool {
	_, ok := slices.BinarySearch(set, label)
	return ok
}

// insert returns the ascending set with a label that may be in it already.
func insert(set []uint32, label uint32) []uint32 {
	i, ok := slices.BinarySearch(set, label)
	if ok {
		return set
	}
	return slices.Insert(slices.Clone(set), i, label)
}
