package budget

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/vector"
)

// sbtPart is a part of a tree to be learned anew: its place, and how TrainSBT
// would have come there.
type sbtPart struct {
	g     *grown
	tree  int
	depth int
	seed  uint64
	rows  []int32 // of the live ones, by place
}

// followSBT makes trees for two or more classes follow.
func (f *following) followSBT(ctx context.Context) error {
	f.labels = f.m.Labels
	before := make([]int8, len(f.leaves))
	for i, g := range f.leaves {
		before[i] = g.majority()
	}
	fresh, err := f.countSBT(ctx)
	if err != nil || f.anew {
		return err
	}
	for i, g := range f.leaves {
		if now := g.majority(); now != 0 && now != before[i] {
			g.class = now
		}
	}
	if f.anew = !f.classes(fresh); f.anew {
		return nil
	}
	var parts []*sbtPart
	at := map[int32]*sbtPart{} // by the reference that leads there
	for t, root := range f.roots {
		if f.lags(root) {
			f.anew = true
			return nil
		}
		seed := f.params.Seed
		if f.m.Labels > 2 {
			seed = mix(seed, uint64(t))
		}
		found := f.laggingSBT(t, seed)
		for ref, p := range found {
			at[ref] = p
		}
	}
	// In the order of the arrays, so that nothing depends on that of the map.
	for ref := range int32(len(f.nodes)) {
		if p := at[ref]; p != nil {
			parts = append(parts, p)
		}
	}
	for leaf := range int32(len(f.leaves)) {
		if p := at[^leaf]; p != nil {
			parts = append(parts, p)
		}
	}
	for c := f.m.Labels; c < f.m.Labels+len(fresh); c++ {
		root := &grown{}
		f.roots = append(f.roots, root)
		parts = append(parts, &sbtPart{g: root, tree: c, seed: mix(f.params.Seed, uint64(c)), rows: positions(len(f.Live))})
	}
	f.labels += len(fresh)
	if len(parts) == 0 {
		return nil
	}
	return f.learnSBT(ctx, parts, at)
}

// majority is the class that more rows of a leaf have, 0 where neither has.
func (g *grown) majority() int8 {
	switch {
	case 2*g.positive > g.rows:
		return 1
	case 2*g.positive < g.rows:
		return -1
	}
	return 0
}

// countSBT counts the changed rows on their paths through all trees. It returns
// how many rows each class has that is new.
func (f *following) countSBT(ctx context.Context) (fresh map[uint32]int, err error) {
	p := NewPredictor(NewIndex(f.m))
	fresh = map[uint32]int{}
	err = f.changes(ctx, func(row, by int) error {
		set, err := f.Rows.Set(row)
		if err != nil || f.anew {
			return err
		}
		if len(set) != 1 {
			f.anew = true
			return nil
		}
		class := set[0]
		if int(class) >= f.m.Labels {
			if f.m.Labels == 2 || by < 0 {
				f.anew = true
				return nil
			}
			fresh[class]++
		}
		x, err := f.Rows.Row(row)
		if err != nil {
			return err
		}
		p.load(x)
		for t, ref := range f.m.Roots {
			positive := int(class) == t
			if f.m.Labels == 2 {
				positive = class == 1
			}
			g := f.roots[t]
			for {
				g.changed++
				if g.rows += by; g.rows < 0 {
					return fmt.Errorf("%w: fewer than no rows at %d", ErrInvalid, ref)
				}
				if ref < 0 {
					break
				}
				if left, _ := p.decide(int(ref)); left {
					g, ref = g.left, f.m.Left[ref]
				} else {
					g, ref = g.right, f.m.Right[ref]
				}
			}
			if positive {
				g.positive += by
			}
			if g.positive < 0 || g.positive > g.rows {
				return fmt.Errorf("%w: %d of %d rows positive in a leaf", ErrInvalid, g.positive, g.rows)
			}
		}
		return nil
	})
	return fresh, err
}

// classes says whether all classes have rows, and none has all.
func (f *following) classes(fresh map[uint32]int) bool {
	for c := range f.Labels - f.m.Labels {
		if fresh[uint32(f.m.Labels+c)] == 0 {
			return false
		}
	}
	for _, root := range f.roots {
		positive, rows := 0, 0
		each([]*grown{root}, func(g *grown) {
			if g.left == nil {
				positive, rows = positive+g.positive, rows+g.rows
			}
		})
		if positive == 0 || positive == rows {
			return false
		}
	}
	return true
}

// laggingSBT finds the highest nodes and leaves of a tree that lag, by
// reference. A leaf that training would leave one, whatever its rows are, is
// settled at once.
func (f *following) laggingSBT(tree int, seed uint64) map[int32]*sbtPart {
	found := map[int32]*sbtPart{}
	type visit struct {
		ref   int32
		depth int
		seed  uint64
	}
	stack := []visit{{f.m.Roots[tree], 0, seed}}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g := f.at(v.ref)
		switch {
		case g.left != nil && !f.lags(g):
			stack = append(stack, visit{f.m.Left[v.ref], v.depth + 1, mix(v.seed, 2)}, visit{f.m.Right[v.ref], v.depth + 1, mix(v.seed, 1)})
		case !f.lags(g):
		case g.left == nil && (v.depth >= f.params.MaxDepth || g.rows < f.params.MinRows || g.minority() == 0):
			if now := g.majority(); now != 0 {
				g.class = now
			}
			settled(g)
		default:
			found[v.ref] = &sbtPart{g: g, tree: tree, depth: v.depth, seed: v.seed}
		}
	}
	return found
}

// at is the node or leaf of a reference.
func (f *following) at(ref int32) *grown { return pick(f.nodes, f.leaves, ref) }

// learnSBT learns the parts anew, at has those of the model's trees by
// reference. All rows are routed through these trees, to find those of each.
// Pruning judges by the rows that reach the part, as at a root: which of them
// the classifiers above had been trained on is not known any more.
func (f *following) learnSBT(ctx context.Context, parts []*sbtPart, at map[int32]*sbtPart) error {
	x, err := f.features(ctx, f.Live)
	if err != nil {
		return err
	}
	y, err := f.sets(f.Live)
	if err != nil {
		return err
	}
	class := make([]uint32, len(f.Live))
	for i, row := range f.Live {
		set := y.Row(i)
		if len(set) != 1 {
			return fmt.Errorf("%w: row %d has %d classes", ErrInput, row, len(set))
		}
		class[i] = set[0]
	}
	sign := map[int][]int8{}
	for _, p := range parts {
		if sign[p.tree] != nil {
			continue
		}
		positive := uint32(p.tree)
		if f.labels == 2 {
			positive = 1
		}
		sign[p.tree] = signsOf(class, positive)
		if p.tree < f.m.Labels {
			if err := f.route(ctx, x, p.tree, at); err != nil {
				return err
			}
		}
	}
	total := 0
	for _, p := range parts {
		total += len(p.rows)
	}
	pool := newPool(total, f.progress)
	tasks, fresh := make([]task, len(parts)), make([]*grown, len(parts))
	rows, signs := make([][]int32, len(parts)), make([][]int8, len(parts))
	for i, p := range parts {
		s := &sbt{x: x, rows: p.rows, params: f.params, pool: pool}
		all := positions(len(p.rows))
		fresh[i], rows[i], signs[i] = &grown{}, p.rows, sign[p.tree]
		tasks[i] = s.task(fresh[i], all, all, signs[i], p.depth, p.seed)
	}
	if err := pool.run(ctx, f.Cols, 0, f.workers, tasks); err != nil {
		return err
	}
	m := &Model{Kind: SBT, Cols: f.Cols, Labels: 2, Voters: f.m.Voters}
	if err := f.params.finish(ctx, m, fresh, x, rows, signs, f.workers); err != nil {
		return err
	}
	_, _, roots := m.thaw(nil)
	for i, p := range parts {
		*p.g = *roots[i]
	}
	f.subtrees, f.learned = len(parts), total
	return nil
}

// route finds the rows that reach each part of a tree.
func (f *following) route(ctx context.Context, x *vector.CSR, tree int, at map[int32]*sbtPart) error {
	reached := make([]*sbtPart, x.Rows())
	index := NewIndex(f.m)
	err := forRows(ctx, x.Rows(), f.workers, func() func(int) {
		p := NewPredictor(index)
		return func(i int) {
			p.load(x.Row(i))
			for ref := f.m.Roots[tree]; ; {
				if reached[i] = at[ref]; reached[i] != nil || ref < 0 {
					return
				}
				if left, _ := p.decide(int(ref)); left {
					ref = f.m.Left[ref]
				} else {
					ref = f.m.Right[ref]
				}
			}
		}
	})
	for i, p := range reached {
		if p != nil {
			p.rows = append(p.rows, int32(i))
		}
	}
	return err
}
