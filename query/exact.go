package query

import (
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

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

// quantScorer ranks rows by the 8-bit copy: integer distances to the query
// rounded to the copy's steps.
type quantScorer struct {
	v    *QuantView
	q    []uint8
	mask int
}

// reset loads the query in the partition space. Coordinates outside the copy's range are
// clamped, which moves the query to the nearest point of the box that contains all rows.
func (s *quantScorer) reset(v *QuantView, q []float32) {
	s.v, s.mask = v, 1<<v.Shift-1
	s.q = grow(s.q, len(q))
	for i, x := range q {
		s.q[i] = uint8(max(0, min(255, (x-v.Offset)/v.Step)) + 0.5)
	}
}

func (s *quantScorer) distance(row uint32) float32 {
	d := len(s.q)
	at := (int(row) & s.mask) * d
	return float32(vector.L2SquaredUint8(s.q, s.v.Chunks[row>>s.v.Shift][at:at+d]))
}

// grow returns a slice of n elements, with x's memory where it suffices.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n, n+n/4)
	}
	return x[:n]
}
