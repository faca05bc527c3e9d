package labels

import (
	"math"
	"slices"

	"github.com/anndb/anndb/internal/checkpoint"
)

// The state of ApproximateNeighbors between rounds on exact distances: the order of the rows, the pools,
// and what has been measured. Everything else follows from the rows.

// stateName is the name under which the state is kept.
const stateName = "neighbors"

// Numbers of a state.
const (
	stateRounds = iota
	stateEnded  // 1 if there are no more rounds
	stateRecall // bits of the recalls
	stateHeadRecall
	stateNumbers
)

// state is the stored form.
type state struct {
	numbers       []uint64
	sample, exact []uint32 // sampled rows, and their exact lists
	exactKDist    []float32
	order         []uint32
	pool          []uint64
}

func (x *state) arrays() []checkpoint.Array {
	return []checkpoint.Array{checkpoint.Of(&x.numbers), checkpoint.Of(&x.sample), checkpoint.Of(&x.exact),
		checkpoint.Of(&x.exactKDist), checkpoint.Of(&x.order), checkpoint.Of(&x.pool)}
}

// save keeps the state.
func (g *graph) save(r *refinement) error {
	if g.o.Checkpoints == nil {
		return nil
	}
	x := state{numbers: make([]uint64, stateNumbers), sample: g.sampleRows(), order: g.order, pool: g.pool}
	x.numbers[stateRounds] = uint64(r.out.Rounds)
	x.numbers[stateRecall] = math.Float64bits(r.out.Recall)
	x.numbers[stateHeadRecall] = math.Float64bits(r.out.HeadRecall)
	if r.ended {
		x.numbers[stateEnded] = 1
	}
	if r.out.Exact != nil {
		x.exact, x.exactKDist = r.out.Exact.IDs, r.out.Exact.KDist
	}
	return g.o.Checkpoints.Save(stateName, x.arrays()...)
}

func (g *graph) sampleRows() []uint32 {
	out := make([]uint32, len(g.o.Sample))
	for i, row := range g.o.Sample {
		out[i] = uint32(row)
	}
	return out
}

// load restores a state. It returns nil if there is none for these rows and this sample.
func (g *graph) load() (*refinement, error) {
	if g.o.Checkpoints == nil {
		return nil, nil
	}
	m := len(g.o.Sample)
	x := state{numbers: make([]uint64, stateNumbers), sample: make([]uint32, m), exact: make([]uint32, m*g.k),
		exactKDist: make([]float32, m), order: make([]uint32, g.n), pool: make([]uint64, g.n*g.pooled)}
	found, err := g.o.Checkpoints.Load(stateName, x.arrays()...)
	g.pool = x.pool[:cap(x.pool)] // begin fills it if nothing was found
	if err != nil || !found || !g.fits(&x) {
		return nil, err
	}
	g.order = x.order
	g.placeRows()
	r := &refinement{ended: x.numbers[stateEnded] != 0}
	r.out = Approximation{Sample: g.o.Sample, Rounds: int(x.numbers[stateRounds]),
		Recall:     math.Float64frombits(x.numbers[stateRecall]),
		HeadRecall: math.Float64frombits(x.numbers[stateHeadRecall])}
	if r.out.Rounds > 0 {
		r.out.Exact = &Neighbors{N: m, K: g.k, IDs: x.exact, KDist: x.exactKDist}
	}
	g.step(g.steps - 2*(exactRounds-r.out.Rounds))
	return r, nil
}

// fits reports whether a state can be one of these rows and this sample.
func (g *graph) fits(x *state) bool {
	if len(x.numbers) != stateNumbers || x.numbers[stateRounds] > exactRounds ||
		len(x.order) != g.n || len(x.pool) != g.n*g.pooled || !slices.Equal(x.sample, g.sampleRows()) {
		return false
	}
	rounds, ended := x.numbers[stateRounds], x.numbers[stateEnded] != 0
	if ended && rounds == 0 || !ended && rounds == exactRounds {
		return false
	}
	m := 0 // lists of the sample
	if rounds > 0 {
		m = len(g.o.Sample)
	}
	for _, at := range [...]int{stateRecall, stateHeadRecall} {
		if v := math.Float64frombits(x.numbers[at]); !(v >= 0 && v <= 1) {
			return false
		}
	}
	for _, p := range x.pool {
		if int(placeOf(p)) >= g.n {
			return false
		}
	}
	return len(x.exact) == m*g.k && len(x.exactKDist) == m && g.areRows(x.exact) && g.areAllRows(x.order)
}

// areAllRows reports whether ids, one for each row, have each row once.
func (g *graph) areAllRows(ids []uint32) bool {
	seen := make([]bool, g.n)
	for _, id := range ids {
		if int(id) >= g.n || seen[id] {
			return false
		}
		seen[id] = true
	}
	return true
}

// areRows reports whether all numbers are those of rows.
func (g *graph) areRows(ids []uint32) bool {
	for _, id := range ids {
		if int(id) >= g.n {
			return false
		}
	}
	return true
}
