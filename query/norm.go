package query

import (
	"math"

	"github.com/anndb/anndb/vector"
)

// smallNorm is the squared length below which a query is lengthened, for Cosine and
// InnerProduct: products of short vectors underflow in float32, while their order does not
// depend on the length of the query. Distances of L2 do not need this: they are as large as the
// rows.
const smallNorm = 0x1p-40

// lengthen returns a copy of a query, multiplied by the power of two that makes its length
// between 1 and 2. The zero vector does not change.
func (s *Searcher) lengthen(q []float32, norm float32) ([]float32, float32) {
	var sum float64
	for _, x := range q {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return q, norm
	}
	_, exp := math.Frexp(math.Sqrt(sum))
	scale := math.Ldexp(1, 1-exp)
	s.unscale = 1 / scale
	s.scaled = grow(s.scaled, len(q))
	for i, x := range q {
		s.scaled[i] = float32(float64(x) * scale)
	}
	if s.v.Metric == vector.InnerProduct {
		s.params.Radius = float32(float64(s.params.Radius) * scale)
	}
	return s.scaled, vector.Dot(s.scaled, s.scaled)
}

// shorten converts the distances to a lengthened query into those to the query itself.
func (s *Searcher) shorten(hits []vector.Neighbor) {
	if s.unscale == 1 || s.v.Metric != vector.InnerProduct {
		return
	}
	for i := range hits {
		hits[i].Distance = float32(float64(hits[i].Distance) * s.unscale)
	}
}
