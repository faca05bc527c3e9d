package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// trainAT grows an annotation tree.
func (j *Job) trainAT(ctx context.Context, rows []int32) (*Model, error) {
	x, p := j.X, j.Params
	t := &at{x: x, y: j.Sets, params: p, pool: newPool(len(rows), j.Progress)}
	root := &grown{}
	first := []task{t.task(root, rows, nil, nil)}
	if err := t.pool.run(ctx, x.Cols, t.y.Labels(), j.Workers, first); err != nil {
		return nil, err
	}
	if root.left == nil {
		return nil, fmt.Errorf("%w: no label distinguishes the rows", ErrOneClass)
	}
	m := &Model{
		Kind: AT, Cols: x.Cols, Labels: t.y.Labels(), Voters: 1, Threshold: p.Threshold, KeepTop: p.KeepTop,
	}
	flatten(m, []*grown{root})
	return m, nil
}

// at grows an annotation tree.
type at struct {
	x      *vector.CSR
	y      *labels.Matrix
	params Params
	pool   *pool
}

// task grows the node g over the rows. set has the labels decided or recorded
// above as present, dropped those that were too rare there; both ascend.
func (t *at) task(g *grown, rows []int32, set, dropped []uint32) task {
	return func(ctx context.Context, w *worker) ([]task, error) {
		g.rows = len(rows)
		label, frequent, rare := t.divideLabels(g, rows, set, dropped, w.count)
		set := union(set, g.ones)
		if !frequent {
			g.set = set
			t.pool.advance(len(rows))
			return nil, nil
		}
		g.label = label
		var left, right []int32
		p := newProblem(t.x, rows, func(i int) bool {
			_, positive := slices.BinarySearch(t.y.Row(int(rows[i])), label)
			if positive {
				left = append(left, rows[i])
			} else {
				right = append(right, rows[i])
			}
			return positive
		}, w.scratch)
		if err := g.train(ctx, p, t.params.BAC); err != nil {
			return nil, err
		}
		g.left, g.right = &grown{}, &grown{}
		// The rows with the label come first: progress then grows all the time,
		// and not only at the end of the long right spine.
		return []task{
			t.task(g.right, right, set, rare),
			t.task(g.left, left, union(set, []uint32{label}), rare),
		}, nil
	}
}

// divideLabels counts the labels of the rows and divides them into the
// one-set, the working set, and those too rare for a decision, here or above.
// It returns the most frequent label of the working set. Labels that no row
// has, the zero-set, never appear. count is zero before and after.
func (t *at) divideLabels(
	g *grown, rows []int32, set, dropped, count []uint32,
) (label uint32, frequent bool, rare []uint32) {
	var present []uint32
	for _, r := range rows {
		for _, l := range t.y.Row(int(r)) {
			if count[l] == 0 {
				present = append(present, l)
			}
			count[l]++
		}
	}
	slices.Sort(present)
	most := uint32(0)
	for _, l := range present {
		n := count[l]
		count[l] = 0
		if _, ok := slices.BinarySearch(dropped, l); ok {
			rare = append(rare, l)
			continue
		}
		if int(n) == len(rows) {
			if _, ok := slices.BinarySearch(set, l); !ok {
				g.ones = append(g.ones, l)
			}
			continue
		}
		if int(n) < t.params.MinPositive {
			rare = append(rare, l)
			continue
		}
		g.working++
		if n > most {
			label, most = l, n
		}
	}
	return label, g.working > 0, rare
}

// union is the ascending union of two ascending lists without common elements.
func union(a, b []uint32) []uint32 {
	if len(b) == 0 {
		return a
	}
	u := slices.Concat(a, b)
	slices.Sort(u)
	return u
}
