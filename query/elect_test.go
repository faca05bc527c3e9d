package query

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// elected runs a search and returns the rows it elected.
func elected(t testing.TB, v *View, q []float32, p Params) map[uint32]bool {
	t.Helper()
	p.K, p.NoWiden = 1, true
	s := NewSearcher()
	_, stats, err := s.Search(context.Background(), v, q, &p, nil)
	must(t, err)
	set := map[uint32]bool{}
	for _, id := range s.e.cands {
		set[id] = true
	}
	if len(set) != len(s.e.cands) || stats.Candidates != len(set) {
		t.Fatalf("%d candidates, %d different ones, Stats says %d", len(s.e.cands), len(set), stats.Candidates)
	}
	for i, x := range s.e.counters {
		if x != 0 {
			t.Fatalf("counter %d is %d after the election", i, x)
		}
	}
	return set
}

func sameSet(t *testing.T, what string, got map[uint32]bool, want map[uint32]float64) {
	t.Helper()
	for id := range got {
		if _, ok := want[id]; !ok {
			t.Fatalf("%s: row %d was elected, the equations say no", what, id)
		}
	}
	for id, p := range want {
		if !got[id] {
			t.Fatalf("%s: row %d with estimate %v was not elected", what, id, p)
		}
	}
}

// Candidate sets are those of equations 4, 5, 8 and 9 for every kind of
// forest. Leaves of 8 points and 8 trees make all proportions exact in binary,
// so thresholds that equal a proportion are decided as written: strictly.
func TestCandidateSetsFollowTheEquations(t *testing.T) {
	const n, depth, trees, labelsK = 512, 6, 8, 6
	m := gaussian(n, 10, 1)
	queries := gaussian(4, 10, 2)
	lab, err := labels.ExactNeighbors(context.Background(), m, nil, labelsK, 1, nil)
	must(t, err)
	for _, kind := range []forest.Kind{forest.RP, forest.KD, forest.KDChrono, forest.PCATree, forest.RF} {
		v := build(t, m, spec{
			metric: vector.L2, labelsK: labelsK, lists: lab,
			forest: forest.Params{Kind: kind, Trees: trees, Depth: depth, Natural: true, Members: true, Seed: 9},
		})
		for qi := range queries.n {
			q := queries.row(qi)
			s := structureOf(v.Forest, m, q)
			for _, use := range []int{trees, 2} {
				for _, tau := range []float64{0, 1.0 / 64, 0.03, 0.125, 0.25, 0.4, 1} {
					want := s.natural(lab, labelsK, use, tau)
					got := elected(t, v, q, Params{Trees: use, Tau: tau})
					sameSet(t, fmt.Sprintf("%s natural %g of %d", kind, tau, use), got, want)
				}
				sameSet(t, string(kind)+" natural-zero", elected(t, v, q, Params{Method: NaturalZero, Trees: use, Tau: 0.9}), s.natural(lab, labelsK, use, 0))
				for votes := 1; votes <= use; votes++ {
					sameSet(t, fmt.Sprintf("%s voting %d", kind, votes), elected(t, v, q, Params{Method: Voting, Trees: use, Votes: votes}), s.naive(use, votes))
				}
				sameSet(t, string(kind)+" lookup", elected(t, v, q, Params{Method: Lookup, Trees: use, Votes: 5}), s.naive(use, 1))
			}
		}
	}
}

// skewed draws whole-valued rows of d coordinates, half of which are 0 and most of
// the others 1, so that leaves differ in size and many rows are equal.
func skewed(n, d, levels int, seed uint64) *matrix {
	rng := rand.New(rand.NewPCG(seed, 9))
	m := &matrix{make([]float32, n*d), n, d}
	for i := range m.data {
		for m.data[i] < float32(levels-1) && rng.IntN(2) == 0 {
			m.data[i]++
		}
	}
	return m
}

// tied is a view of a forest over rows with many ties, which are its training points.
type tied struct {
	v        *View
	rows     *matrix
	lab      *labels.Neighbors
	smallest int // training points in a leaf
	largest  int
}

const tiedLabels = 7

func newTied(t *testing.T, kind forest.Kind, levels int) tied {
	t.Helper()
	const n, d = 1400, 6
	rows := skewed(n, d, levels, uint64(levels))
	lab, err := labels.ExactNeighbors(context.Background(), rows, nil, tiedLabels, 2, nil)
	must(t, err)
	// A small leaf of rf is rarer than one of a median split.
	v := build(t, rows, spec{
		metric: vector.L2, labelsK: tiedLabels, lists: lab,
		forest: forest.Params{Kind: kind, Trees: 8, Depth: 6, Natural: true, Members: true, Seed: 4},
	})
	c := tied{v: v, rows: rows, lab: lab, smallest: n}
	for leaf := range 1 << v.Forest.Depth {
		b := v.Forest.Leaf(0, leaf)
		c.smallest, c.largest = min(c.smallest, int(b.Points())), max(c.largest, int(b.Points()))
	}
	return c
}

var tiedKinds = []forest.Kind{forest.RP, forest.KD, forest.KDChrono, forest.PCATree, forest.RF}

// Where values tie, leaves differ in size.
// Proportions are over the points of each, and every estimate is a probability.
func TestCandidateSetsOfTiedRows(t *testing.T) {
	n := 6
	if testing.Short() {
		n = 1
	}
	taus := []float64{0.01, 0.02, 0.05, 1.0 / 16, 0.1, 0.125, 0.2, 0.3, 0.5, 1}
	for _, levels := range []int{3, 6} {
		for _, kind := range tiedKinds {
			c := newTied(t, kind, levels)
			what := fmt.Sprintf("%s, %d levels", kind, levels)
			if c.largest < 2*c.smallest {
				t.Errorf("%s: leaves of %d to %d points show nothing", what, c.smallest, c.largest)
			}
			queries := skewed(n, c.rows.d, levels, 77)
			for qi := range queries.n {
				q := queries.row(qi)
				s := structureOf(c.v.Forest, c.rows, q)
				for _, use := range []int{8, 3, 1} {
					for _, tau := range taus {
						p := Params{Trees: use, Tau: tau}
						sameSet(t, what, elected(t, c.v, q, p), s.natural(c.lab, tiedLabels, use, tau))
					}
				}
				checkEstimates(t, c.v, q, s.natural(c.lab, tiedLabels, 8, 0))
			}
		}
	}
}

// checkEstimates compares explanations with the estimates of equation 5.
func checkEstimates(t *testing.T, v *View, q []float32, eta map[uint32]float64) {
	t.Helper()
	s := NewSearcher()
	for row := range uint32(v.N) {
		if row%9 != 0 && eta[row] < 0.3 {
			continue
		}
		e, err := searchExplained(s, v, q, &Params{K: 1, Tau: 0.1, NoWiden: true}, row)
		must(t, err)
		if math.Abs(e.Estimate-eta[row]) > 1e-12 || e.Estimate > 1 || e.Elected != (eta[row] > 0.1+1e-12) {
			t.Fatalf("row %d: %+v, want the estimate %v", row, e, eta[row])
		}
		sum := 0.0
		for _, vote := range e.Votes {
			sum += float64(vote.Votes) / float64(vote.Points) / float64(v.Forest.Trees)
		}
		if math.Abs(sum-e.Estimate) > 1e-12 {
			t.Fatalf("row %d: votes %+v are %v, the estimate is %v", row, e.Votes, sum, e.Estimate)
		}
	}
}

// The leaves that priority search visits in a tree are one element of its
// partition (footnote 3).
func TestExtraLeavesArePooled(t *testing.T) {
	n := 5
	if testing.Short() {
		n = 1
	}
	for _, kind := range tiedKinds {
		c := newTied(t, kind, 6)
		f := c.v.Forest
		queries := skewed(n, c.rows.d, 6, 78)
		for qi := range queries.n {
			q := queries.row(qi)
			for _, extra := range []int{1, 5, 40} {
				s := structureOf(f, c.rows, q)
				for t := range s.query {
					s.query[t] = nil
				}
				var multi forest.MultiScratch
				for _, l := range f.RouteMulti(f.Coordinates(q, nil), 6, extra, &multi) {
					s.query[l.Tree] = append(s.query[l.Tree], l.Leaf)
				}
				what := fmt.Sprintf("%s, %d more leaves", kind, extra)
				for _, tau := range []float64{0, 0.02, 0.05, 0.1, 0.25} {
					p := Params{Trees: 6, Tau: tau, Extra: extra}
					sameSet(t, what, elected(t, c.v, q, p), s.natural(c.lab, tiedLabels, 6, tau))
				}
				p := Params{Method: Voting, Trees: 6, Votes: 3, Extra: extra}
				sameSet(t, what+", voting", elected(t, c.v, q, p), s.naive(6, 3))
			}
		}
	}
}

// Corpora of more than 65,536 rows have leaves of several segments.
func TestElectionAcrossBlocks(t *testing.T) {
	const n, labelsK = 70_000, 2
	rng := rand.New(rand.NewPCG(4, 4))
	m := gaussian(n, 2, 8)
	lab := &labels.Neighbors{N: n, K: labelsK, IDs: make([]uint32, n*labelsK)}
	for i := range n {
		a := rng.IntN(n)
		lab.IDs[2*i], lab.IDs[2*i+1] = uint32(a), uint32((a+1+rng.IntN(9))%n)
	}
	v := build(t, m, spec{
		metric: vector.L2, labelsK: labelsK, lists: lab,
		forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 10, Natural: true, Members: true},
	})
	q := []float32{0.1, -0.2}
	s := structureOf(v.Forest, m, q)
	for _, tau := range []float64{0, 0.02} {
		sameSet(t, "natural", elected(t, v, q, Params{Tau: tau}), s.natural(lab, labelsK, 2, tau))
	}
	got := elected(t, v, q, Params{Method: Voting, Votes: 2})
	sameSet(t, "voting", got, s.naive(2, 2))
	high := 0
	for id := range elected(t, v, q, Params{Method: Lookup}) {
		if id >= 1<<16 {
			high++
		}
	}
	if high == 0 {
		t.Fatal("no row of the second block was elected; the test shows nothing")
	}
}

// The integer threshold is equation 8 over sums of votes.
func TestNaturalThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tau := rapid.Float64Range(0, 1).Draw(t, "tau")
		trees := rapid.IntRange(1, 4096).Draw(t, "trees")
		unit := rapid.Uint64Range(1, mostUnit/uint64(trees)).Draw(t, "unit")
		if rapid.Bool().Draw(t, "equal") {
			tau = float64(rapid.Uint64Range(0, unit).Draw(t, "votes")) / float64(unit)
		}
		least := naturalThreshold(tau, uint64(trees)*unit)
		for votes := range uint32(300) {
			votes += least - min(least, 150)
			of := float64(uint64(trees) * unit)
			if exceeds := float64(votes) > (tau+tauSlack)*of; exceeds != (votes >= least) {
				t.Fatalf("%d votes: exceeds %v, threshold %d", votes, exceeds, least)
			}
		}
	})
}

// The common multiple is the least one, unless that is too large.
func TestCommonMultiple(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Uint64Range(0, 40), 1, 6).Draw(t, "sizes")
		most := rapid.Uint64Range(15, 4000).Draw(t, "most")
		divides := func(m uint64) bool {
			return !slices.ContainsFunc(sizes, func(n uint64) bool { return n > 0 && m%n != 0 })
		}
		want := uint64(1)
		for want < most && !divides(want) {
			want++
		}
		if got := commonMultiple(sizes, most); got != want {
			t.Fatalf("%d is the common multiple of %v up to %d, want %d", got, sizes, most, want)
		}
	})
}

// The best k are those a full sort finds, whatever the scores.
func TestSelectBest(t *testing.T) {
	var s selector
	score := rapid.OneOf(
		rapid.Float32Range(-1e6, 1e6),
		rapid.Map(rapid.IntRange(0, 5), func(i int) float32 { return float32(i) }),
		rapid.SampledFrom([]float32{0, 1e30, -1e30, 1e-38, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1))}),
	)
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(score, 1, 600).Draw(t, "scores")
		k := rapid.IntRange(0, len(scores)+2).Draw(t, "k")
		ids := make([]uint32, len(scores))
		for i := range ids {
			ids[i] = uint32(i)
		}
		moved, other := slices.Clone(scores), slices.Clone(scores)
		byClass := slices.Clone(s.best(slices.Clone(ids), other, k))
		best := selectBest(ids, moved, k)
		for i, id := range byClass {
			if other[i] != scores[id] {
				t.Fatalf("by classes: the score of row %d is %v, want %v", id, other[i], scores[id])
			}
		}
		for i, id := range best {
			if moved[i] != scores[id] {
				t.Fatalf("the score of row %d is %v, want %v", id, moved[i], scores[id])
			}
		}
		want := slices.Clone(scores)
		slices.Sort(want)
		want = want[:min(k, len(want))]
		if got := slices.Sorted(slices.Values(moved[:len(best)])); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", scores, got, want)
		}
		if got := slices.Sorted(slices.Values(other[:len(byClass)])); !slices.Equal(got, want) {
			t.Fatalf("%v by classes: %v, want %v", scores, got, want)
		}
	})
}

// Scores that are no numbers, as a damaged sketch may give, do no harm.
func TestSelectBestNaN(t *testing.T) {
	var s selector
	nan := float32(math.NaN())
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		n := 1 + rng.IntN(40)
		ids, scores := make([]uint32, n), make([]float32, n)
		for i := range ids {
			ids[i], scores[i] = uint32(i), rng.Float32()
			if rng.IntN(3) == 0 {
				scores[i] = nan
			}
		}
		k := rng.IntN(n + 1)
		if got := s.best(slices.Clone(ids), slices.Clone(scores), k); len(got) != k {
			t.Fatalf("%d of %d rows by classes, want %d", len(got), n, k)
		}
		if got := selectBest(ids, scores, k); len(got) != k {
			t.Fatalf("%d of %d rows, want %d", len(got), n, k)
		}
	}
}
