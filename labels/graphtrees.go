package labels

import (
	"context"
	"math/rand/v2"

	"github.com/anndb/anndb/vector"
)

// partition holds the rows in the order of a tree's leaves; leaf i ends at ends[i].
type partition struct {
	order []uint32
	ends  []int
}

func (t *partition) leaf(i int) []uint32 {
	lo := 0
	if i > 0 {
		lo = t.ends[i-1]
	}
	return t.order[lo:t.ends[i]]
}

// A split draws one of the coordinates of highest variance in a sample of the node, as the k-d
// trees of package forest do.
const (
	splitSample  = 64
	splitChoices = 5
)

// grow builds k-d trees over the reduced coordinates. Medians are by value, then by row, so
// that equal rows are divided, too, and every leaf is more than half full.
func (g *graph) grow(ctx context.Context, count int) []partition {
	trees := make([]partition, count)
	g.each(ctx, len(trees), 1, func(_ *scratch, t, _ int) {
		b := &splitter{
			m: g.reduced, leaf: g.leaf, rng: rand.New(rand.NewPCG(g.o.Seed, uint64(t))),
			order: make([]uint32, g.n), keys: make([]uint64, g.n),
			sum: make([]float64, g.reduced.d), square: make([]float64, g.reduced.d),
		}
		for i := range b.order {
			b.order[i] = uint32(i)
		}
		b.split(ctx, 0, g.n)
		trees[t] = partition{b.order, b.ends}
	})
	return trees
}

// splitter grows one tree.
type splitter struct {
	m           *matrix
	leaf        int
	rng         *rand.Rand
	order       []uint32
	keys        []uint64
	ends        []int
	sum, square []float64
}

func (b *splitter) split(ctx context.Context, lo, hi int) {
	if hi-lo <= b.leaf || ctx.Err() != nil {
		b.ends = append(b.ends, hi)
		return
	}
	coordinate := b.choose(lo, hi)
	keys := b.keys[lo:hi]
	for i, row := range b.order[lo:hi] {
		keys[i] = uint64(vector.Ascending(b.m.row(int(row))[coordinate]))<<32 | uint64(row)
	}
	mid := (hi - lo) / 2
	vector.SelectNth(keys, mid)
	for i, k := range keys {
		b.order[lo+i] = uint32(k)
	}
	b.split(ctx, lo, lo+mid)
	b.split(ctx, lo+mid, hi)
}

// choose draws a coordinate.
func (b *splitter) choose(lo, hi int) int {
	clear(b.sum)
	clear(b.square)
	m := min(splitSample, hi-lo)
	for s := range m {
		for j, v := range b.m.row(int(b.order[lo+s*(hi-lo)/m])) {
			b.sum[j] += float64(v)
			b.square[j] += float64(v) * float64(v)
		}
	}
	var top [splitChoices]int
	n := 0
	for j, square := range b.square {
		b.square[j] = square - b.sum[j]*b.sum[j]/float64(m)
		at := n
		for at > 0 && b.square[j] > b.square[top[at-1]] {
			at--
		}
		if at < splitChoices {
			n = min(n+1, splitChoices)
			copy(top[at+1:n], top[at:n-1])
			top[at] = j
		}
	}
	return top[b.rng.IntN(n)]
}
