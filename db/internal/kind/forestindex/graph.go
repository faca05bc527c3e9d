package forestindex

import (
	"context"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
)

// connected is the share of rows that paths along the lists of nearest rows must reach. Below it, the
// lists get rows that lead out of a neighborhood: these cost a search 5 % more comparisons where rows
// are connected without them.
const connected = 0.999

// graph makes the neighbor lists of all rows, k rows each, and returns the share of rows to which paths
// along them lead. Deleted rows list themselves.
func (t *training) graph(ctx context.Context, k int) (lists []uint32, reached float64, err error) {
	c, workers := candidates(t.localHops(), k), kind.WorkersOf(ctx)
	if lists, err = labels.Diversify(ctx, t.corpus, c, k, workers); err != nil {
		return nil, 0, fail.Wrapf(err, "neighbor lists")
	}
	if reached, err = labels.Reached(lists, k); err == nil && reached < connected {
		lists = nil
		if c.Far, err = labels.Far(ctx, t.corpus, c.Near, c.K, workers); err == nil {
			lists, err = labels.Diversify(ctx, t.corpus, c, k, workers)
		}
		reached = 0 // unknown for the new lists
	}
	if err == nil && reached < 1 {
		reached, err = labels.Reach(ctx, t.corpus, lists, k, c)
	}
	if err != nil {
		return nil, 0, fail.Wrapf(err, "neighbor lists")
	}
	return t.ofAllRows(lists, k), reached, nil
}

// candidates returns the nearest k rows of each row.
func candidates(near *labels.Neighbors, k int) labels.Candidates {
	if near.K == k+1 {
		return labels.Candidates{Near: near.IDs, K: near.K} // the first is the row itself
	}
	return labels.Candidates{Near: nearestOthers(near, k), K: k}
}

// nearestOthers returns the nearest k rows of each row, without the row itself. A row with too few
// neighbors repeats the last one.
func nearestOthers(near *labels.Neighbors, k int) []uint32 {
	out := make([]uint32, near.N*k)
	for i := range near.N {
		list, filled := out[i*k:(i+1)*k], 0
		for _, id := range near.Row(i) {
			if id != uint32(i) && filled < k {
				list[filled] = id
				filled++
			}
		}
		for ; filled < k; filled++ {
			list[filled] = uint32(i)
			if filled > 0 {
				list[filled] = list[filled-1]
			}
		}
	}
	return out
}

// ofAllRows converts lists of positions of live rows to lists of row numbers, with lists for deleted
// rows.
func (t *training) ofAllRows(lists []uint32, k int) []uint32 {
	if t.corpus.ids == nil {
		return lists
	}
	out := make([]uint32, t.total()*k)
	for row := range t.total() {
		for j := range k {
			out[row*k+j] = uint32(row)
		}
	}
	for i, row := range t.corpus.ids {
		for j, at := range lists[i*k : (i+1)*k] {
			out[int(row)*k+j] = t.corpus.ids[at]
		}
	}
	return out
}
