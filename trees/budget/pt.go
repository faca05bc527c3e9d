package budget

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// TrainPT grows a powerset tree (algorithm 3): every label set that the chosen
// rows have, all rows when rows is nil, is a leaf; the two nodes of fewest rows
// are joined again and again, as Huffman codes are made, and a classifier at
// each joint tells the rows of the rarer (left) from those of the other. Ties
// go to the node made first, leaves in the order of labels.Powersets. A
// prediction takes H to H + 1 decisions on average over the training rows, with
// H the entropy of their label sets (theorem 12), if it goes where they
// belong.
//
// For workers, progress (in nodes) and costs see TrainSBT; a row trains as many
// nodes as its leaf is deep.
//
// Errors: ErrParams, ErrInput, ErrNoLabels, ErrOneClass where all rows have the
// same set, ErrConstant and the context's.
func TrainPT(ctx context.Context, x *vector.CSR, y *labels.Matrix, rows []int, params Params, workers int, progress func(done, total int)) (*Model, error) {
	params.Folds = 1
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	chosen, err := checkLabelled(x, y, rows)
	if err != nil {
		return nil, err
	}
	list := make([]int, len(chosen))
	for i, r := range chosen {
		list[i] = int(r)
	}
	sets := y.Select(list).Powersets()
	if len(sets.Sets) == 1 {
		return nil, fmt.Errorf("%w: all rows have the same label set", ErrOneClass)
	}
	t := &pt{x: x, columns: columnsOf(x, chosen), params: params, pool: newPool(len(sets.Sets)-1, progress)}
	root := t.plant(sets, chosen)
	if err := t.pool.run(ctx, x.Cols, 0, workers, t.tasks(root)); err != nil {
		return nil, fmt.Errorf("budget: train PT: %w", err)
	}
	m := &Model{Kind: PT, Cols: x.Cols, Labels: y.Labels(), Voters: 1}
	flatten(m, []*grown{root})
	return m, nil
}

// plant makes the tree without its classifiers. sets are those of the chosen
// rows.
func (t *pt) plant(sets *labels.Powersets, chosen []int32) *grown {
	root, order := huffman(sets)
	starts := make([]int, len(order)+1)
	for i, s := range order {
		starts[i+1] = starts[i] + sets.Count[s]
	}
	// Rows in the order of the leaves: those below a node are neighbours.
	place := make([]int, len(order))
	for i, s := range order {
		place[s] = starts[i]
	}
	sorted := make([]int32, len(chosen))
	for i, r := range chosen {
		s := sets.Of[i]
		sorted[place[s]] = r
		place[s]++
	}
	t.rows = sorted
	return root
}

// checkLabelled checks what a multi-label learner is given.
func checkLabelled(x *vector.CSR, y *labels.Matrix, rows []int) ([]int32, error) {
	if err := checkMatrix(x); err != nil {
		return nil, err
	}
	if y == nil || y.Rows() != x.Rows() {
		n := 0
		if y != nil {
			n = y.Rows()
		}
		return nil, fmt.Errorf("%w: %d label sets for %d rows", ErrInput, n, x.Rows())
	}
	chosen, err := checkRows(x.Rows(), rows)
	if err != nil {
		return nil, err
	}
	any := false
	for _, r := range chosen {
		any = any || len(y.Row(int(r))) > 0
	}
	if !any {
		return nil, ErrNoLabels
	}
	if constant(x, chosen) {
		return nil, ErrConstant
	}
	return chosen, nil
}

// joint is a node in Huffman's queue.
type joint struct {
	g     *grown
	order int
}

type queue []joint

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].g.rows, q[j].g.rows), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(v any)   { *q = append(*q, v.(joint)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	*q = (*q)[:last]
	return v
}

// huffman joins the sets to a tree and lists them in the order of its leaves,
// left first.
func huffman(sets *labels.Powersets) (*grown, []int) {
	q := make(queue, len(sets.Sets))
	number := make(map[*grown]int, len(sets.Sets))
	for i, s := range sets.Sets {
		q[i] = joint{&grown{rows: sets.Count[i], set: s}, i}
		number[q[i].g] = i
	}
	heap.Init(&q)
	for made := len(q); len(q) > 1; made++ {
		a, b := heap.Pop(&q).(joint), heap.Pop(&q).(joint)
		heap.Push(&q, joint{&grown{left: a.g, right: b.g, rows: a.g.rows + b.g.rows, positive: a.g.rows}, made})
	}
	root := q[0].g
	order := make([]int, 0, len(sets.Sets))
	stack := []*grown{root}
	for len(stack) > 0 {
		g := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if g.left == nil {
			order = append(order, number[g])
			continue
		}
		stack = append(stack, g.right, g.left)
	}
	return root, order
}

// pt trains the nodes of a powerset tree.
type pt struct {
	x, columns *vector.CSR
	params     Params
	rows       []int32 // in the order of the leaves
	pool       *pool
}

// columnsOf is the matrix by columns, for problems over the chosen rows; nil
// where a row was chosen twice, which columns cannot tell, and where the matrix
// has so few entries that most columns would be empty.
func columnsOf(x *vector.CSR, chosen []int32) *vector.CSR {
	if len(x.Index) < x.Cols {
		return nil
	}
	seen := make([]bool, x.Rows())
	for _, r := range chosen {
		if seen[r] {
			return nil
		}
		seen[r] = true
	}
	return x.Transpose()
}

// tasks has one task for each node below g, the largest on top of the stack.
func (t *pt) tasks(root *grown) []task {
	type span struct {
		g     *grown
		start int
	}
	var all []task
	level := []span{{root, 0}}
	for len(level) > 0 {
		var next []span
		for _, s := range level {
			if s.g.left == nil {
				continue
			}
			all = append(all, t.task(s.g, t.rows[s.start:s.start+s.g.rows]))
			next = append(next, span{s.g.left, s.start}, span{s.g.right, s.start + s.g.left.rows})
		}
		level = next
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

func (t *pt) task(g *grown, rows []int32) task {
	return func(ctx context.Context, w *worker) ([]task, error) {
		y := make([]int8, len(rows))
		for i := range y {
			y[i] = -1
			if i < g.left.rows {
				y[i] = 1
			}
		}
		err := g.train(ctx, t.x, t.columns, rows, y, t.params.BAC, w.scratch)
		t.pool.advance(1)
		return nil, err
	}
}

// train gives a node its one classifier.
func (g *grown) train(ctx context.Context, x, columns *vector.CSR, rows []int32, y []int8, params BACParams, s *scratch) error {
	p := newProblem(x, rows, y, s)
	p.columns = columns
	folds := []*fold{newFold(p, params, nil)}
	if _, err := p.cut(ctx, folds, params); err != nil {
		return err
	}
	g.take(p, folds)
	return nil
}
