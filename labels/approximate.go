package labels

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// ApproximateOptions are the parameters of ApproximateNeighbors. The zero value selects the
// tuned defaults.
type ApproximateOptions struct {
	// Seed is the seed of the trees and of the sample.
	Seed uint64
	// Workers is the number of goroutines, all processors when less than 1.
	// The answer does not depend on it.
	Workers int
	// Sample are the corpus rows whose exact lists are computed to measure the
	// recall; nil draws 500. The lists have SampleK rows if that is more than k.
	Sample  []int
	SampleK int
	// Outside is the squared length of every row outside the reduced
	// coordinates, or nil for none.
	Outside []float32
}

// Approximation is the answer of ApproximateNeighbors.
type Approximation struct {
	Neighbors *Neighbors
	// Sample holds corpus rows, Exact their exact lists, one per row. A corpus of few rows has only k rows in
	// each.
	Sample []int
	Exact  *Neighbors
	// Recall is the share of the entries of the sample's exact lists, without the row itself,
	// that the approximate lists contain or replace by rows at most as far away. HeadRecall is
	// the same for the 10 nearest.
	Recall, HeadRecall float64
	// Rounds is the number of rounds on exact distances.
	Rounds int
}

// Constants of the refinement, chosen on Fashion-MNIST, GloVe and generated clusters.
const (
	graphTrees  = 4   // trees that provide the initial lists
	wideTrees   = 8   // trees for wide codes, which are used where neighbors are hard to distinguish
	graphLeaf   = 160 // maximum rows per leaf, unless lists are longer
	graphPool   = 24  // minimum length of a list during refinement
	graphHead   = 20  // neighbours of a row that other rows read
	wideHead    = 32  // the same where codes are wide
	headGrowth  = 12  // growth of the head in each exact round after the first
	graphRounds = 2   // rounds on estimates
	exactRounds = 4   // maximum rounds on exact distances
	exactKeep   = 64  // rows of best estimate that an exact round compares
	outsidePart = 0.5 // weight of the squared length outside the reduced coordinates
	sampleRows  = 500
	headRecall  = 10
	// Bytes per code; the last four hold a norm.
	narrowCode, wideCode = 64, 128
	// A round that inserts fewer rows than this into the average list is the last one.
	standstill = 0.2
	// Refinement stops at this recall of complete lists on the sample, or below it after its last round.
	targetRecall = 0.9
)

// ApproximateNeighbors computes approximately the k nearest corpus rows (squared Euclidean) of
// every corpus row: the row itself first, then by rising distance, ties by row number. It
// measures the recall on a sample of rows for which it also computes the exact lists. reduced
// holds the rows in few coordinates that keep most of the distances: an orthogonal projection,
// so that no reduced distance exceeds the distance in the corpus. About 60 coordinates are
// best, 124 where 60 keep too little. k is lowered to the size of the corpus. A corpus of few
// rows is answered exactly. progress may be nil.
//
// The initial lists come from the leaves of a few k-d trees over the reduced coordinates: all
// pairs of a leaf are compared. Then rounds of local joins insert neighbours of neighbours, as
// in NN-descent (Dong, Moses and Li 2011). Two rounds use estimates from one-byte codes of the
// reduced coordinates. The others use exact distances of the rows of best estimate, until the
// sample's recall reaches the target. A round reads only the result of the round before it, so
// that the answer depends on the seed only.
//
// Cost: about n·(200 estimates + 60 exact distances) per round; len(Sample)·n reduced distances
// for the sample. Memory: 12 bytes for each of n·k entries, and 300 to 450 bytes per row.
//
// Errors: ErrInput, also for a wrong number of reduced rows, a sample row that does not exist,
// or at least 2³¹ rows; and the context's error.
func ApproximateNeighbors(ctx context.Context, corpus, reduced Rows, k int, o ApproximateOptions,
	progress func(done, total int)) (*Approximation, error) {
	if corpus == nil || reduced == nil || corpus.Len() == 0 || corpus.Dim() < 1 || reduced.Dim() < 1 {
		return nil, fmt.Errorf("%w: empty corpus", ErrInput)
	}
	n := corpus.Len()
	switch {
	case k < 1:
		return nil, fmt.Errorf("%w: k is %d", ErrInput, k)
	case reduced.Len() != n:
		return nil, fmt.Errorf("%w: %d reduced rows of %d", ErrInput, reduced.Len(), n)
	case o.Outside != nil && len(o.Outside) != n:
		return nil, fmt.Errorf("%w: %d lengths outside the reduced coordinates of %d rows",
			ErrInput, len(o.Outside), n)
	case int64(n) >= fresh:
		return nil, fmt.Errorf("%w: %d rows", ErrInput, n)
	}
	for _, i := range o.Sample {
		if i < 0 || i >= n {
			return nil, fmt.Errorf("%w: sample row %d of %d", ErrInput, i, n)
		}
	}
	o.Workers = par.Workers(o.Workers)
	if o.Sample == nil {
		rng := rand.New(rand.NewPCG(o.Seed, 0x73616d706c65))
		o.Sample = rng.Perm(n)[:min(n, sampleRows)]
		slices.Sort(o.Sample)
	}
	k = min(k, n)
	g := &graph{n: n, k: k, o: o, progress: progress, pooled: max(graphPool, k+k/2)}
	g.leaf = max(graphLeaf, 2*(g.pooled+1))
	if n < 2*g.leaf {
		return exactly(ctx, corpus, k, o, progress)
	}
	var err error
	if g.rows, err = gather(ctx, corpus); err != nil {
		return nil, err
	}
	if g.reduced, err = gather(ctx, reduced); err != nil {
		return nil, err
	}
	out, err := g.run(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("labels: approximate neighbours: %w", err)
	}
	return out, nil
}

// exactly computes the exact lists of a small corpus.
func exactly(ctx context.Context, corpus Rows, k int, o ApproximateOptions,
	progress func(done, total int)) (*Approximation, error) {
	all, err := ExactNeighbors(ctx, corpus, nil, k, o.Workers, progress)
	if err != nil {
		return nil, err
	}
	exact := &Neighbors{N: len(o.Sample), K: all.K}
	for _, i := range o.Sample {
		exact.IDs = append(exact.IDs, all.Row(i)...)
		exact.KDist = append(exact.KDist, all.KDist[i])
	}
	return &Approximation{Neighbors: all, Sample: o.Sample, Exact: exact, Recall: 1, HeadRecall: 1}, nil
}

// run computes the lists.
func (g *graph) run(ctx context.Context) (*Approximation, error) {
	trees := graphTrees
	g.width, g.firstDepth = narrowCode, graphHead
	if g.reduced.d > narrowCode {
		g.width, trees, g.firstDepth = wideCode, wideTrees, wideHead
	}
	g.steps = trees + graphRounds + 2*exactRounds
	if g.begin(ctx, trees); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out := &Approximation{Sample: g.o.Sample}
	for ended := false; !ended; {
		if ended = g.refine(ctx, out); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	out.Neighbors = g.lists(ctx)
	g.step(2 * exactRounds)
	return out, ctx.Err()
}

// begin fills the pools, with exact distances: from trees, and by rounds on estimates.
func (g *graph) begin(ctx context.Context, trees int) {
	grown := g.grow(ctx, trees)
	if ctx.Err() != nil {
		return
	}
	g.order = grown[0].order
	g.place = make([]uint32, g.n)
	for p, row := range g.order {
		g.place[row] = uint32(p)
	}
	g.encode(ctx)
	g.pool = make([]uint64, g.n*g.pooled)
	for i := range grown { // the first one fills the pools
		g.joinLeaves(ctx, &grown[i], i == 0)
		grown[i] = partition{}
		g.step(1)
	}
	for range graphRounds {
		g.heads(ctx, g.firstDepth)
		g.joinEstimates(ctx)
		g.step(1)
	}
	g.rescore(ctx)
}

// refine runs a round on exact distances, measures the lists, and reports whether it was the last one.
func (g *graph) refine(ctx context.Context, out *Approximation) (last bool) {
	g.heads(ctx, g.firstDepth+headGrowth*out.Rounds)
	moved := g.joinExact(ctx, g.keep(out.Rounds))
	out.Rounds++
	g.step(2)
	if out.Exact == nil {
		// After the first round the bounds are tight.
		out.Exact = g.exactSample(ctx)
	}
	if ctx.Err() != nil {
		return true
	}
	out.Recall, out.HeadRecall = g.recall(out.Exact, g.k-1), g.recall(out.Exact, headRecall)
	return out.Recall >= targetRecall || float64(moved) < standstill*float64(g.n) || out.Rounds == exactRounds
}

// keep returns the number of rows that an exact round after others compares for each row. Where estimates
// miss most coordinates, each round compares twice as many as the one before.
func (g *graph) keep(round int) int {
	if 2*g.reduced.d < g.rows.d {
		return exactKeep << round
	}
	return exactKeep
}

// step reports that by steps are done. The last steps may be skipped.
func (g *graph) step(by int) {
	g.done = min(g.done+by, g.steps)
	if g.progress != nil {
		g.progress(int(int64(g.n)*int64(g.done)/int64(g.steps)), g.n)
	}
}

// each runs f over [0, n) in ranges of grain, with one scratch per worker.
func (g *graph) each(ctx context.Context, n, grain int, f func(s *scratch, lo, hi int)) {
	work := par.Work{N: n, Grain: grain, Workers: g.o.Workers}
	// The callers check the context.
	_ = par.Ranges(ctx, work, func() func(lo, hi int) error {
		s := new(scratch)
		return func(lo, hi int) error {
			f(s, lo, hi)
			return nil
		}
	})
}

// exactSample computes the exact lists of the sample. The last distance of the current list, or of a longer
// list of the rows before, is an upper bound of the last distance of the exact list, and a reduced distance
// is a lower bound of a row's distance. So only rows whose reduced distance does not exceed the upper bound
// are compared. The slack is far larger than the rounding error of projections in float32.
func (g *graph) exactSample(ctx context.Context) *Neighbors {
	const slack = 1e-4
	k := max(g.k, min(g.o.SampleK, g.n))
	out := &Neighbors{N: len(g.o.Sample), K: k}
	out.IDs, out.KDist = make([]uint32, out.N*out.K), make([]float32, out.N)
	m := g.reduced
	g.each(ctx, out.N, 16, func(s *scratch, lo, hi int) {
		nq := hi - lo
		s.rows = resize(s.rows, nq*m.d)
		s.dots = resize(s.dots, nq*tileRows)
		bounds := make([]float32, nq)
		best := make([]*vector.TopK, nq)
		for i := range nq {
			row := g.o.Sample[lo+i]
			copy(s.rows[i*m.d:], m.row(row))
			best[i] = vector.NewTopK(k - 1)
			bounds[i] = math.MaxFloat32
			if k == g.k {
				bounds[i] = distanceOf(g.poolOf(int(g.place[row]))[max(0, k-2)])
			}
		}
		for at := 0; at < g.n && ctx.Err() == nil; at += tileRows {
			nr := min(tileRows, g.n-at)
			vector.DotTile(s.rows, nq, m.data[at*m.d:], nr, m.d, s.dots)
			for i := range nq {
				row := g.o.Sample[lo+i]
				own, norms := m.norms[row], m.norms[at:at+nr]
				for j, dot := range s.dots[i*nr : (i+1)*nr] {
					length := own + norms[j]
					if length-2*dot-slack*length > bounds[i] || at+j == row {
						continue
					}
					if best[i].Push(uint32(at+j), g.distance(g.place[row], g.place[at+j])) {
						bounds[i] = min(bounds[i], best[i].Threshold())
					}
				}
			}
		}
		for i := range nq {
			list := out.IDs[(lo+i)*k : (lo+i+1)*k]
			list[0] = uint32(g.o.Sample[lo+i])
			for j, x := range best[i].Append(nil) {
				list[1+j] = x.ID
				out.KDist[lo+i] = x.Distance
			}
		}
	})
	return out
}

// recall compares the h nearest rows of the current lists with the exact ones.
func (g *graph) recall(exact *Neighbors, h int) float64 {
	h = min(h, g.k-1)
	if h < 1 {
		return 1
	}
	hits := 0
	for i, row := range g.o.Sample {
		p := g.place[row]
		last := g.distance(p, g.place[exact.Row(i)[h]])
		for _, x := range g.poolOf(int(p))[:h] {
			if distanceOf(x) <= last {
				hits++
			}
		}
	}
	return float64(hits) / float64(h*max(1, len(g.o.Sample)))
}

// lists translates the pools to lists of row numbers.
func (g *graph) lists(ctx context.Context) *Neighbors {
	g.head, g.code = nil, nil // not needed any more
	out := &Neighbors{N: g.n, K: g.k, IDs: make([]uint32, g.n*g.k), KDist: make([]float32, g.n)}
	g.each(ctx, g.n, 256, func(s *scratch, lo, hi int) {
		for p := lo; p < hi; p++ {
			row := g.order[p]
			s.keys = s.keys[:0]
			for _, x := range g.poolOf(p) {
				s.keys = append(s.keys, key(distanceOf(x), g.order[placeOf(x)]))
			}
			slices.SortFunc(s.keys, cmp.Compare[uint64])
			list := out.IDs[int(row)*g.k : (int(row)+1)*g.k]
			list[0] = row
			for j := range list[1:] {
				list[1+j] = uint32(s.keys[j])
				out.KDist[row] = distanceOf(s.keys[j])
			}
		}
	})
	return out
}
