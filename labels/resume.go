package labels

import "math"

// The state of ApproximateNeighbors between rounds on exact distances: the order of the rows, the pools,
// and what has been measured. Everything else follows from the rows.

// stateName is the name under which the state is kept.
const stateName = "neighbors"

// save keeps the state.
func (g *graph) save(r *refinement) error {
	if g.o.Keep == nil {
		return nil
	}
	numbers := []uint64{uint64(r.out.Rounds), 0, math.Float64bits(r.out.Recall), math.Float64bits(r.out.HeadRecall)}
	if r.ended {
		numbers[1] = 1
	}
	exact := r.out.Exact
	if exact == nil {
		exact = new(Neighbors)
	}
	return g.o.Keep.Save(stateName, numbers, exact.IDs, exact.KDist, g.order, g.pool)
}

// load restores a state that was kept. It returns nil if there is none, or none of these rows.
func (g *graph) load() (*refinement, error) {
	if g.o.Keep == nil {
		return nil, nil
	}
	var numbers, pool []uint64
	var order []uint32
	exact := new(Neighbors)
	found, err := g.o.Keep.Load(stateName, &numbers, &exact.IDs, &exact.KDist, &order, &pool)
	if err != nil || !found || len(numbers) != 4 || numbers[0] > exactRounds {
		return nil, err
	}
	rounds := int(numbers[0])
	if rounds > 0 {
		exact.N, exact.K = len(g.o.Sample), g.k
	}
	if len(exact.IDs) != exact.N*exact.K || len(exact.KDist) != exact.N || !g.below(exact.IDs) ||
		len(order) != g.n || !g.below(order) || len(pool) != g.n*g.pooled {
		return nil, nil
	}
	if rounds == 0 {
		exact = nil
	}
	for _, x := range pool {
		if int(placeOf(x)) >= g.n {
			return nil, nil
		}
	}
	g.order, g.pool = order, pool
	g.placeRows()
	r := &refinement{ended: numbers[1] != 0}
	r.out = Approximation{Sample: g.o.Sample, Exact: exact, Rounds: rounds,
		Recall: math.Float64frombits(numbers[2]), HeadRecall: math.Float64frombits(numbers[3])}
	g.step(g.steps - 2*(exactRounds-r.out.Rounds))
	return r, nil
}

// below reports whether all numbers are those of rows.
func (g *graph) below(ids []uint32) bool {
	for _, id := range ids {
		if int(id) >= g.n {
			return false
		}
	}
	return true
}
