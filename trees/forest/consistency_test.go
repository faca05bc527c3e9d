package forest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
)

// TestConsistency checks the theorems of Hyvönen (2022), section 7, empirically.
// Theorem 3: if the height of a chronological k-d tree goes to infinity with
// the number n of training points, the diameter of the leaf a query falls into
// goes to zero in probability. Theorem 2: if it does, and the density is
// continuous, the natural classifier is consistent under 0-1 loss for any
// threshold τ in [0, 1): the probability that the elected set differs from the
// true set of nearest corpus points goes to the Bayes error, which is zero.
//
// As in the theorems the corpus stays as it is while the training queries grow
// in number. Height ⌊0.8 log₂ n⌋ lets the points in a leaf grow without end as
// well, about as n^0.2, which Theorem 1 would ask for.
func TestConsistency(t *testing.T) {
	sizes := []int{500, 2000, 8000, 32000}
	const asked = 4000
	uniform := func(rng *rand.Rand) float32 { return rng.Float32() }
	normal := func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) }
	for _, c := range []struct {
		name   string
		draw   func(*rand.Rand) float32
		dim    int
		lo, hi float64 // support of each coordinate
		m, k   int     // corpus points, labels of a query
		far    float64 // a leaf this wide is far from a point
	}{
		{"uniform on the square", uniform, 2, 0, 1, 12, 3, 0.1},
		{"uniform on the cube", uniform, 3, 0, 1, 8, 2, 0.3},
		{"normal in the plane", normal, 2, math.Inf(-1), math.Inf(1), 10, 2, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			draw := func(seed uint64, n int) table {
				rng := rand.New(rand.NewPCG(seed, 71))
				rows := make(table, n)
				for i := range rows {
					rows[i] = make([]float32, c.dim)
					for j := range rows[i] {
						rows[i][j] = c.draw(rng)
					}
				}
				return rows
			}
			corpus, queries := draw(1, c.m), draw(2, asked)
			truth := knn(t, corpus, queries, c.k)
			// The first n of one endless sample, as n grows.
			sample := draw(3, sizes[len(sizes)-1])

			taus := []float64{0, 0.3, 0.6}
			errorOf := make([][]float64, len(taus)) // by τ, then by n
			var far, mean []float64
			for _, n := range sizes {
				train := sample[:n]
				depth := int(0.8 * math.Log2(float64(n)))
				f, err := Learn(context.Background(), train, c.m, knn(t, corpus, train, c.k), Params{
					Kind: KDChrono, Trees: 1, Depth: depth, LabelsK: c.k, Natural: true,
				}, 2, nil)
				must(t, err)
				wrong := make([]int, len(taus))
				wide, sum := 0, 0.0
				for i, x := range queries {
					d := diameter(f, x, c.lo, c.hi)
					sum += d
					if d > c.far {
						wide++
					}
					for j, tau := range taus {
						if !elects(f, x, tau, truth.IDs[i*c.k:(i+1)*c.k]) {
							wrong[j]++
						}
					}
				}
				for j := range taus {
					errorOf[j] = append(errorOf[j], float64(wrong[j])/asked)
				}
				far, mean = append(far, float64(wide)/asked), append(mean, sum/asked)
				t.Logf("n %5d, height %2d, %4.1f points a leaf: mean diameter %.3f, P{diameter > %g} %.3f",
					n, depth, f.MeanLeaf(), sum/asked, c.far, float64(wide)/asked)
			}
			for j, tau := range taus {
				t.Logf("0-1 error at τ = %g: %v", tau, errorOf[j])
				falls(t, "0-1 error", errorOf[j], 0.98, 0.65)
			}
			falls(t, "share of wide leaves", far, 0.9, 0.4)
			if !math.IsInf(c.hi, 1) {
				// Some leaves of an unbounded support are unbounded.
				falls(t, "mean diameter", mean, 0.85, 0.5)
			}
		})
	}
}

// falls fails unless every value is at most step times the one before, and the
// last at most total times the first.
func falls(t *testing.T, what string, values []float64, step, total float64) {
	t.Helper()
	for i := range values[1:] {
		if !(values[i+1] <= step*values[i]) {
			t.Errorf("%s does not fall from step %d to %d: %v", what, i, i+1, values)
		}
	}
	if last := values[len(values)-1]; !(last <= total*values[0]) {
		t.Errorf("%s falls from %g to %g only", what, values[0], last)
	}
}

// knn returns the true labels: the nearest corpus points of every query.
func knn(t *testing.T, corpus, queries table, k int) *labels.Neighbors {
	t.Helper()
	lab, err := labels.ExactNeighbors(context.Background(), corpus, queries, k, 2, nil)
	must(t, err)
	return lab
}

// elects reports whether the natural classifier with threshold tau (equations 4
// and 8) elects exactly the given labels for x.
func elects(f *Forest, x []float32, tau float64, want []uint32) bool {
	elected := 0
	right := true
	b := f.Leaf(0, f.routeOne(0, x))
	ids, votes := tableOf(b)
	for i, id := range ids {
		if float64(votes[i])/float64(b.Points()) > tau {
			elected++
			right = right && slices.Contains(want, id)
		}
	}
	return right && elected == len(want)
}

// tableOf returns the labels of a leaf's table and the votes of each, 1 for a member.
func tableOf(b LeafBlock) (ids, votes []uint32) {
	for hi, low, weights, ok := b.Next(); ok; hi, low, weights, ok = b.Next() {
		for i, l := range low {
			n := uint32(1)
			if weights != nil {
				n = uint32(weights[i])
			}
			id := hi<<16 | uint32(l)
			if last := len(ids) - 1; last >= 0 && ids[last] == id {
				votes[last] += n
				continue
			}
			ids, votes = append(ids, id), append(votes, n)
		}
	}
	return ids, votes
}

// diameter returns the diameter of the cell of x, diam(R_q(x)): the length of the
// diagonal of a box that may be unbounded in some directions.
func diameter(f *Forest, x []float32, lo, hi float64) float64 {
	low, high := make([]float64, len(x)), make([]float64, len(x))
	for j := range x {
		low[j], high[j] = lo, hi
	}
	for node := 1; node < 1<<f.Depth; {
		n := f.Nodes[node]
		cut := float64(n.Threshold)
		if x[n.Dim] <= n.Threshold {
			high[n.Dim] = min(high[n.Dim], cut)
			node = 2 * node
		} else {
			low[n.Dim] = max(low[n.Dim], cut)
			node = 2*node + 1
		}
	}
	var sum float64
	for j := range x {
		sum += (high[j] - low[j]) * (high[j] - low[j])
	}
	return math.Sqrt(sum)
}
