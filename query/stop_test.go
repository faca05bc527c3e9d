package query

import (
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// A wide beam does not compare all of its rows, and finds nearly as many of the nearest rows as one that
// does, in the unit of every metric.
func TestBeamStops(t *testing.T) {
	const width, k = 300, 10
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		// In few directions, so that the rows of a beam are at different distances.
		m, z, directions := gaussian(4000, 160, 3), gaussian(4000, 6, 4), gaussian(6, 160, 5)
		for i := range m.n {
			vector.Scale(m.row(i), 0.2, m.row(i))
			for j, x := range z.row(i) {
				for l, y := range directions.row(j) {
					m.row(i)[l] += x * y
				}
			}
		}
		v := build(t, m, spec{metric: metric, shift: 8, rotate: 8, sketch: 128, labelsK: 8, hops: 16,
			forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 8, Natural: true, Seed: 1}})
		s := NewSearcher()
		p := Params{K: k, Sketch: true, Beam: width, R: width}
		rng := rand.New(rand.NewPCG(4, 5))
		compared, found, all := 0, 0, 0
		for range 100 {
			q := append([]float32(nil), m.row(rng.IntN(m.n))...)
			for j := range q {
				q[j] += float32(rng.NormFloat64()) / 4
			}
			hits, stats, err := s.Search(t.Context(), v, q, &p, nil)
			must(t, err)
			compared += stats.Exact
			full := vector.NewTopK(k)
			for _, b := range s.beam.keys {
				full.Push(uint32(b), s.exact.distance(uint32(b)))
			}
			for _, x := range full.Append(nil) {
				all++
				for _, h := range hits {
					if h.ID == x.ID {
						found++
					}
				}
			}
		}
		if compared < 100*stopRows || compared > 100*width/2 || found < all*995/1000 {
			t.Errorf("%v: %d rows compared for 100 queries, %d of the nearest %d rows of the beams found", metric,
				compared, found, all)
		}
	}
}
