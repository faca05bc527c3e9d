package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// trainPT grows a powerset tree.
func (j *Job) trainPT(ctx context.Context, rows []int32) (*Model, error) {
	x := j.X
	t := &pt{x: x, params: j.Params, pool: newPool(0, j.Progress)}
	root, tasks := t.plant(j.Sets.PowersetsOf(rows), rows)
	if root.left == nil {
		return nil, fmt.Errorf("%w: all rows have the same label set", ErrOneClass)
	}
	if err := t.pool.run(ctx, x.Cols, 0, j.Workers, tasks); err != nil {
		return nil, err
	}
	m := &Model{Kind: PT, Cols: x.Cols, Labels: j.Sets.Labels(), Voters: 1}
	flatten(m, []*grown{root})
	return m, nil
}

// plant returns the tree without its classifiers and the tasks that train these.
// sets are those of the chosen rows.
func (t *pt) plant(sets *labels.Powersets, chosen []int32) (*grown, []task) {
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
	t.pool.total += len(order) - 1
	return root, t.tasks(root)
}

// huffman joins the sets to a tree and lists them in the order of its leaves,
// left first. Sets are the most frequent first, and joints grow, so the rarest part
// is the last set that is left or the first joint that is; of equal ones the set.
func huffman(sets *labels.Powersets) (*grown, []int) {
	leaves := make([]*grown, len(sets.Sets))
	number := make(map[*grown]int, len(sets.Sets))
	for i, s := range sets.Sets {
		leaves[i] = &grown{rows: sets.Count[i], set: s}
		number[leaves[i]] = i
	}
	rising := slices.Clone(leaves)
	slices.SortStableFunc(rising, func(a, b *grown) int { return cmp.Compare(a.rows, b.rows) })
	var joints []*grown
	rarest := func() (g *grown) {
		if len(joints) == 0 || len(rising) > 0 && rising[0].rows <= joints[0].rows {
			g, rising = rising[0], rising[1:]
		} else {
			g, joints = joints[0], joints[1:]
		}
		return g
	}
	root := rarest()
	for len(rising)+len(joints) > 0 {
		b := rarest()
		joints = append(joints, &grown{left: root, right: b, rows: root.rows + b.rows, positive: root.rows})
		root = rarest()
	}
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
	x      *vector.CSR
	params Params
	rows   []int32 // in the order of the leaves
	pool   *pool
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
	slices.Reverse(all)
	return all
}

func (t *pt) task(g *grown, rows []int32) task {
	return func(ctx context.Context, w *worker) ([]task, error) {
		p := newProblem(t.x, rows, func(i int) bool { return i < g.left.rows }, w.scratch)
		err := g.train(ctx, p, t.params.BAC)
		t.pool.advance(1)
		return nil, err
	}
}

// train gives a node its one classifier.
func (g *grown) train(ctx context.Context, p *problem, params BACParams) error {
	folds := []*fold{newFold(p, params, nil)}
	if _, err := p.cut(ctx, folds, params); err != nil {
		return err
	}
	g.take(p, folds)
	return nil
}
