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
	if err != nil {
		t.Fatal(err)
	}
	set := map[uint32]bool{}
	for _, id := range s.e.cands {
		set[id] = true
	}
	if len(set) != len(s.e.cands) || stats.Candidates != len(set) {
		t.Fatalf("%d candidates, %d different ones, Stats says %d", len(s.e.cands), len(set), stats.Candidates)
	}
	for i, x := range s.e.votes {
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
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []forest.Kind{forest.RP, forest.KD, forest.KDChrono, forest.PCATree, forest.RF} {
		v := build(t, m, spec{
			metric: vector.L2, labelsK: labelsK, lists: lab,
			forest: forest.Params{Kind: kind, Trees: trees, Depth: depth, Natural: true, Members: true, Seed: 9},
		})
		if kind != forest.RF && v.Forest.Unit != n>>depth {
			t.Fatalf("%s: unit %v, want %d", kind, v.Forest.Unit, n>>depth)
		}
		for qi := range queries.n {
			q := queries.row(qi)
			s := structureOf(v.Forest, m, q)
			for _, use := range []int{trees, 2} {
				for _, tau := range []float64{0, 1.0 / 64, 0.03, 0.125, 0.25, 0.4, 1} {
					want := s.natural(lab, labelsK, use, tau, 0)
					got := elected(t, v, q, Params{Trees: use, Tau: tau})
					if kind == forest.RF && tau > 0 {
						// Leaves of different sizes store proportions in steps
						// of 1/255: what lies that close may go either way.
						for id, p := range s.natural(lab, labelsK, use, 0, 0) {
							if math.Abs(p-tau) <= 1.0/255 {
								delete(want, id)
								delete(got, id)
							}
						}
					}
					sameSet(t, fmt.Sprintf("%s natural %g of %d", kind, tau, use), got, want)
				}
				sameSet(t, string(kind)+" natural-zero", elected(t, v, q, Params{Method: NaturalZero, Trees: use, Tau: 0.9}), s.natural(lab, labelsK, use, 0, 0))
				for votes := 1; votes <= use; votes++ {
					sameSet(t, fmt.Sprintf("%s voting %d", kind, votes), elected(t, v, q, Params{Method: Voting, Trees: use, Votes: votes}), s.naive(use, votes))
				}
				sameSet(t, string(kind)+" lookup", elected(t, v, q, Params{Method: Lookup, Trees: use, Votes: 5}), s.naive(use, 1))
			}
		}
	}
}

// More leaves count as more partitions: the threshold rises with them.
func TestExtraLeavesCountAsPartitions(t *testing.T) {
	f := small()
	for qi := range 10 {
		q := f.queries.row(qi)
		const tau = 0.1
		var multi forest.MultiScratch
		rotated := make([]float32, f.v.Rotation.R)
		f.v.Rotation.Apply(q, rotated)
		sums := map[uint32]float64{}
		leaves := f.v.Forest.RouteMulti(rotated[:f.v.Forest.Dim], 8, 6, &multi)
		if len(leaves) != 14 {
			t.Fatalf("%d leaves", len(leaves))
		}
		for _, l := range leaves {
			b := f.v.Forest.Leaf(int(l.Tree), int(l.Leaf))
			for hi, low, w, ok := b.Next(); ok; hi, low, w, ok = b.Next() {
				for i := range low {
					sums[hi<<16|uint32(low[i])] += float64(w[i])
				}
			}
		}
		for id, sum := range sums {
			if !(sum > tau*14*float64(f.v.Forest.Unit)) {
				delete(sums, id)
			}
		}
		sameSet(t, "extra", elected(t, f.v, q, Params{Tau: tau, Extra: 6}), sums)
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
	unit := float64(v.Forest.Unit)
	for _, tau := range []float64{0, 0.02} {
		sameSet(t, "natural", elected(t, v, q, Params{Tau: tau}), s.natural(lab, labelsK, 2, tau, unit))
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
		leaves := rapid.IntRange(1, maxNaturalLeaves).Draw(t, "leaves")
		unit := rapid.Float32Range(1, 255).Draw(t, "unit")
		least := naturalThreshold(tau, leaves, unit)
		for votes := range uint32(300) {
			votes += least - min(least, 150)
			if exceeds := float64(votes) > tau*float64(leaves)*float64(unit); exceeds != (votes >= least) {
				t.Fatalf("%d votes: exceeds %v, threshold %d", votes, exceeds, least)
			}
		}
	})
}

// The best k are those a full sort finds, whatever the scores.
func TestSelectBest(t *testing.T) {
	score := rapid.OneOf(
		rapid.Float32Range(-1e6, 1e6),
		rapid.Map(rapid.IntRange(0, 5), func(i int) float32 { return float32(i) }),
		rapid.SampledFrom([]float32{0, 1e30, -1e30, 1e-38, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1))}),
	)
	var s selector
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(score, 1, 600).Draw(t, "scores")
		k := rapid.IntRange(0, len(scores)+2).Draw(t, "k")
		for name, best := range map[string]func([]uint32, []float32, int) []uint32{"classes": s.best, "quickselect": selectBest} {
			ids := make([]uint32, len(scores))
			for i := range ids {
				ids[i] = uint32(i)
			}
			var got []float32
			for _, id := range best(ids, slices.Clone(scores), k) {
				got = append(got, scores[id])
			}
			want := slices.Clone(scores)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want[:min(k, len(want))]) {
				t.Fatalf("%s of %v: %v, want %v", name, scores, got, want[:min(k, len(want))])
			}
		}
	})
}

// Scores that are no numbers, as a damaged sketch may give, do no harm.
func TestSelectBestNaN(t *testing.T) {
	nan := float32(math.NaN())
	rng := rand.New(rand.NewPCG(1, 1))
	var s selector
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
			t.Fatalf("%d of %d rows, want %d", len(got), n, k)
		}
		if got := selectBest(ids, scores, k); len(got) != k {
			t.Fatalf("%d of %d rows, want %d", len(got), n, k)
		}
	}
}
