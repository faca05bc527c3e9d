package budget

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/anndb/anndb/vector"
)

// TrainSBT grows a supervised budgeted tree (algorithm 2) for the classes y
// (±1, one for each row of x) from the chosen rows, all when rows is nil. At
// each node the folds of embedded cross-validation (equation 11) choose one
// feature set together and vote; rows voted positive go left. A node whose
// rows are of one class, too few, too deep or all on one side becomes a leaf
// of the majority's class. Then, from the bottom up, children go that have more
// cross-validation errors than the node itself.
//
// Nodes are grown by workers goroutines, all processors if that is less than
// 1; the tree is the same for any number. progress, which may be nil, is told
// how many of the rows have come to a leaf. Each node costs what TrainBAC does,
// times the folds.
//
// Errors: ErrParams, ErrInput, ErrOneClass, ErrConstant and the context's.
func TrainSBT(ctx context.Context, x *vector.CSR, y []int8, rows []int, params Params, workers int, progress func(done, total int)) (*Model, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	chosen, err := checkBinary(x, y, rows)
	if err != nil {
		return nil, err
	}
	s := &sbt{x: x, rows: chosen, params: params, pool: newPool(len(chosen), progress)}
	root := &grown{}
	all := positions(len(chosen))
	first := s.task(root, all, all, y, 0, params.Seed)
	if err := s.pool.run(ctx, x.Cols, 0, workers, []task{first}); err != nil {
		return nil, fmt.Errorf("budget: train SBT: %w", err)
	}
	m := &Model{Kind: SBT, Cols: x.Cols, Labels: 2, Voters: params.Folds}
	if err := params.finish(ctx, m, []*grown{root}, x, [][]int32{chosen}, [][]int8{y}, workers); err != nil {
		return nil, err
	}
	return m, nil
}

// TrainMulticlass grows one SBT for each of n classes against the rest. class
// has that of each row of x. The trees share one injection table. See TrainSBT.
//
// Errors: as of TrainSBT; ErrInput unless there are at least 3 classes, each
// with a row.
func TrainMulticlass(ctx context.Context, x *vector.CSR, class []uint32, n int, rows []int, params Params, workers int, progress func(done, total int)) (*Model, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	if n < 3 {
		return nil, fmt.Errorf("%w: %d classes; one against the rest needs 3", ErrInput, n)
	}
	if err := checkMatrix(x); err != nil {
		return nil, err
	}
	if len(class) != x.Rows() {
		return nil, fmt.Errorf("%w: %d classes for %d rows", ErrInput, len(class), x.Rows())
	}
	chosen, err := checkRows(x.Rows(), rows)
	if err != nil {
		return nil, err
	}
	count := make([]int, n)
	for _, r := range chosen {
		if int(class[r]) >= n {
			return nil, fmt.Errorf("%w: class %d of %d in row %d", ErrInput, class[r], n, r)
		}
		count[class[r]]++
	}
	for c, rows := range count {
		if rows == len(chosen) {
			return nil, ErrOneClass
		}
		if rows == 0 {
			return nil, fmt.Errorf("%w: class %d has no row", ErrInput, c)
		}
	}
	if constant(x, chosen) {
		return nil, ErrConstant
	}
	s := &sbt{x: x, rows: chosen, params: params, pool: newPool(n*len(chosen), progress)}
	all := positions(len(chosen))
	roots := make([]*grown, n)
	tasks := make([]task, n)
	signs := make([][]int8, n)
	for c := range roots {
		roots[c], signs[c] = &grown{}, signsOf(class, uint32(c))
		tasks[c] = s.task(roots[c], all, all, signs[c], 0, mix(params.Seed, uint64(c)))
	}
	if err := s.pool.run(ctx, x.Cols, 0, workers, tasks); err != nil {
		return nil, fmt.Errorf("budget: train SBT: %w", err)
	}
	m := &Model{Kind: SBT, Cols: x.Cols, Labels: n, Voters: params.Folds}
	if err := params.finish(ctx, m, roots, x, slices.Repeat([][]int32{chosen}, n), signs, workers); err != nil {
		return nil, err
	}
	return m, nil
}

// signsOf is ±1 for one class against the rest.
func signsOf(class []uint32, c uint32) []int8 {
	y := make([]int8, len(class))
	for i, k := range class {
		y[i] = -1
		if k == c {
			y[i] = 1
		}
	}
	return y
}

// sbt grows one or more trees. Nodes name rows by their positions in rows.
type sbt struct {
	x      *vector.CSR
	rows   []int32
	params Params
	pool   *pool
}

func positions(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// finish prunes trees, lays them out, and counts for each the rows that come to
// its nodes and leaves by the decisions as they are stored: their weights are
// rounded, and a row must be counted out again where it was counted in. Tree t
// was learned from the rows[t] of x, of the classes y[t].
func (p Params) finish(ctx context.Context, m *Model, roots []*grown, x *vector.CSR, rows [][]int32, y [][]int8, workers int) error {
	if !p.NoPrune && p.Folds > 1 {
		for _, r := range roots {
			prune(r)
		}
	}
	flatten(m, roots)
	index := NewIndex(m)
	clear(m.LeafRows)
	clear(m.LeafPositive)
	for t := range roots {
		err := forRows(ctx, len(rows[t]), workers, func() func(int) {
			p := NewPredictor(index)
			return func(i int) {
				row := rows[t][i]
				leaf, _ := p.Leaf(x.Row(int(row)), t)
				atomic.AddUint32(&m.LeafRows[leaf], 1)
				if y[t][row] > 0 {
					atomic.AddUint32(&m.LeafPositive[leaf], 1)
				}
			}
		})
		if err != nil {
			return fmt.Errorf("budget: train SBT: %w", err)
		}
	}
	for i := m.Nodes() - 1; i >= 0; i-- { // children stand behind
		m.NodeRows[i] = m.rowsAt(m.Left[i]) + m.rowsAt(m.Right[i])
	}
	return nil
}

// mix derives the seed of a child.
func mix(seed, child uint64) uint64 {
	return rand.NewPCG(seed, child).Uint64()
}

// task grows the node g. train has the rows that come to it by the votes of
// the nodes above, and on which its classifiers are trained. test has those
// that come to it by the decisions of classifiers that were not trained on
// them: on them the errors are counted that pruning compares. Counted on the
// former, a subtree would gain merely by having been trained on rows that the
// nodes above had sorted by heart. Both ascend. y is the class of all rows of
// the matrix.
func (s *sbt) task(g *grown, train, test []int32, y []int8, depth int, seed uint64) task {
	return func(ctx context.Context, w *worker) ([]task, error) {
		s.count(g, train, test, y)
		if depth == s.params.MaxDepth || g.rows < s.params.MinRows || g.minority() == 0 {
			s.pool.advance(len(train))
			return nil, nil
		}
		parted, found, err := s.part(ctx, w, g, train, test, y, seed)
		if err != nil {
			return nil, err
		}
		if found != nil {
			return s.expand(nil, g, found, train, test, y, depth, seed), nil
		}
		if len(parted.train[0]) == 0 || len(parted.train[1]) == 0 {
			s.pool.advance(len(train))
			return nil, nil
		}
		g.errors = 0
		for i, side := range parted.test {
			for _, at := range side {
				if (y[s.rows[at]] > 0) != (i == 0) {
					g.errors++
				}
			}
		}
		g.left, g.right = &grown{}, &grown{}
		return []task{
			s.task(g.right, parted.train[1], parted.test[1], y, depth+1, mix(seed, 1)),
			s.task(g.left, parted.train[0], parted.test[0], y, depth+1, mix(seed, 2)),
		}, nil
	}
}

// count fills in what the rows of a node are.
func (s *sbt) count(g *grown, train, test []int32, y []int8) {
	g.rows = len(train)
	for _, at := range train {
		if y[s.rows[at]] > 0 {
			g.positive++
		}
	}
	g.class = -1
	if 2*g.positive > g.rows {
		g.class = 1
	}
	for _, at := range test {
		if y[s.rows[at]] != g.class {
			g.wrong++
		}
	}
	g.errors = g.wrong
}

// expand grows the node g, whose rows are counted, as the splits say, and
// appends the tasks of the nodes behind them.
func (s *sbt) expand(tasks []task, g *grown, by *split, train, test []int32, y []int8, depth int, seed uint64) []task {
	by.apply(g, s.params.Folds)
	var parted sides
	for _, at := range train {
		parted.add(&parted.train, at, by.goesLeft(s.x, s.rows[at]))
	}
	for _, at := range test {
		parted.add(&parted.test, at, by.goesLeft(s.x, s.rows[at]))
	}
	g.left, g.right = &grown{}, &grown{}
	for i, child := range []*grown{g.right, g.left} {
		learn, judge := parted.train[1-i], parted.test[1-i]
		further := by.right
		if i == 1 {
			further = by.left
		}
		if further == nil || depth+1 == s.params.MaxDepth {
			tasks = append(tasks, s.task(child, learn, judge, y, depth+1, mix(seed, uint64(i+1))))
			continue
		}
		s.count(child, learn, judge, y)
		tasks = s.expand(tasks, child, further, learn, judge, y, depth+1, mix(seed, uint64(i+1)))
	}
	return tasks
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

// part trains the node's classifiers and divides its rows, or finds splits by
// looking ahead. No training rows on one side mean that the node must be a
// leaf.
func (s *sbt) part(ctx context.Context, w *worker, g *grown, train, test []int32, y []int8, seed uint64) (sides, *split, error) {
	var parted sides
	rows, own := make([]int32, len(train)), make([]int8, len(train))
	for i, at := range train {
		rows[i] = s.rows[at]
		own[i] = y[rows[i]]
	}
	p, folds, err := embedded(ctx, s.x, rows, own, s.params, seed, w.scratch)
	if err != nil {
		return parted, nil, err
	}
	if !s.params.NoLookAhead && s.params.Folds > 1 && enough(heldErrors(p, folds), g.minority()) > 0 {
		if found, err := s.lookAhead(ctx, p, folds, seed); err != nil || found != nil {
			return parted, found, err
		}
	}
	for i, at := range train {
		parted.add(&parted.train, at, p.vote(folds, func(f *fold) float64 { return f.marginOf(p, i) }))
	}
	if len(parted.train[0]) == 0 || len(parted.train[1]) == 0 {
		return parted, nil, nil
	}
	g.take(p, folds)
	i := 0
	for _, at := range test {
		for i < len(train) && train[i] < at {
			i++
		}
		if i < len(train) && train[i] == at {
			parted.add(&parted.test, at, heldVote(p, folds, i))
			continue
		}
		row := s.x.Row(int(s.rows[at]))
		parted.add(&parted.test, at, p.vote(folds, func(f *fold) float64 { return p.strangerMargin(f, row) }))
	}
	return parted, nil, nil
}

// embedded trains the classifiers of embedded cross-validation on the rows: V
// folds that share the features of each worst-case analysis, the v-th trained
// without the v-th part of the rows. Both classes are spread evenly over the
// parts. With one fold, all rows train it.
func embedded(ctx context.Context, x *vector.CSR, rows []int32, y []int8, params Params, seed uint64, s *scratch) (*problem, []*fold, error) {
	p := newProblem(x, rows, y, s)
	folds := make([]*fold, params.Folds)
	part := parts(y, params.Folds, seed)
	for v := range folds {
		var held []bool
		if len(folds) > 1 {
			held = make([]bool, len(rows))
			for i := range held {
				held[i] = int(part[i]) == v
			}
		}
		folds[v] = newFold(p, params.BAC, held)
	}
	_, err := p.cut(ctx, folds, params.BAC)
	return p, folds, err
}

// parts deals the rows of each class to the folds in turn, in an order that
// depends on the seed alone.
func parts(y []int8, folds int, seed uint64) []uint8 {
	order := make([]int, len(y))
	for i := range order {
		order[i] = i
	}
	rng := rand.NewPCG(seed, 0)
	for i := len(order) - 1; i > 0; i-- {
		j, _ := bits.Mul64(rng.Uint64(), uint64(i)+1)
		order[i], order[j] = order[j], order[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(y[a]) - int(y[b]) })
	part := make([]uint8, len(y))
	for i, r := range order {
		part[r] = uint8(i % folds)
	}
	return part
}

// marginOf is the margin that a fold gives to row i of the problem.
func (f *fold) marginOf(p *problem, i int) float64 {
	if c := p.compact[i]; c >= 0 {
		return f.margin[c] + f.b
	}
	return f.b
}

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
func heldVote(p *problem, folds []*fold, i int) bool {
	for _, f := range folds {
		if f.held == nil || f.held[i] {
			return f.marginOf(p, i) > 0
		}
	}
	return false
}

// heldErrors is the cross-validation error: rows that the fold trained without
// them has wrong.
func heldErrors(p *problem, folds []*fold) int {
	wrong := 0
	for i, y := range p.y {
		if heldVote(p, folds, i) != (y > 0) {
			wrong++
		}
	}
	return wrong
}

// strangerMargin is the margin of a row that is not of the problem. O(entries
// of the row · log features).
func (p *problem) strangerMargin(f *fold, row vector.Sparse) float64 {
	sum := f.b
	for e, j := range row.Index {
		i, ok := slices.BinarySearchFunc(p.order, j, func(l int, j uint32) int { return int(p.features[l]) - int(j) })
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
		case !g.split && g.errors <= below:
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
