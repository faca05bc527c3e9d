package forest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

const (
	orderSample = 64   // rows that determine a node's direction
	orderSteps  = 4    // steps of the power iteration
	orderTask   = 4096 // fewest rows for a goroutine of their own
)

// Order returns the numbers of all rows in an order that places similar rows close to
// each other: the order of the leaves of a tree. Every node of the tree splits at the
// median along its principal direction, found by power iteration on a sample, until at
// most leaf rows remain. Searches that read similar rows stored in this order touch
// fewer cache lines and pages, and profit from read-ahead.
//
// workers below 1 means all processors; the result does not depend on it. Cost:
// O(n·d·log(n/leaf)). Errors: ErrParams without rows or for leaf below 1, and
// the context's.
func Order(ctx context.Context, rows labels.Rows, leaf, workers int) ([]uint32, error) {
	if rows == nil || rows.Len() == 0 || rows.Dim() < 1 || leaf < 1 || int64(rows.Len()) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: an order needs rows, and at least 1 row per leaf", ErrParams)
	}
	n := rows.Len()
	o := &ordering{
		rows: rows, leaf: leaf, order: make([]uint32, n), keys: make([]uint64, n),
		free: make(chan struct{}, par.Workers(workers)-1),
	}
	for i := range o.order {
		o.order[i] = uint32(i)
	}
	o.split(ctx, 0, n)
	o.wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("forest: order: %w", err)
	}
	return o.order, nil
}

// ordering is one call of Order.
type ordering struct {
	rows  labels.Rows
	leaf  int
	order []uint32
	keys  []uint64
	free  chan struct{} // one slot for every additional goroutine
	wg    sync.WaitGroup
}

// split orders a range of positions.
func (o *ordering) split(ctx context.Context, lo, hi int) {
	for hi-lo > o.leaf && ctx.Err() == nil {
		w := o.direction(o.order[lo:hi])
		buf := make([]float32, o.rows.Dim())
		keys := o.keys[lo:hi]
		for i, row := range o.order[lo:hi] {
			// The row number breaks ties of equal projections.
			keys[i] = uint64(vector.Ascending(vector.Dot(w, o.rows.Row(int(row), buf))))<<32 | uint64(row)
		}
		mid := lo + (hi-lo)/2
		vector.SelectNth(keys, mid-lo)
		// The order on both sides depends only on the input of SelectNth, so the
		// result is deterministic.
		for i, k := range keys {
			o.order[lo+i] = uint32(k)
		}
		if hi-mid < orderTask {
			o.split(ctx, mid, hi)
		} else {
			select {
			case o.free <- struct{}{}:
				from, to := mid, hi
				o.wg.Go(func() {
					o.split(ctx, from, to)
					<-o.free
				})
			default:
				o.split(ctx, mid, hi)
			}
		}
		hi = mid
	}
}

// direction returns an approximate principal direction of a sample of rows.
func (o *ordering) direction(points []uint32) []float32 {
	sample := spread(nil, points, orderSample)
	d, m := o.rows.Dim(), len(sample)
	mean, x := make([]float32, d), make([]float32, m*d)
	for i, p := range sample {
		copy(x[i*d:(i+1)*d], o.rows.Row(int(p), x[i*d:(i+1)*d]))
		for j, v := range x[i*d : (i+1)*d] {
			mean[j] += v / float32(m)
		}
	}
	// Start at the sample row farthest from the mean: no important direction is
	// perpendicular to it.
	best, start := float32(-1), 0
	for i := range m {
		c := x[i*d : (i+1)*d]
		for j := range c {
			c[j] -= mean[j]
		}
		if s := vector.Dot(c, c); s > best {
			best, start = s, i
		}
	}
	w := slices.Clone(x[start*d : (start+1)*d])
	next := make([]float32, d)
	for range orderSteps {
		clear(next)
		for i := range m {
			c := x[i*d : (i+1)*d]
			s := vector.Dot(c, w)
			for j, v := range c {
				next[j] += s * v
			}
		}
		length := float32(math.Sqrt(float64(vector.Dot(next, next))))
		if !(length > 0) || math.IsInf(float64(length), 0) {
			break
		}
		for j, v := range next {
			w[j] = v / length
		}
	}
	return w
}
