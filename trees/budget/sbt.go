package budget

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// trainSBT grows the trees of SBT.
func (j *Job) trainSBT(ctx context.Context, rows []int32) (*Model, error) {
	n := j.trees()
	s := &sbt{x: j.X, rows: rows, params: j.Params, pool: newPool(n*len(rows), j.Progress)}
	trees, tasks := make([]sbtTree, n), make([]task, n)
	for t := range trees {
		trees[t], tasks[t] = s.plant(j.signs(t), 0, j.seed(t))
	}
	if err := s.pool.run(ctx, j.X.Cols, 0, j.Workers, tasks); err != nil {
		return nil, err
	}
	m := &Model{Kind: SBT, Cols: j.X.Cols, Labels: j.Classes, Voters: j.Params.Folds}
	if err := j.finish(ctx, m, trees); err != nil {
		return nil, err
	}
	return m, nil
}

// sbtTree is a tree, or a subtree to be relearned, with the rows that it is
// learned from and the class of every row of the matrix.
type sbtTree struct {
	root *grown
	rows []int32
	y    []int8
}

// sbt grows one or more trees. Nodes name rows by their positions in rows.
type sbt struct {
	x      *vector.CSR
	rows   []int32
	params Params
	pool   *pool
}

// plant returns a tree over all rows and the task that grows its root at the
// given depth.
func (s *sbt) plant(y []int8, depth int, seed uint64) (sbtTree, task) {
	root, all := &grown{}, positions(len(s.rows))
	first := sbtNode{g: root, train: all, test: all, y: y, depth: depth, seed: seed}
	return sbtTree{root, s.rows, y}, s.task(first)
}

func positions(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// finish prunes trees, lays them out, and counts for each the rows that reach its
// nodes and leaves by the stored decisions, since weights are rounded when they are
// stored.
func (j *Job) finish(ctx context.Context, m *Model, trees []sbtTree) error {
	roots := make([]*grown, len(trees))
	for t := range trees {
		if roots[t] = trees[t].root; !j.Params.NoPrune && j.Params.Folds > 1 {
			prune(roots[t])
		}
	}
	flatten(m, roots)
	index := NewIndex(m)
	clear(m.LeafRows)
	clear(m.LeafPositive)
	for t, tree := range trees {
		err := par.Items(ctx, batchOf(len(tree.rows), j.Workers), func() func(int) error {
			p := NewPredictor(index)
			return func(i int) error {
				row := tree.rows[i]
				leaf, _ := p.Leaf(j.X.Row(int(row)), t)
				atomic.AddUint32(&m.LeafRows[leaf], 1)
				if tree.y[row] > 0 {
					atomic.AddUint32(&m.LeafPositive[leaf], 1)
				}
				return nil
			}
		})
		if err != nil {
			return err
		}
	}
	for i := m.Nodes() - 1; i >= 0; i-- { // children have larger numbers
		m.NodeRows[i] = m.rowsAt(m.Left[i]) + m.rowsAt(m.Right[i])
	}
	return nil
}

// mix derives the seed of a child.
func mix(seed, child uint64) uint64 {
	return rand.NewPCG(seed, child).Uint64()
}

// sbtNode is a node to be grown.
type sbtNode struct {
	g *grown
	// train are the rows that reach the node by the votes of the nodes above, and
	// on which its classifiers are trained. test are those that reach it by the
	// decisions of classifiers that were not trained on them: pruning compares the
	// errors on these. Counted on the former, a subtree would gain merely because
	// the nodes above had learned by heart where its rows belong. Both ascend.
	train, test []int32
	y           []int8 // the class of all rows of the matrix
	depth       int
	seed        uint64
}

// child is the node on one side: 0 is left.
func (n *sbtNode) child(g *grown, by *sides, side int) sbtNode {
	return sbtNode{
		g: g, train: by.train[side], test: by.test[side], y: n.y,
		depth: n.depth + 1, seed: mix(n.seed, uint64(2-side)),
	}
}

// task grows a node.
func (s *sbt) task(n sbtNode) task {
	return func(ctx context.Context, w *worker) ([]task, error) {
		g := n.g
		s.count(&n)
		if n.depth == s.params.MaxDepth || g.rows < s.params.MinRows || g.minority() == 0 {
			s.pool.advance(len(n.train))
			return nil, nil
		}
		parted, err := s.part(ctx, w, &n)
		if err != nil {
			return nil, err
		}
		if len(parted.train[0]) == 0 || len(parted.train[1]) == 0 {
			s.pool.advance(len(n.train))
			return nil, nil
		}
		g.errors = 0
		for i, side := range parted.test {
			for _, at := range side {
				if (n.y[s.rows[at]] > 0) != (i == 0) {
					g.errors++
				}
			}
		}
		g.left, g.right = &grown{}, &grown{}
		return []task{s.task(n.child(g.right, &parted, 1)), s.task(n.child(g.left, &parted, 0))}, nil
	}
}

// count counts the rows of a node.
func (s *sbt) count(n *sbtNode) {
	g := n.g
	g.rows = len(n.train)
	for _, at := range n.train {
		if n.y[s.rows[at]] > 0 {
			g.positive++
		}
	}
	g.class = -1
	if 2*g.positive > g.rows {
		g.class = 1
	}
	for _, at := range n.test {
		if n.y[s.rows[at]] != g.class {
			g.wrong++
		}
	}
	g.errors = g.wrong
}

// minority is how many rows the majority's class has wrong.
func (g *grown) minority() int { return min(g.positive, g.rows-g.positive) }

// sides are the rows that go left and right.
type sides struct {
	train, test [2][]int32
}

func (s *sides) add(list *[2][]int32, at int32, left bool) {
	if left {
		list[0] = append(list[0], at)
	} else {
		list[1] = append(list[1], at)
	}
}

// part trains the classifiers of a node and divides its rows. Without training rows on
// one side the node must be a leaf.
func (s *sbt) part(ctx context.Context, w *worker, n *sbtNode) (sides, error) {
	var parted sides
	rows := make([]int32, len(n.train))
	for i, at := range n.train {
		rows[i] = s.rows[at]
	}
	p := newProblem(s.x, rows, func(i int) bool { return n.y[rows[i]] > 0 }, w.scratch)
	folds, err := p.embedded(ctx, s.params, n.seed)
	if err != nil {
		return parted, err
	}
	for i, at := range n.train {
		parted.add(&parted.train, at, p.vote(folds, func(f *fold) float64 { return f.marginOf(i) }))
	}
	if len(parted.train[0]) == 0 || len(parted.train[1]) == 0 {
		return parted, nil
	}
	n.g.take(p, folds)
	i := 0
	for _, at := range n.test {
		for i < len(n.train) && n.train[i] < at {
			i++
		}
		if i < len(n.train) && n.train[i] == at {
			parted.add(&parted.test, at, heldVote(folds, i))
			continue
		}
		row := s.x.Row(int(s.rows[at]))
		parted.add(&parted.test, at, p.vote(folds, func(f *fold) float64 { return p.strangerMargin(f, row) }))
	}
	return parted, nil
}

// embedded trains the classifiers of embedded cross-validation on the problem: V
// folds that share the features of each worst-case analysis, the v-th trained
// without the v-th part of the rows. Both classes are spread evenly over the
// parts. A single fold is trained on all rows.
func (p *problem) embedded(ctx context.Context, params Params, seed uint64) ([]*fold, error) {
	folds := make([]*fold, params.Folds)
	part := parts(p.sign, params.Folds, seed)
	for v := range folds {
		folds[v] = newFold(p, params.BAC, func(i int) bool { return len(folds) > 1 && int(part[i]) == v })
	}
	_, err := p.cut(ctx, folds, params.BAC)
	return folds, err
}

// parts deals the rows of each class to the folds in turn, in an order that
// depends on the seed alone.
func parts(y []float64, folds int, seed uint64) []uint8 {
	order := labels.Permutation(len(y), seed)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(y[a], y[b]) })
	part := make([]uint8, len(y))
	for i, r := range order {
		part[r] = uint8(i % folds)
	}
	return part
}

// marginOf is the margin that a fold gives to row i of the problem.
func (f *fold) marginOf(i int) float64 { return f.margin[i] + f.b }

// vote is the folds' majority, given the margin of each.
func (p *problem) vote(folds []*fold, margin func(*fold) float64) bool {
	yes, sum := 0, 0.0
	for _, f := range folds {
		m := margin(f)
		sum += m
		if m > 0 {
			yes++
		}
	}
	return voteLeft(yes, len(folds), sum)
}

// heldVote is the decision on row i by the fold trained without it; with a
// single fold, by that.
func heldVote(folds []*fold, i int) bool {
	for _, f := range folds {
		if len(folds) == 1 || f.cost[i] == 0 {
			return f.marginOf(i) > 0
		}
	}
	return false
}

// strangerMargin is the margin of a row that is not of the problem. O(entries
// of the row · log features).
func (p *problem) strangerMargin(f *fold, row vector.Sparse) float64 {
	sum := f.b
	for e, j := range row.Index {
		i, ok := slices.BinarySearchFunc(p.order, j, func(l int, j uint32) int {
			return int(p.features[l]) - int(j)
		})
		if ok {
			v := 1.0
			if row.Value != nil {
				v = float64(row.Value[e])
			}
			sum += f.weight[p.order[i]] * v
		}
	}
	return sum
}

// prune removes, from the bottom up, children that have at least as many
// cross-validation errors as the node alone (section 5.2). The errors of a
// subtree are those of its leaves: whole subtrees are compared, so that a node
// which sees nothing itself stays if what follows it does. What is left of the
// node is its decision, with a leaf for each answer, or a leaf of the
// majority's class where that has no more errors. It returns the errors of what
// is left.
func prune(root *grown) int {
	var order []*grown
	each([]*grown{root}, func(g *grown) { order = append(order, g) })
	errors := make(map[*grown]int, len(order))
	// Parents come first in order, so backwards children do.
	for _, g := range slices.Backward(order) {
		errors[g] = g.wrong
		if g.left == nil {
			continue
		}
		below := errors[g.left] + errors[g.right]
		switch {
		case g.wrong <= min(below, g.errors):
			g.leaf(g.class)
		case g.errors <= below:
			g.left.leaf(1)
			g.right.leaf(-1)
			errors[g] = g.errors
		default:
			errors[g] = below
		}
	}
	return errors[root]
}

// leaf turns a node into a leaf with the given answer.
func (g *grown) leaf(class int8) {
	*g = grown{rows: g.rows, positive: g.positive, class: class}
}
