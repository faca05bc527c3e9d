package query

import (
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// ahead is the number of rows by which prefetching runs ahead.
const ahead = 3

// numbered replaces numbers of rows in the segment by those in the collection.
func (s *Searcher) numbered(ids []uint32) []uint32 {
	if first := uint32(s.seg.First); first > 0 {
		for i := range ids {
			ids[i] += first
		}
	}
	return ids
}

// enter computes exact distances and returns the number of rows that were among the best when they
// were added.
func (s *Searcher) enter(ids []uint32, source string) (entered int) {
	return s.enterUntil(ids, source, nil)
}

// enterUntil is enter up to the row at which order, unless it is nil, ends.
func (s *Searcher) enterUntil(ids []uint32, source string, order *beamOrder) (entered int) {
	for _, id := range ids[:min(ahead, len(ids))] {
		s.exact.prefetch(id)
	}
	for i, id := range ids {
		if order != nil && order.ends(id, s.top.Threshold()) {
			ids = ids[:i]
			break
		}
		if i+ahead < len(ids) {
			s.exact.prefetch(ids[i+ahead])
		}
		d := s.exact.distance(id)
		if order != nil {
			order.errors.add(float64(d) - order.estimate)
		}
		if s.keep(id, d) {
			entered++
		}
		if i&s.every == s.every && s.halted() {
			s.stats.Exact += i + 1
			return entered
		}
	}
	s.stats.Exact += len(ids)
	if s.watch != nil {
		s.watch.scored(ids, source)
	}
	return entered
}

// The rows of a beam get exact distances in the order of their estimates, at most R of them. The differences
// between both show how large the errors of this query's estimates are. Once the next estimate is more than
// stopErrors standard errors above the k-th distance, the rest is left out. A fixed number would have to
// suffice for the queries with the most rows at about the same distance.

const (
	// stopErrors is the number of standard errors, and stopRows the least number of rows from which they are
	// judged. Fewer errors cost recall.
	stopErrors, stopRows = 5, 12
)

// residuals are the mean and the variance of exact distances less their estimates.
type residuals struct{ n, sum, squares float64 }

func (r *residuals) add(x float64) {
	r.n++
	r.sum += x
	r.squares += x * x
}

// least returns the distance that a row of this estimate has at least, if its error is at most that many
// standard errors.
func (r *residuals) least(estimate, errors float64) float64 {
	mean := r.sum / r.n
	return estimate + mean - errors*math.Sqrt(max(0, r.squares/r.n-mean*mean))
}

// beamOrder follows rows of the beam, in its order, that get exact distances.
type beamOrder struct {
	beam     *beam
	first    uint32  // number of the segment's first row
	unit     float64 // see estimateUnit
	place    int     // of the last row
	estimate float64 // of the last row
	errors   residuals
}

// ends reports whether neither the next row nor those after it are expected to be nearer than threshold.
func (o *beamOrder) ends(row uint32, threshold float32) bool {
	for o.beam.row(o.place)+o.first != row {
		o.place++
	}
	o.estimate = o.unit * float64(keyEstimate(o.beam.keys[o.place]))
	return o.errors.exceed(o.estimate, threshold)
}

// exceed reports whether rows of an estimate are expected to be farther away than threshold.
func (r *residuals) exceed(estimate float64, threshold float32) bool {
	return r.n >= stopRows && r.least(estimate, stopErrors) > float64(threshold)
}

// enterBeam is enter for rows of the beam in its order, until the rest cannot be expected to be among the
// nearest of all segments.
func (s *Searcher) enterBeam(ids []uint32) {
	if s.p.Range {
		s.enter(s.numbered(ids), "forest")
		return
	}
	order := beamOrder{beam: &s.beam, first: uint32(s.seg.First), unit: s.estimateUnit(), errors: s.errors}
	s.enterUntil(s.numbered(ids), "forest", &order)
	s.errors = order.errors
}

// estimateUnit is what a squared distance in the partition space is worth in the metric's unit.
func (s *Searcher) estimateUnit() float64 {
	switch {
	case s.v.Metric == vector.Cosine:
		return 0.5 // of unit vectors
	case s.v.Lift:
		return 0.5 / float64(s.lifted)
	}
	return 1
}

// scorer computes exact distances from one query to stored rows, in the metric's internal unit:
// squared for L2, 1 - cosine, negated dot product.
type scorer struct {
	v      *View
	q      []float32
	qInv   float32 // inverse norm of q (cosine)
	q8     []uint8 // q in eight bits, if its coordinates are bytes
	padded []uint8 // q8 padded with zeros
	whole  bool    // q has integer coordinates from 0 to 255; padded then equals it
	sealed int     // rows in chunks
	mask   int
}

// reset prepares the scorer for a query.
func (s *scorer) reset(v *View, q []float32) {
	s.v, s.q = v, q
	s.sealed, s.mask = len(v.Rows.Chunks)<<v.Rows.Shift, 1<<v.Rows.Shift-1
	s.whole = false
	switch {
	case v.Metric == vector.Cosine:
		s.qInv = vector.InverseNorm(q)
	case v.Metric == vector.L2 && (v.ByteRotation != nil || slices.Contains(v.Rows.Uint8, true)):
		s.quantise(q)
	}
}

// quantise copies the query to eight bits if that is lossless. Zeros pad it to a multiple of
// the stride of byte rotations.
func (s *scorer) quantise(q []float32) {
	n := len(q)
	s.padded = grow(s.padded, (n+forest.ByteStride-1)&^(forest.ByteStride-1))
	clear(s.padded[n:])
	s.q8 = s.padded[:n]
	s.whole = vector.WholeBytes(q, s.q8)
}

// prefetch prefetches a row that is about to be scored.
func (s *scorer) prefetch(row uint32) {
	if x := s.stored(row); len(x) > 0 {
		vector.Prefetch(unsafe.Pointer(&x[0]), len(x))
	}
}

// stored returns the memory of a row that distance reads, nil for a row that is in no chunk.
func (s *scorer) stored(row uint32) []byte {
	i, d := int(row), s.v.Dim
	if i >= s.sealed {
		return nil
	}
	r := &s.v.Rows
	if !r.Uint8[i>>r.Shift] {
		d *= 4
	}
	at := (i & s.mask) * d
	return r.Chunks[i>>r.Shift][at : at+d]
}

// distance returns the exact distance of a row below Rows.N.
func (s *scorer) distance(row uint32) float32 {
	r, i, d := &s.v.Rows, int(row), s.v.Dim
	if i >= s.sealed {
		x := float32s(r.Tail[i-s.sealed], d)
		return s.float(x, len(r.Chunks), i-s.sealed)
	}
	c, at := i>>r.Shift, i&s.mask
	chunk := r.Chunks[c]
	if !r.Uint8[c] {
		return s.float(float32s(chunk[4*at*d:], d), c, at)
	}
	x := chunk[at*d : at*d+d]
	switch s.v.Metric {
	case vector.L2:
		if s.whole {
			return float32(vector.L2SquaredUint8(s.q8, x))
		}
		return vector.L2SquaredFloat32Uint8(s.q, x)
	case vector.Cosine:
		return cosineDistance(vector.DotFloat32Uint8(s.q, x), s.qInv, s.inverseOfBytes(x, c, at))
	}
	return -vector.DotFloat32Uint8(s.q, x)
}

// float returns the distance of a float32 row, row at of chunk c.
func (s *scorer) float(x []float32, c, at int) float32 {
	switch s.v.Metric {
	case vector.L2:
		return vector.L2Squared(s.q, x)
	case vector.Cosine:
		inv, ok := s.v.Rows.invNorm(c, at)
		if !ok {
			inv = vector.InverseNorm(x)
		}
		return cosineDistance(vector.Dot(s.q, x), s.qInv, inv)
	}
	return -vector.Dot(s.q, x)
}

func (s *scorer) inverseOfBytes(x []uint8, c, at int) float32 {
	if inv, ok := s.v.Rows.invNorm(c, at); ok {
		return inv
	}
	var sum uint64
	for _, u := range x {
		sum += uint64(u) * uint64(u)
	}
	if sum == 0 {
		return 0
	}
	return float32(1 / math.Sqrt(float64(sum)))
}

// cosineDistance returns 1 - dot/(|q||x|) from inverse norms, clamped to 0…2 against rounding;
// inverse norms of zero give 1.
func cosineDistance(dot, qInv, inv float32) float32 {
	return min(max(1-dot*qInv*inv, 0), 2)
}

// invNorm returns the stored inverse norm of row at of chunk c, if there is one.
func (r *RowSet) invNorm(c, at int) (float32, bool) {
	if c < len(r.InvNorm) && at < len(r.InvNorm[c]) {
		return r.InvNorm[c][at], true
	}
	return 0, false
}

// grow returns a slice of n elements, with x's memory where it suffices.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n, n+n/4)
	}
	return x[:n]
}
