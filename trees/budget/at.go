package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// TrainAT grows an annotation tree (algorithm 4) from the chosen rows, all
// when rows is nil. A node asks for the most frequent label of its working set
// (ties: the smallest), trained on all its rows; rows that have the label go
// left, by their true labels, not by the classifier's answer. Labels that all
// rows of the node have or none has need no question: they form its one-set
// and its zero-set (definitions 9 and 10), and what is left is the working set.
// Where that is empty, the leaf has the labels decided or recorded on its
// path. The leaves are then the label sets of the training rows, the nodes one
// fewer.
//
// With MinPositive above 1 rare labels are never asked: leaves may then hold
// rows of several sets and answer the labels they were asked for.
//
// Decisions on a path are as many as labels on a long right spine in the worst
// case; on average they are at least the entropy H of the leaves. Theorem 13
// also claims less than H + 1, which does not hold for all data: q labels of
// one row each take (q+1)/2 − 1/q decisions on average, while H = log₂ q.
//
// For workers, progress (in rows come to a leaf) and costs see TrainSBT; a row
// trains as many nodes as its leaf is deep.
//
// Errors: ErrParams, ErrInput, ErrNoLabels, ErrOneClass where all rows have the
// same set or no label is frequent enough, ErrConstant and the context's.
func TrainAT(ctx context.Context, x *vector.CSR, y *labels.Matrix, rows []int, params Params, workers int, progress func(done, total int)) (*Model, error) {
	params.Folds = 1
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	chosen, err := checkLabelled(x, y, rows)
	if err != nil {
		return nil, err
	}
	t := &at{x: x, columns: columnsOf(x, chosen), y: y, params: params, pool: newPool(len(chosen), progress)}
	root := &grown{}
	if err := t.pool.run(ctx, x.Cols, y.Labels(), workers, []task{t.task(root, chosen, nil, nil)}); err != nil {
		return nil, fmt.Errorf("budget: train AT: %w", err)
	}
	if root.left == nil {
		return nil, fmt.Errorf("%w: no label tells the rows apart", ErrOneClass)
	}
	m := &Model{Kind: AT, Cols: x.Cols, Labels: y.Labels(), Voters: 1, Threshold: params.Threshold, KeepTop: params.KeepTop}
	flatten(m, []*grown{root})
	return m, nil
}

// at grows an annotation tree.
type at struct {
	x, columns *vector.CSR
	y          *labels.Matrix
	params     Params
	pool       *pool
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
		own := make([]int8, len(rows))
		var left, right []int32
		for i, r := range rows {
			if _, ok := slices.BinarySearch(t.y.Row(int(r)), label); ok {
				own[i] = 1
				left = append(left, r)
			} else {
				own[i] = -1
				right = append(right, r)
			}
		}
		if err := g.train(ctx, t.x, t.columns, rows, own, t.params.BAC, w.scratch); err != nil {
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
// one-set, the working set, of which it returns the most frequent label, and
// those too rare to ask for, here or above. Labels that no row has, the
// zero-set, never appear. count is zero before and after.
func (t *at) divideLabels(g *grown, rows []int32, set, dropped, count []uint32) (label uint32, frequent bool, rare []uint32) {
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
