package budget

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// The leaves of a powerset tree, and those of an annotation tree that leaves no
// label out as too rare, are of one label set each. The tree thus knows how many
// rows have which set: what a change makes of its nodes is found from the label
// sets of the rows that came and went, and the other rows are not asked. Only
// the rows of parts to be learned anew are looked for, by the sums of their
// labels' weights first, and then compared.

// setTree is a tree of label sets while it follows.
type setTree struct {
	*following
	*spans
	d *Drift

	// Rows that reach nodes, and rows of leaves that have the leaf's label set,
	// after the change.
	nodeRows, leafRows []int
	nodeChanged        []uint32
	// touched are the nodes that a changed row reaches, or that lag.
	touched []bool
	// joined are label sets without a leaf of their own, by the leaf they come to.
	joined map[int32][]newSet
	// all has, for AT, the labels that all rows of a node have: of touched nodes
	// and of such right below them.
	all [][]uint32
	// working are how many labels some rows of a touched node have and some not,
	// for AT.
	working []int
	parts   []setPart
	weight  []uint64 // of each label, see weights
}

// newSet is a label set without a leaf, with the number of its rows.
type newSet struct {
	set  []uint32
	rows int
}

// setPart is a part of a tree to be learned anew: its place, its label sets, how
// many rows have them, and for AT the labels decided or recorded above.
type setPart struct {
	at    **grown
	sets  [][]uint32
	rows  int
	above []uint32
}

// setTree makes the tree ready to count changes. Its counts must fit each other,
// so that a node has rows if a leaf below it does.
func (f *following) setTree(d *Drift) (*setTree, error) {
	if err := f.m.CheckCounts(int(f.m.rowsAt(f.m.Roots[0]))); err != nil {
		return nil, err
	}
	s := &setTree{following: f, d: d, joined: map[int32][]newSet{}}
	if s.spans = spansOf(f.m); s.spans == nil {
		// Laid out in the order of flatten, all the same.
		_, _, roots := f.m.thaw(d)
		m := *f.m
		m.Features, m.NodeErrors, m.NodeRows, m.Offset, m.NodeLabel, m.OneLabel, m.NodeWorking, m.LeafRows = nil, nil, nil, nil, nil, nil, nil, nil
		flatten(&m, roots)
		s.d, s.spans = driftOf(roots), spansOf(&m)
		f.m = &m
	}
	s.nodeRows, s.leafRows = make([]int, f.m.Nodes()), make([]int, f.m.Leaves())
	for i, n := range f.m.NodeRows {
		s.nodeRows[i] = int(n)
	}
	for i, n := range f.m.LeafRows {
		s.leafRows[i] = int(n)
	}
	s.nodeChanged, s.touched = slices.Clone(s.d.NodeChanged), make([]bool, f.m.Nodes())
	return s, nil
}

// labelsOf are the labels of a row that came or went.
func (s *setTree) labelsOf(row int) ([]uint32, error) {
	set, err := s.Rows.Set(row)
	if err == nil {
		err = ascending("label", row, set, s.Labels)
	}
	return set, err
}

// count counts rows that came (by 1) or went (by −1) at a node.
func (s *setTree) count(node int32, rows, by int) error {
	s.touched[node] = true
	s.nodeChanged[node] += uint32(rows)
	if s.nodeRows[node] += by * rows; s.nodeRows[node] < 0 {
		return fmt.Errorf("%w: fewer than no rows in node %d", ErrInvalid, node)
	}
	return nil
}

// countLeaf is count at the leaf of their label set.
func (s *setTree) countLeaf(leaf int32, rows, by int) error {
	if s.leafRows[leaf] += by * rows; s.leafRows[leaf] < 0 {
		return fmt.Errorf("%w: fewer than no rows in leaf %d", ErrInvalid, leaf)
	}
	return nil
}

// lags says whether so many rows of a node have changed that it is to be
// learned anew.
func (s *setTree) lags(node int32) bool {
	return float64(s.nodeChanged[node]) > s.Share*float64(s.d.NodeLearned[node])
}

// touchLagging marks the nodes that lag, which no change need have touched.
func (s *setTree) touchLagging() {
	for i := len(s.touched) - 1; i >= 0; i-- {
		for _, ref := range [2]int32{s.m.Left[i], s.m.Right[i]} {
			s.touched[i] = s.touched[i] || ref >= 0 && s.touched[ref]
		}
		s.touched[i] = s.touched[i] || s.lags(int32(i))
	}
}

// rowsAt is how many rows reach a node or leaf.
func (s *setTree) rowsAt(ref int32) int {
	if ref >= 0 {
		return s.nodeRows[ref]
	}
	n := s.leafRows[^ref]
	for _, j := range s.joined[^ref] {
		n += j.rows
	}
	return n
}

// setsAt are the label sets of the rows of a leaf.
func (s *setTree) setsAt(leaf int32) (sets [][]uint32) {
	if s.leafRows[leaf] > 0 {
		sets = append(sets, s.m.Set(int(leaf)))
	}
	for _, j := range s.joined[leaf] {
		sets = append(sets, j.set)
	}
	return sets
}

// summarise works out, for AT, which labels all rows of a touched node have,
// and how many some have. A set of labels a node on the way up, of one bit each,
// takes the label sets of every leaf once: O(labels of the leaves + touched
// nodes · L/64).
func (s *setTree) summarise() {
	m := s.m
	s.all, s.working = make([][]uint32, m.Nodes()), make([]int, m.Nodes())
	// Of the rows before, the highest nodes first; below a touched node the others
	// are as they were.
	s.all[0] = m.Ones(0)
	for i, touched := range s.touched {
		if !touched {
			continue
		}
		if l := m.Left[i]; l >= 0 {
			s.all[l] = union(insert(s.all[i], m.NodeLabel[i]), m.Ones(int(l)))
		}
		if r := m.Right[i]; r >= 0 {
			s.all[r] = union(s.all[i], m.Ones(int(r)))
		}
	}
	some := make([][]uint64, m.Nodes()) // of nodes whose parents are still to come
	var free [][]uint64
	for i := m.Nodes() - 1; i >= 0; i-- { // children stand behind
		if !s.touched[i] {
			continue
		}
		var set []uint64
		first := true
		var all []uint32
		meet := func(other []uint32) {
			if first {
				all = slices.Clone(other)
			} else {
				all = common(all, other)
			}
			first = false
		}
		// The right side comes first, since paths to the right are the long ones:
		// few sets are held at a time then.
		for _, ref := range [2]int32{m.Right[i], m.Left[i]} {
			if s.rowsAt(ref) == 0 {
				continue
			}
			if ref >= 0 && s.touched[ref] {
				meet(s.all[ref])
				if set == nil {
					set = some[ref]
				} else {
					for w, b := range some[ref] {
						set[w] |= b
					}
					free = append(free, some[ref])
				}
				some[ref] = nil
				continue
			}
			if set == nil {
				if n := len(free); n > 0 {
					set, free = free[n-1], free[:n-1]
					clear(set)
				} else {
					set = make([]uint64, (s.Labels+63)/64)
				}
			}
			if ref >= 0 {
				meet(s.all[ref])
				from, end := s.leavesAt(ref)
				for _, l := range m.SetLabel[m.SetPtr[from]:m.SetPtr[end]] {
					set[l/64] |= 1 << (l % 64)
				}
				continue
			}
			for _, labels := range s.setsAt(^ref) {
				meet(labels)
				for _, l := range labels {
					set[l/64] |= 1 << (l % 64)
				}
			}
		}
		n := 0
		for _, b := range set {
			n += bits.OnesCount64(b)
		}
		s.all[i], s.working[i], some[i] = all, n-len(all), set
	}
}

// common is the ascending list of what both ascending lists have, in the place
// of the first.
func common(a, b []uint32) []uint32 {
	out := a[:0]
	for _, l := range a {
		for len(b) > 0 && b[0] < l {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == l {
			out = append(out, l)
		}
	}
	return out
}

// without is the ascending list a without what b has.
func without(a, b []uint32) (out []uint32) {
	for _, l := range a {
		if !has(b, l) {
			out = append(out, l)
		}
	}
	return out
}

// setVisit is a node or leaf on the way of revise, where it is put, and for AT
// the labels decided or recorded above.
type setVisit struct {
	at    **grown
	ref   int32
	above []uint32
}

// revise makes the tree that counts the present rows, and finds the parts to
// learn anew. Where the change touched nothing and nothing is different above,
// all is as it was.
func (s *setTree) revise(ctx context.Context) (*grown, error) {
	m := s.m
	at := m.Kind == AT
	if at {
		s.summarise()
	}
	var root *grown
	stack := []setVisit{{&root, m.Roots[0], nil}}
	for steps := 0; len(stack) > 0; steps++ {
		if steps%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if v.ref < 0 {
			sets := s.setsAt(^v.ref)
			if len(sets) > 1 {
				s.part(v)
				continue
			}
			rows := s.rowsAt(v.ref)
			*v.at = &grown{rows: rows, set: sets[0], learned: rows}
			continue
		}
		g := &grown{kept: keepAll, ref: v.ref}
		if !s.touched[v.ref] {
			if at {
				// What all rows have is as it was, so that nothing is different below.
				if ones := without(s.all[v.ref], v.above); !slices.Equal(ones, m.Ones(int(v.ref))) {
					g.kept, g.ones, g.working = keepDecision, ones, int(m.NodeWorking[v.ref])
					g.rows, g.changed = s.nodeRows[v.ref], int(s.nodeChanged[v.ref])
					g.left, g.right = &grown{kept: keepAll, ref: m.Left[v.ref]}, &grown{kept: keepAll, ref: m.Right[v.ref]}
				}
			}
			*v.at = g
			continue
		}
		left, right := m.Left[v.ref], m.Right[v.ref]
		switch {
		case at && s.lags(v.ref):
			s.part(v)
			continue
		case s.rowsAt(left) == 0:
			stack = append(stack, setVisit{v.at, right, v.above})
			continue
		case s.rowsAt(right) == 0:
			stack = append(stack, setVisit{v.at, left, v.above})
			continue
		case s.lags(v.ref):
			s.part(v)
			continue
		}
		g.kept, g.rows, g.changed = keepDecision, s.nodeRows[v.ref], int(s.nodeChanged[v.ref])
		*v.at = g
		var above, decided []uint32
		if at {
			above = s.all[v.ref]
			g.ones, g.working = without(above, v.above), s.working[v.ref]
			decided = insert(above, m.NodeLabel[v.ref])
		}
		stack = append(stack, setVisit{&g.right, right, above}, setVisit{&g.left, left, decided})
	}
	return root, nil
}

// part notes a part to learn anew.
func (s *setTree) part(v setVisit) {
	p := setPart{at: v.at, rows: s.rowsAt(v.ref), above: v.above}
	*v.at = &grown{left: &grown{}, right: &grown{}} // until it is learned
	from, end := s.leavesAt(v.ref)
	for leaf := from; leaf < end; leaf++ {
		p.sets = append(p.sets, s.setsAt(int32(leaf))...)
	}
	s.parts = append(s.parts, p)
}

// follow revises the tree, learns its parts and lays it out; nothing is made
// where all is to be learned anew.
func (s *setTree) follow(ctx context.Context, learn func(context.Context, *partRows) error) error {
	if s.touchLagging(); s.lags(0) {
		s.anew = true
		return nil
	}
	root, err := s.revise(ctx)
	if err != nil {
		return err
	}
	if s.anew = root.left == nil && root.kept != keepAll; s.anew {
		return nil
	}
	s.following.labels = s.Labels
	if len(s.parts) > 0 {
		rows, err := s.gather(ctx)
		if err != nil {
			return err
		}
		if err := learn(ctx, rows); err != nil {
			return err
		}
	}
	s.model = &Model{Kind: s.m.Kind, Cols: s.Cols, Labels: s.Labels, Voters: s.m.Voters, Threshold: s.m.Threshold, KeepTop: s.m.KeepTop}
	s.drift = s.assemble(s.model, s.d, root, s.Change)
	return nil
}

// partRows are the rows of the parts to be learned anew.
type partRows struct {
	x    *vector.CSR
	y    *labels.Matrix
	rows [][]int32 // of each part
}

// weights are drawn for every label, so that label sets of the same sum are the
// same but for a chance of one in 2⁶⁴.
func (s *setTree) weights() []uint64 {
	if s.weight == nil {
		s.weight = make([]uint64, s.Labels)
		for l := range s.weight {
			s.weight[l] = mix(0, uint64(l))
		}
	}
	return s.weight
}

// sumOf is the sum of a label set's weights.
func sumOf(set []uint32, weight []uint64) (sum uint64) {
	for _, l := range set {
		sum += weight[l]
	}
	return sum
}

// gather finds and reads the rows of the parts. Rows whose labels have the sum
// that a label set of a part has are asked for their labels.
func (s *setTree) gather(ctx context.Context) (*partRows, error) {
	weight := s.weights()
	part, sums := map[string]int{}, map[uint64]bool{}
	for i, p := range s.parts {
		for _, set := range p.sets {
			part[setKey(set)], sums[sumOf(set, weight)] = i, true
		}
	}
	of, err := s.Rows.Sums(s.Live, weight)
	if err != nil {
		return nil, err
	}
	if len(of) != len(s.Live) {
		return nil, fmt.Errorf("%w: sums of %d rows, not %d", ErrInput, len(of), len(s.Live))
	}
	var list []int
	for i, sum := range of {
		if sums[sum] {
			list = append(list, s.Live[i])
		}
	}
	r := &partRows{rows: make([][]int32, len(s.parts))}
	if r.y, err = s.sets(list); err != nil {
		return nil, err
	}
	for i := range list {
		if p, ok := part[setKey(r.y.Row(i))]; ok {
			r.rows[p] = append(r.rows[p], int32(i))
		}
	}
	for i, p := range s.parts {
		if len(r.rows[i]) != p.rows {
			return nil, fmt.Errorf("%w: %d rows have the label sets of a part of %d rows", ErrInvalid, len(r.rows[i]), p.rows)
		}
	}
	r.x, err = s.features(ctx, list)
	return r, err
}

// of has the rows of a part as a matrix, and their numbers there: that of all
// parts where the part is small, and one of its own where it is so large that
// learning it alone would read it by columns. Sums come out in another order by
// columns, and what is learned does not depend on what else there is to learn.
func (r *partRows) of(part int) (x, columns *vector.CSR, y *labels.Matrix, rows []int32) {
	rows = r.rows[part]
	entries := 0
	list := make([]int, len(rows))
	for i, row := range rows {
		entries += int(r.x.Ptr[row+1] - r.x.Ptr[row])
		list[i] = int(row)
	}
	if entries < r.x.Cols {
		return r.x, nil, r.y, rows
	}
	x, rows = labels.SelectRows(r.x, list), positions(len(rows))
	return x, columnsOf(x, rows), r.y.Select(list), rows
}
