package forestindex

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
)

// split divides the training points for the tuner. The fields hold positions, ascending.
type split struct {
	learn []int // points to learn from
	hold  []int // points to query with
	// hidden is hold and all points that equal one of them. Otherwise a query with an equal
	// among the searched rows would start next to its answers, unlike later queries.
	hidden []int
}

// fewQueries is the minimum number of queries for the tuner. If groups of equal points are so
// large that the points held out by default yield fewer queries, they come from up to half of
// the points.
const fewQueries = 10

// largeGroup is the share of the points held out, as a divisor, above which a group of equal points is
// not held out: one query would stand for all of them.
const largeGroup = 50

// splitFor returns the split that the tuner of a build uses, made on first use.
func (t *training) splitFor(ctx context.Context, o options) (*split, error) {
	if t.parts != nil {
		return t.parts, nil
	}
	groups, err := t.equalPoints(ctx)
	if err != nil {
		return nil, err
	}
	t.parts = groups.split(o.Holdout, o.Seed)
	return t.parts, nil
}

// pointGroups groups points by equality: members[first[g]:first[g+1]] are the positions in
// group g, ascending, and of holds the group of every point.
type pointGroups struct {
	of      []uint32
	members []int
	first   []int
}

// size returns the number of points in a group.
func (g *pointGroups) size(group uint32) int { return g.first[group+1] - g.first[group] }

// equalPoints groups the points that are equal in the partition space. It compares hashes of 64
// bits: unequal points with equal hashes are very unlikely, and would only be held out
// together.
func (t *training) equalPoints(ctx context.Context) (*pointGroups, error) {
	n := t.points.Len()
	hashes := make([]uint64, n)
	err := par.Each(ctx, par.Work{N: n, Grain: 256, Workers: kind.WorkersOf(ctx)}, func(i int) error {
		hashes[i] = hashVector(t.points.Row(i, nil))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	g := &pointGroups{of: make([]uint32, n), members: make([]int, n), first: []int{0}}
	for i := range n {
		g.members[i] = i
	}
	slices.SortFunc(g.members, func(a, b int) int {
		return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(a, b))
	})
	for i, at := range g.members {
		if i > 0 && hashes[at] != hashes[g.members[i-1]] {
			g.first = append(g.first, i)
		}
		g.of[at] = uint32(len(g.first) - 1)
	}
	g.first = append(g.first, n)
	return g, nil
}

// hashVector returns a hash that is equal for equal vectors; the two zeros are equal.
func hashVector(x []float32) uint64 {
	h := uint64(len(x))
	for _, v := range x {
		if v == 0 {
			v = 0
		}
		h = (bits.RotateLeft64(h, 5) ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
	}
	return h ^ h>>32
}

// tenth is the share of the distinct points held out at most, as a divisor.
const tenth = 10

// split holds out groups of equal points by seed, at most count points and a tenth of the groups, with one
// query per group. If the groups are so large that this yields few queries, it holds out up to half of
// the points; if even half contains no complete group, it holds out single points.
func (g *pointGroups) split(count int, seed uint64) *split {
	n := len(g.of)
	// With more, few or no distinct points are left to search.
	queries := min(count, max(fewQueries, (len(g.first)-1)/tenth))
	perm := rand.New(rand.NewPCG(seed, 0x686f6c646f7574)).Perm(n)
	s := g.draw(perm, count, queries, max(1, count/largeGroup))
	if few := min(count, fewQueries); len(s.hold) < few {
		s = g.draw(perm, max(count, n/2), few, n)
	}
	if len(s.hold) == 0 {
		s.hold = slices.Clone(perm[:count])
		s.hidden = s.hold
	}
	slices.Sort(s.hold)
	slices.Sort(s.hidden)
	left := s.hidden
	for i := range n {
		if len(left) > 0 && left[0] == i {
			left = left[1:]
			continue
		}
		s.learn = append(s.learn, i)
	}
	return s
}

// draw takes groups of at most largest points in the order of perm until it has the given number of
// queries or no further group fits into the most points that may be hidden.
func (g *pointGroups) draw(perm []int, most, queries, largest int) *split {
	s := &split{}
	taken := map[uint32]bool{}
	for _, i := range perm {
		group := g.of[i]
		if len(s.hold) == queries || len(s.hidden) == most {
			break
		}
		if taken[group] || len(s.hidden)+g.size(group) > most || g.size(group) > largest {
			continue
		}
		taken[group] = true
		s.hold = append(s.hold, i)
		s.hidden = append(s.hidden, g.members[g.first[group]:g.first[group+1]]...)
	}
	return s
}
