package query

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// The references are the paper's equations, read off as they stand.

// structure is the structure function of every tree: the leaf each training
// point falls into and the leaves of the query, one or several.
type structure struct {
	points [][]uint32 // by point, by tree
	query  [][]uint32 // by tree
}

func structureOf(f *forest.Forest, train *matrix, q []float32) structure {
	route := func(x []float32) []uint32 {
		leaves := make([]uint32, f.Trees)
		f.Route(f.Coordinates(x, nil), leaves)
		return leaves
	}
	var s structure
	for i := range train.n {
		s.points = append(s.points, route(train.row(i)))
	}
	for _, leaf := range route(q) {
		s.query = append(s.query, []uint32{leaf})
	}
	return s
}

// inElement lists the points in the query's element of a tree's partition: the
// union of its leaves there (footnote 3).
func (s structure) inElement(tree int) (in []int) {
	for i, p := range s.points {
		if slices.Contains(s.query[tree], p[tree]) {
			in = append(in, i)
		}
	}
	return in
}

// natural is equations 4, 5 and 8, in fractions. An estimate that is equal to tau
// but for the rounding of tau does not exceed it.
func (s structure) natural(lab *labels.Neighbors, labelsK, trees int, tau float64) map[uint32]float64 {
	sums := map[uint32]*big.Rat{}
	for t := range trees {
		points := s.inElement(t)
		votes := map[uint32]int64{}
		for _, i := range points {
			for _, j := range lab.Row(i)[:labelsK] {
				votes[j]++
			}
		}
		for j, v := range votes {
			if sums[j] == nil {
				sums[j] = new(big.Rat)
			}
			sums[j].Add(sums[j], big.NewRat(v, int64(len(points)*trees)))
		}
	}
	eta := map[uint32]float64{}
	for j, sum := range sums {
		if p, _ := sum.Float64(); p > tau+1e-12 {
			eta[j] = p
		}
	}
	return eta
}

// naive is equation 9: the share of trees in which a corpus row lies in the
// query's element; rows in at least votes of them are elected.
func (s structure) naive(trees, votes int) map[uint32]float64 {
	eta := map[uint32]float64{}
	for t := range trees {
		for _, j := range s.inElement(t) {
			eta[uint32(j)] += 1 / float64(trees)
		}
	}
	for j, p := range eta {
		if math.Round(p*float64(trees)) < float64(votes) {
			delete(eta, j)
		}
	}
	return eta
}

// gaussian draws rows without ties, so that every median split halves a node.
func gaussian(n, d int, seed uint64) *matrix {
	rng := rand.New(rand.NewPCG(seed, 3))
	m := &matrix{make([]float32, n*d), n, d}
	for i := range m.data {
		m.data[i] = float32(rng.NormFloat64())
	}
	return m
}

// exactly is brute force: every allowed row by distance, then by number.
func exactly(m *matrix, metric vector.Metric, q []float32, k int, allowed func(row uint32) bool) []uint32 {
	type scored struct {
		id uint32
		d  float64
	}
	var all []scored
	for i := range m.n {
		if allowed != nil && !allowed(uint32(i)) {
			continue
		}
		var l2, dot, nx, nq float64
		for j, x := range m.row(i) {
			a, b := float64(x), float64(q[j])
			l2, dot, nx, nq = l2+(a-b)*(a-b), dot+a*b, nx+a*a, nq+b*b
		}
		d := l2
		switch metric {
		case vector.Cosine:
			d = 1 - dot/math.Sqrt(nx*nq)
		case vector.InnerProduct:
			d = -dot
		}
		all = append(all, scored{uint32(i), d})
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.id, b.id)) })
	var ids []uint32
	for _, a := range all[:min(k, len(all))] {
		ids = append(ids, a.id)
	}
	return ids
}

func idsOf(found []vector.Neighbor) []uint32 {
	var ids []uint32
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	return ids
}

// Views with every part, built once for the tests that only read them.
var (
	small  = sync.OnceValue(func() *fixture { return newFixture(vector.L2, true) })
	cosine = sync.OnceValue(func() *fixture { return newFixture(vector.Cosine, false) })
	inner  = sync.OnceValue(func() *fixture { return newFixture(vector.InnerProduct, true) })
)

// fixtures are one of each metric.
func fixtures() []*fixture { return []*fixture{small(), cosine(), inner()} }

type fixture struct {
	all     *matrix // corpus rows
	queries *matrix
	v       *View
}

// newFixture has 1,900 covered and 100 fresh rows, 8 trees, sketches and label
// lists, rows in chunks and a tail.
func newFixture(metric vector.Metric, bytes bool) *fixture {
	every := clustered(2060, 24, 5)
	f := &fixture{
		all:     &matrix{every.data[:2000*24], 2000, 24},
		queries: &matrix{every.data[2000*24:], 60, 24},
	}
	f.v = build(panicking{}, f.all, spec{
		metric: metric, labelsK: 12, rotate: 12, sketch: 64, hops: 8, bytes: bytes, shift: 8, fresh: 100,
		forest: forest.Params{Kind: forest.KD, Trees: 8, Depth: 6, Natural: true, Members: true, Seed: 3},
	})
	return f
}

// panicking stands in for a test where several share a fixture.
type panicking struct{ testing.TB }

func (panicking) Helper()          {}
func (panicking) Fatal(all ...any) { panic(all) }

// with is a copy of the view with something changed.
func (f *fixture) with(change func(v *View)) *View {
	v := *f.v
	change(&v)
	return &v
}
