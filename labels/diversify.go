package labels

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// slack is the square of the factor of the rule by which lists are pruned.
const slack = 1.1 * 1.1

// edge is a row and its squared distance from the row whose list it is in.
type edge struct {
	id uint32
	d  float32
}

func nearestFirst(a, b edge) int {
	return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.id, b.id))
}

// Candidates are the rows that neighbor lists are made of: K nearest rows for each row in Near, and those
// in Far. The row itself and repetitions are ignored.
type Candidates struct {
	Near []uint32
	K    int
	Far  *FarRows // nil for none
}

// check refuses candidates that are not those of n rows.
func (c *Candidates) check(n int) error {
	if c.K < 1 || len(c.Near) != n*c.K || c.Far != nil && len(c.Far.at) != n {
		return fmt.Errorf("%w: %d entries in lists of %d for %d rows", ErrShape, len(c.Near), c.K, n)
	}
	for i, id := range c.Near {
		if int64(id) >= int64(n) {
			return fmt.Errorf("%w: row %d on the list of row %d, of %d rows", ErrShape, id, i/c.K, n)
		}
	}
	return nil
}

// of returns the candidates of a row in two lists.
func (c *Candidates) of(i int) [2][]uint32 {
	return [2][]uint32{c.Near[i*c.K : (i+1)*c.K], c.Far.Of(i)}
}

// Diversify turns lists of candidates into the neighbor lists of a navigable graph. The candidates
// of a row are the rows that it lists and those that list it. A candidate is kept unless its
// distance to the row is more than 1.1 times that to a nearer candidate that was kept: the relative
// neighbourhood rule with the slack of Vamana (Subramanya and others 2019), which spends no place on
// a second row in the same direction; of equal rows it keeps one. Then each row is added to the
// lists of the rows it keeps, and the rule prunes lists that become too long. The result holds m
// rows for each row, nearest first; unused places hold the row itself.
//
// A graph of nearest rows alone has many edges into a few hub rows and none out of their
// neighborhood: on word vectors a walk along it stops at recall 0.78, along the pruned graph it
// exceeds 0.95. Without the slack, lists are half as long, and a walk compares more rows for the same
// recall: 300 instead of 165 at recall 0.975 where clusters share no directions, 265 instead of 195 at
// 0.994 on Fashion-MNIST.
//
// The answer does not depend on workers; all processors when below 1. Cost: O(n·(K+m)·m)
// distances. Errors: ErrShape, and the context's error.
func Diversify(ctx context.Context, rows Rows, c Candidates, m, workers int) ([]uint32, error) {
	n := rows.Len()
	if m < 1 {
		return nil, fmt.Errorf("%w: lists of %d rows", ErrShape, m)
	}
	if err := c.check(n); err != nil {
		return nil, err
	}
	g := &thinning{rows: rows, n: n, m: m, workers: workers}
	first, err := g.pass(ctx, c)
	if err != nil {
		return nil, err
	}
	return g.pass(ctx, Candidates{Near: first, K: m})
}

// thinning is the state of one call of Diversify.
type thinning struct {
	rows    Rows
	n, m    int
	workers int
}

// blockRows is the number of rows whose lists are pruned before those of the next ones, which bounds the
// memory for the rows that list them.
const blockRows = 1 << 20

// pass prunes the candidates of each row: those that it lists and those that list it.
func (g *thinning) pass(ctx context.Context, c Candidates) ([]uint32, error) {
	out := make([]uint32, g.n*g.m)
	for lo := 0; lo < g.n; lo += blockRows {
		if err := g.block(ctx, c, lo, min(lo+blockRows, g.n), out); err != nil {
			return nil, fmt.Errorf("labels: diversify: %w", err)
		}
	}
	return out, nil
}

// block prunes the candidates of the rows [lo, hi).
func (g *thinning) block(ctx context.Context, c Candidates, lo, hi int, out []uint32) error {
	ptr, by := listing(c, g.n, lo, hi)
	work := par.Work{N: hi - lo, Grain: 256, Workers: g.workers}
	return par.Items(ctx, work, func() func(j int) error {
		p := newPruner(g.rows)
		return func(j int) error {
			i, lists := lo+j, c.of(lo+j)
			p.prune(uint32(i), [3][]uint32{lists[0], lists[1], by[ptr[j]:ptr[j+1]]}, out[i*g.m:(i+1)*g.m])
			return nil
		}
	})
}

// listing returns the rows that list the rows [lo, hi): those of row lo+j are by[ptr[j]:ptr[j+1]].
func listing(c Candidates, n, lo, hi int) (ptr, by []uint32) {
	each := func(f func(j, i uint32)) {
		for i := range n {
			for _, list := range c.of(i) {
				for _, id := range list {
					if j := id - uint32(lo); j < uint32(hi-lo) {
						f(j, uint32(i))
					}
				}
			}
		}
	}
	ptr = make([]uint32, hi-lo+1)
	each(func(j, _ uint32) { ptr[j+1]++ })
	for j := range hi - lo {
		ptr[j+1] += ptr[j]
	}
	by = make([]uint32, ptr[hi-lo])
	next := slices.Clone(ptr[:hi-lo])
	each(func(j, i uint32) {
		by[next[j]] = i
		next[j]++
	})
	return ptr, by
}

// pruner is the scratch memory of one goroutine.
type pruner struct {
	rows  Rows
	a, b  []float32
	edges []edge
	kept  []edge
}

func newPruner(rows Rows) pruner {
	return pruner{rows: rows, a: make([]float32, rows.Dim()), b: make([]float32, rows.Dim())}
}

// distance returns the squared distance of two rows.
func (p *pruner) distance(i, j uint32) float32 {
	return vector.L2Squared(p.rows.Row(int(i), p.a), p.rows.Row(int(j), p.b))
}

// prune fills out with the rows of the lists that the rule keeps.
func (p *pruner) prune(i uint32, lists [3][]uint32, out []uint32) {
	p.edges = p.edges[:0]
	for _, list := range lists {
		for _, id := range list {
			if id != i {
				p.edges = append(p.edges, edge{id: id})
			}
		}
	}
	slices.SortFunc(p.edges, func(a, b edge) int { return cmp.Compare(a.id, b.id) })
	p.edges = slices.Compact(p.edges)
	for j := range p.edges {
		e := &p.edges[j]
		e.d = p.distance(i, e.id)
	}
	slices.SortFunc(p.edges, nearestFirst)
	p.kept = p.kept[:0]
	for _, e := range p.edges {
		if len(p.kept) == len(out) {
			break
		}
		covered := false
		for j := 0; j < len(p.kept) && !covered; j++ {
			d := p.distance(e.id, p.kept[j].id)
			covered = slack*d < e.d || d == 0
		}
		if !covered {
			p.kept = append(p.kept, e)
		}
	}
	for j := range out {
		out[j] = i
		if j < len(p.kept) {
			out[j] = p.kept[j].id
		}
	}
}
