package query

import (
	"math"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// project transforms the query into the partition space and from there into the coordinates
// that forest and sketches compare.
func (s *Searcher) project(q []float32, norm float32) {
	v := s.v
	x := q
	switch {
	case v.Lift:
		s.unit = grow(s.unit, v.Inner())
		scale := float32(1)
		if v.LiftNorm > 0 && norm > 0 {
			scale = v.LiftNorm / float32(math.Sqrt(float64(norm)))
		}
		vector.Scale(q, scale, s.unit)
		s.lifted = scale
		s.unit[v.Dim] = 0
		x = s.unit
	case v.Metric == vector.Cosine:
		s.unit = grow(s.unit, v.Dim)
		vector.Scale(q, s.exact.qInv, s.unit)
		x = s.unit
	}
	sketch := s.p.Sketch && v.Sketch != nil
	s.straight = nil
	switch rotated := v.RotatedForest(); {
	case sketch && !v.Sketch.Signs, rotated && v.Forest.Coord != forest.CoordAxis,
		rotated && v.ByteRotation != nil && s.exact.whole: // in integers, which takes less time
		s.rotate(x)
	case rotated:
		s.straight, s.rotated = x, grow(s.rotated, v.Rotation.R)
		for i := range s.rotated {
			s.rotated[i] = float32(math.NaN())
		}
	}
	if sketch {
		s.sketch.set(v.Sketch, x, s.rotated, v.Rotation.Mean)
		s.fromMean = vector.L2Squared(x, v.Rotation.Mean)
	}
	s.space = x
}

// locate sets the coordinates of the query that the segment's forest compares.
func (s *Searcher) locate() {
	x, f := s.space, s.seg.Forest
	if s.v.rotates(s.seg) {
		if f.Coord != forest.CoordAxis {
			s.rotateAll()
		}
		x = s.rotated[:f.Dim]
	}
	z := f.Coordinates(x, s.coords)
	if f.Coord == forest.CoordProjected {
		s.coords = z
	}
	s.z = z
}

// rotateAll computes the rotated coordinates that no node has compared.
func (s *Searcher) rotateAll() {
	if s.straight != nil {
		s.rotate(s.straight)
		s.straight = nil
	}
}

// rotate computes all rotated coordinates of the query.
func (s *Searcher) rotate(x []float32) {
	s.rotated = grow(s.rotated, s.v.Rotation.R)
	if b := s.v.ByteRotation; b != nil && s.exact.whole {
		s.sums = grow(s.sums, b.Sums())
		b.Apply(s.exact.padded, s.sums, s.rotated)
		return
	}
	s.v.Rotation.Apply(x, s.rotated)
}

// sketchQuery is a query in the form that the kernels of sketches read, with its scratch memory.
type sketchQuery struct {
	scratch []float32
	packed  vector.PackedQuery
	signs   vector.SignQuery
	near    nearCenters
}

// set converts a query: x in the partition space, of which rotated are the principal coordinates.
func (q *sketchQuery) set(s *SketchView, x, rotated, mean []float32) {
	if s.Signs {
		q.scratch = grow(q.scratch, spreadSize(len(x), s.Width))
		spread(q.scratch, x, mean)
		q.signs.SetSigns(q.scratch, s.Width)
		if s.Centers != nil {
			q.near.set(s.Centers, x, mean)
		}
		return
	}
	q.scratch = grow(q.scratch, len(s.Steps))
	for i, step := range s.Steps {
		q.scratch[i] = rotated[i] * step
	}
	q.packed.SetPacked(q.scratch)
}

// scores writes the estimated squared distances, up to a constant, of rows whose sketches have the numbers
// at. ids are the numbers that determine the rows' centers.
func (q *sketchQuery) scores(s *SketchView, at, ids []uint32, out []float32) {
	if s.Signs {
		if s.Centers != nil {
			q.near.prefetch(s.Centers, ids)
		}
		vector.SignScores(&q.signs, s.Chunks, s.Shift, s.Width, at, out)
		if s.Centers != nil {
			q.near.add(s.Centers, ids, out)
		}
		return
	}
	vector.PackedScores(&q.packed, s.Chunks, s.Shift, at, out)
}

// Estimate writes the estimated squared distances, up to a constant, of a query, given like the rows of
// Encode, to the rows ids, whose sketches have the numbers at in s. It serves measurements and allocates;
// O(Dim·log Dim + ids·Width).
func (s *SketchView) Estimate(x, rotated, mean []float32, at, ids []uint32, out []float32) {
	var q sketchQuery
	q.set(s, x, rotated, mean)
	q.scores(s, at, ids, out)
}

// estimate writes the sketch estimates of rows to out, unless the search is stopped.
func (s *Searcher) estimate(sk *SketchView, ids []uint32, out []float32) {
	for len(ids) > sketchRun {
		s.sketch.scores(sk, ids[:sketchRun], ids[:sketchRun], out)
		if ids, out = ids[sketchRun:], out[sketchRun:]; s.halted() {
			return
		}
	}
	s.sketch.scores(sk, ids, ids, out)
}

// thin keeps the r rows with the best sketch estimates.
func (s *Searcher) thin(ids []uint32, r int) []uint32 {
	if len(ids) <= r {
		return ids
	}
	s.scores = grow(s.scores, len(ids))
	s.stats.Sketched += len(ids)
	s.estimate(s.seg.Sketch, ids, s.scores)
	return selectBest(ids, s.scores, r)
}

// selectBest moves the k ids with the smallest scores to the front of ids, in no particular order, and their
// scores to the front of scores, and returns the ids, by quickselect with a median-of-three pivot: O(n) on
// average. Which of equal scores at the border are taken depends only on the order of ids. NaN scores are
// taken last or in any order; they do no harm.
func selectBest(ids []uint32, scores []float32, k int) []uint32 {
	if k >= len(ids) {
		return ids
	}
	lo, hi := 0, len(ids)-1
	for lo < hi {
		pivot := medianOfThree(scores[lo], scores[(lo+hi)/2], scores[hi])
		if pivot != pivot {
			// NaN: there is no order to select by.
			break
		}
		i, j := lo, hi
		for i <= j {
			for scores[i] < pivot {
				i++
			}
			for scores[j] > pivot {
				j--
			}
			if i <= j {
				scores[i], scores[j] = scores[j], scores[i]
				ids[i], ids[j] = ids[j], ids[i]
				i++
				j--
			}
		}
		switch {
		case k-1 <= j:
			hi = j
		case k-1 >= i:
			lo = i
		default:
			return ids[:k]
		}
	}
	return ids[:k]
}

func medianOfThree(a, b, c float32) float32 {
	return max(min(a, b), min(max(a, b), c))
}

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
