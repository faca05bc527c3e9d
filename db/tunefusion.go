package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/fusion"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/internal/par"
)

const (
	leastPairs  = 20
	folds       = 5 // of the pairs, on each of which the weight that is chosen on the others is measured
	weightSteps = 100
	countedRank = 10
	sureErrors  = 1.645 // standard errors above which chance leads in one of 20 cases
	equalSums   = 1e-9
)

// TuneFusion chooses the weight of the vector in searches by a vector and a text or features, and stores it
// with the collection (Schema.Weight): queries[i] has both parts, and a row with the key keys[i] belongs to
// it. Each is searched for once, as Search does with o, apart from K, Workers and what ranks the hits. If
// fewer than 20 pairs are given, nothing changes; if the best weight is not better than rank.DefaultWeight
// by more than 1.645 standard errors, it is the latter.
func (c Collection) TuneFusion(
	ctx context.Context, queries []Query, keys [][]byte, o *SearchOptions, run *Run,
) (t rank.Tuning, err error) {
	d, err := c.writer()
	if err != nil {
		return t, err
	}
	if err := d.manager().Writable(ctx); err != nil {
		return t, err
	}
	if len(queries) != len(keys) || len(keys) == 0 {
		return t, fmt.Errorf("%w: %d queries and %d keys to tune the fusion by: each query needs the key "+
			"of a row that belongs to it", fail.Option, len(queries), len(keys))
	}
	var own SearchOptions
	if o != nil {
		own = *o
	}
	own.K, own.Rank = countedRank, rank.Options{Depth: own.Rank.Depth}
	pairs := make([]pairRanks, len(keys))
	stored := 0.0
	ctx = run.in(ctx)
	err = c.read(ctx, func(st *state.Collection) error {
		if stored = st.Entry.Weight; !st.Entry.Both() {
			return fmt.Errorf("%w: a fusion is of two parts, and the rows of %q have one", fail.Kind, c.name)
		}
		passing, err := passingRows(ctx, st, own.Where)
		if err != nil {
			return err
		}
		report := kind.NewTimer(ctx).Report
		work := par.Work{N: len(pairs), Grain: 8, Workers: kind.WorkersOf(ctx),
			Progress: func(done, total int) { report("pairs", done, total) }}
		return par.Each(ctx, work, func(i int) (err error) {
			a := &rowAsk{q: queries[i], k: own.K, passing: passing}
			pairs[i], err = ranksOfPair(ctx, st, a, &own, keys[i])
			return atQuery(i, err)
		})
	})
	if err != nil {
		return t, err
	}
	if t = choose(pairs); len(pairs) < leastPairs {
		t.Weight = cmp.Or(stored, rank.DefaultWeight)
		return t, nil
	}
	return t, d.manager().Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		entry, err := cat.Find(c.name)
		if err == nil {
			entry.Weight = t.Weight
		}
		return nil, err
	})
}

// pairRanks are the reciprocal ranks of the row of a pair, those of weights by their number of steps.
type pairRanks struct {
	found               bool
	text, vector, ranks float64
	weights             [weightSteps]float64
}

// ranksOfPair searches for the row with the key, which belongs to the query of a.
func ranksOfPair(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, key []byte,
) (out pairRanks, err error) {
	if err := a.prepare(ctx, st, o); err != nil {
		return out, err
	}
	if !a.both() {
		return out, fmt.Errorf("%w: it has one part, a fusion is of a vector and a text or features",
			fail.Option)
	}
	row, exists, err := st.FindUnexpired(key)
	if err == nil && !exists {
		err = txn.NotFound(st.Entry.Name, key)
	}
	if err != nil {
		return out, err
	}
	s := st.Gen.File.Searches.Take()
	all, _, err := byParts(ctx, st, a, o, s, a.depth(o))
	st.Gen.File.Searches.Give(s)
	at := slices.IndexFunc(all, func(x candidate) bool { return x.row == row })
	if err != nil || at < 0 {
		return out, err
	}
	of := func(f fusion.By) float64 {
		for i := range all {
			all[i].score = f.Score(&all[i].Row)
		}
		place := 1
		for i := range all {
			if order(all[i], all[at]) < 0 {
				place++
			}
		}
		return topRank(place)
	}
	p := all[at].Places
	out.found, out.text, out.vector = true, topRank(p.TextRank), topRank(p.VectorRank)
	out.ranks = of(fusion.By{Reciprocal: true})
	for i := 1; i < weightSteps; i++ {
		out.weights[i] = of(fusion.By{Weight: float64(i) / weightSteps})
	}
	return out, nil
}

// topRank returns the reciprocal of a rank, 0 without one and for ranks that do not count.
func topRank(rank int) float64 {
	if rank > countedRank {
		return 0
	}
	return fusion.Reciprocal(rank, 0)
}

// choose chooses the weight and sums up what was measured.
func choose(pairs []pairRanks) (t rank.Tuning) {
	var all [weightSteps]float64
	var without [folds][weightSteps]float64 // the sums of the pairs outside of each fold
	n := float64(len(pairs))
	for i, p := range pairs {
		t.Text, t.Vector, t.Ranks = t.Text+p.text, t.Vector+p.vector, t.Ranks+p.ranks
		if p.found {
			t.Found++
		}
		for w, x := range p.weights {
			all[w] += x
			for f := range without {
				if i%folds != f {
					without[f][w] += x
				}
			}
		}
	}
	t.Text, t.Vector, t.Ranks = t.Text/n, t.Vector/n, t.Ranks/n
	usual := int(math.Round(rank.DefaultWeight * weightSteps))
	var gain, squares float64
	for i, p := range pairs {
		g := p.weights[bestWeight(&without[i%folds], usual)] - p.weights[usual]
		gain, squares = gain+g/n, squares+g*g/n
	}
	best := bestWeight(&all, usual)
	t.Default, t.Weight = all[usual]/n, float64(best)/weightSteps
	t.Tuned = t.Default + gain
	switch deviation := math.Sqrt(max(0, squares-gain*gain)); {
	case len(pairs) < leastPairs:
		t.Kept = fmt.Sprintf("%d pairs are too few to choose a weight, give at least %d", len(pairs),
			leastPairs)
	case best == usual:
		t.Kept = "the default weight is the best one"
	case gain <= sureErrors*deviation/math.Sqrt(n):
		t.Kept = fmt.Sprintf("no weight is surely better: %.2f, the best one, changes the reciprocal rank "+
			"by %+.4f on pairs by which it was not chosen", t.Weight, gain)
		t.Weight = rank.DefaultWeight
	}
	return t
}

// bestWeight returns the step of the largest sum, of equal ones that nearest to the usual one.
func bestWeight(sums *[weightSteps]float64, usual int) int {
	best := usual
	for i := 1; i < weightSteps; i++ {
		d := sums[i] - sums[best]
		near := max(i-usual, usual-i) < max(best-usual, usual-best)
		if d > equalSums || d > -equalSums && near {
			best = i
		}
	}
	return best
}
