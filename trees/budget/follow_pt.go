package budget

import (
	"context"
	"encoding/binary"
	"fmt"
)

// A label set that is new to a powerset tree has no leaf, and its rows no place
// among the codes. It joins the leaf that the tree predicts for most of its
// rows: the decisions above then need not know it, and the leaf becomes a
// subtree that tells its label sets apart.

// newSet is a label set without a leaf, with the number of its rows.
type newSet struct {
	set  []uint32
	rows int
}

// setKey makes a label set the key of a map.
func setKey(set []uint32) string {
	b := make([]byte, 0, 4*len(set))
	for _, l := range set {
		b = binary.LittleEndian.AppendUint32(b, l)
	}
	return string(b)
}

// followPT makes a powerset tree follow.
func (f *following) followPT(ctx context.Context) error {
	if f.roots[0].left == nil {
		return fmt.Errorf("%w: a powerset tree without decision", ErrInvalid)
	}
	f.labels = f.Labels
	joined, err := f.countPT(ctx)
	if err != nil {
		return err
	}
	if f.lags(f.roots[0]) {
		f.anew = true
		return nil
	}
	f.roots[0] = f.prunePT(joined)
	if f.roots[0] == nil || f.roots[0].left == nil {
		f.anew = true
		return nil
	}
	// The highest nodes that lag, and leaves of several sets.
	part := map[string]int{} // of each label set below one
	var parts []*grown
	mark := func(g *grown) {
		each([]*grown{g}, func(leaf *grown) {
			if leaf.left != nil {
				return
			}
			if leaf.rows > 0 {
				part[setKey(leaf.set)] = len(parts)
			}
			for _, s := range joined[leaf] {
				part[setKey(s.set)] = len(parts)
			}
		})
		parts = append(parts, g)
	}
	stack := []*grown{f.roots[0]}
	for len(stack) > 0 {
		g := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch {
		case g.left == nil && len(joined[g]) == 0:
			settled(g)
		case g.left == nil || f.lags(g):
			mark(g)
		default:
			stack = append(stack, g.right, g.left)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return f.learnPT(ctx, parts, part)
}

// countPT counts the changed rows on the paths to their leaves, and finds
// leaves for the label sets that have none.
func (f *following) countPT(ctx context.Context) (map[*grown][]newSet, error) {
	leafOf := make(map[string]int, len(f.leaves))
	for i := range f.leaves {
		leafOf[setKey(f.m.Set(i))] = i
	}
	above := make(map[*grown]*grown, len(f.nodes)+len(f.leaves))
	for _, g := range f.nodes {
		above[g.left], above[g.right] = g, g
	}
	count := func(leaf, rows, by int) error {
		for g := above[f.leaves[leaf]]; g != nil; g = above[g] {
			g.changed += rows
			if g.rows += by * rows; g.rows < 0 {
				return fmt.Errorf("%w: fewer than no rows in a node", ErrInvalid)
			}
		}
		return nil
	}
	predictor := NewPredictor(NewIndex(f.m))
	type stray struct {
		newSet
		votes map[int]int // of its rows for leaves
	}
	strays := map[string]*stray{}
	var order []*stray
	err := f.changes(ctx, func(row, by int) error {
		set, err := f.Rows.Set(row)
		if err != nil {
			return err
		}
		key := setKey(set)
		if leaf, ok := leafOf[key]; ok {
			g := f.leaves[leaf]
			if g.rows += by; g.rows < 0 {
				return fmt.Errorf("%w: fewer than no rows in leaf %d", ErrInvalid, leaf)
			}
			return count(leaf, 1, by)
		}
		if by < 0 {
			return fmt.Errorf("%w: no leaf for the labels of row %d", ErrInvalid, row)
		}
		s := strays[key]
		if s == nil {
			s = &stray{newSet{set: set}, map[int]int{}}
			strays[key] = s
			order = append(order, s)
		}
		x, err := f.Rows.Row(row)
		if err != nil {
			return err
		}
		leaf, _ := predictor.Leaf(x, 0)
		s.votes[leaf]++
		s.rows++
		return nil
	})
	if err != nil {
		return nil, err
	}
	joined := map[*grown][]newSet{}
	for _, s := range order {
		best, most := 0, 0
		for leaf, n := range s.votes {
			if n > most || n == most && leaf < best {
				best, most = leaf, n
			}
		}
		if err := count(best, s.rows, 1); err != nil {
			return nil, err
		}
		joined[f.leaves[best]] = append(joined[f.leaves[best]], s.newSet)
	}
	return joined, nil
}

// prunePT takes out the leaves of label sets that no row has any more: what is
// beside one takes the place of both. It returns the root.
func (f *following) prunePT(joined map[*grown][]newSet) *grown {
	now := make(map[*grown]*grown, len(f.nodes)+len(f.leaves))
	for _, g := range f.leaves {
		if g.rows > 0 || len(joined[g]) > 0 {
			now[g] = g
		}
	}
	for i := len(f.nodes) - 1; i >= 0; i-- { // children stand behind
		g := f.nodes[i]
		left, right := now[g.left], now[g.right]
		switch {
		case left != nil && right != nil:
			g.left, g.right = left, right
			now[g] = g
		case left != nil:
			now[g] = left
		default:
			now[g] = right
		}
	}
	return now[f.roots[0]]
}

// learnPT learns the parts anew. part has the part of every label set below one.
func (f *following) learnPT(ctx context.Context, parts []*grown, part map[string]int) error {
	y, err := f.sets()
	if err != nil {
		return err
	}
	rows := make([][]int32, len(parts))
	for i := range y.Rows() {
		if p, ok := part[setKey(y.Row(i))]; ok {
			rows[p] = append(rows[p], int32(i))
		}
	}
	pool := newPool(0, f.progress)
	var tasks []task
	fresh := make([]*grown, len(parts))
	for i := range parts {
		if len(rows[i]) == 0 {
			return fmt.Errorf("%w: no row has the labels of a leaf", ErrInvalid)
		}
		x, err := f.features(ctx, f.numbers(rows[i]))
		if err != nil {
			return err
		}
		all := positions(len(rows[i]))
		sets := selectedSets(y, rows[i]).Powersets()
		t := &pt{x: x, columns: columnsOf(x, all), params: f.params, pool: pool}
		fresh[i] = t.plant(sets, all)
		tasks = append(tasks, t.tasks(fresh[i])...)
		pool.total += len(sets.Sets) - 1
		f.learned += len(all)
	}
	if err := pool.run(ctx, f.Cols, 0, f.workers, tasks); err != nil {
		return err
	}
	for i, g := range parts {
		settled(fresh[i])
		*g = *fresh[i]
	}
	f.subtrees = len(parts)
	return nil
}
