package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
)

// atPart is a part of an annotation tree to be learned anew: the node's place,
// its rows, and what was decided, recorded and left out above, as for at.task.
type atPart struct {
	g            *grown
	rows         []int32
	set, dropped []uint32
}

// An annotation tree that leaves labels out as too rare has rows of several
// label sets in its leaves. It does not know how many rows have which labels, so
// that all rows are asked for theirs.

// followRare makes such a tree follow.
func (f *following) followRare(ctx context.Context) error {
	if f.roots[0].left == nil {
		return fmt.Errorf("%w: an annotation tree without decision", ErrInvalid)
	}
	err := f.changes(ctx, func(row, _ int) error {
		set, err := f.Rows.Set(row)
		for g := f.roots[0]; err == nil; {
			g.touched = true
			if g.left == nil {
				break
			}
			g.changed++
			if has(set, g.label) {
				g = g.left
			} else {
				g = g.right
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if f.lags(f.roots[0]) {
		f.anew = true
		return nil
	}
	f.labels = f.Labels
	f.read += len(f.Live)
	y, err := f.sets(f.Live)
	if err != nil {
		return err
	}
	parts, err := f.reviseRare(ctx, y)
	if err != nil || f.anew {
		return err
	}
	return f.learnRare(ctx, y, parts)
}

// visit is a node on the way of reviseRare.
type visit struct {
	at   **grown
	rows []int32 // places of the live rows that reach it
	// set has the labels decided or recorded above, former what it was before;
	// dropped those too rare above.
	set, former, dropped []uint32
}

// reviseRare makes one-sets, working sets and counts right for the rows y, and
// finds the parts to learn anew. Where the change touched nothing and nothing is
// different above, all is as it was.
func (f *following) reviseRare(ctx context.Context, y *labels.Matrix) ([]atPart, error) {
	t := &at{y: y, params: f.params}
	count := make([]uint32, y.Labels())
	var parts []atPart
	stack := []visit{{at: &f.roots[0], rows: positions(y.Rows())}}
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g := *v.at
		// Which labels were too rare above is not known of before.
		if !g.touched && f.params.MinPositive <= 1 && slices.Equal(v.set, v.former) {
			continue
		}
		if g.left != nil && f.lags(g) {
			parts = append(parts, atPart{g, v.rows, v.set, v.dropped})
			continue
		}
		fresh := &grown{}
		_, open, rare := t.divideLabels(fresh, v.rows, v.set, v.dropped, count)
		if g.left == nil {
			if open {
				parts = append(parts, atPart{g, v.rows, v.set, v.dropped})
				continue
			}
			g.set, g.rows = union(v.set, fresh.ones), len(v.rows)
			settled(g)
			continue
		}
		var left, right []int32
		for _, r := range v.rows {
			if has(y.Row(int(r)), g.label) {
				left = append(left, r)
			} else {
				right = append(right, r)
			}
		}
		former := union(v.former, g.ones)
		decided := insert(former, g.label)
		switch {
		case len(left) == 0:
			*v.at = g.right
			stack = append(stack, visit{v.at, v.rows, v.set, former, v.dropped})
			continue
		case len(right) == 0:
			*v.at = g.left
			stack = append(stack, visit{v.at, v.rows, v.set, decided, v.dropped})
			continue
		}
		g.rows, g.ones, g.working = len(v.rows), fresh.ones, fresh.working
		set := union(v.set, g.ones)
		stack = append(stack,
			visit{&g.right, right, set, former, rare},
			visit{&g.left, left, insert(set, g.label), decided, rare})
	}
	f.anew = f.roots[0].left == nil
	return parts, nil
}

// learnRare learns the parts anew.
func (f *following) learnRare(ctx context.Context, y *labels.Matrix, parts []atPart) error {
	total := 0
	for _, p := range parts {
		total += len(p.rows)
	}
	pool := newPool(total, f.progress)
	tasks := make([]task, len(parts))
	fresh := make([]*grown, len(parts))
	for i, p := range parts {
		x, err := f.features(ctx, f.numbers(p.rows))
		if err != nil {
			return err
		}
		all := positions(len(p.rows))
		t := &at{x: x, columns: columnsOf(x, all), y: selectedSets(y, p.rows), params: f.params, pool: pool}
		fresh[i] = &grown{}
		tasks[i] = t.task(fresh[i], all, p.set, p.dropped)
	}
	if err := pool.run(ctx, f.Cols, f.Labels, f.workers, tasks); err != nil {
		return err
	}
	for i, p := range parts {
		settled(fresh[i])
		*p.g = *fresh[i]
	}
	f.subtrees, f.learned = len(parts), total
	return nil
}
