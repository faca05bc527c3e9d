package query

import (
	"math"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// scorer computes exact distances from one query to rows as they are stored.
// The unit is the metric's internal one: squared for L2, 1 - cosine, negated
// dot product.
type scorer struct {
	v       *View
	q       []float32
	q8      []uint8 // q in eight bits where that loses nothing
	whole   bool
	qInv    float32 // inverse norm of q (cosine)
	sealed  int
	mask    int
	rowByte int
}

// reset prepares the scorer for a query.
func (s *scorer) reset(v *View, q []float32) {
	s.v, s.q, s.sealed, s.mask = v, q, v.Rows.Sealed(), 1<<v.Rows.Shift-1
	s.rowByte = 4 * v.Dim
	if v.Rows.AllUint8 {
		s.rowByte = v.Dim
	}
	s.whole = false
	switch v.Metric {
	case vector.Cosine:
		s.qInv = inverseNorm(q)
	case vector.L2:
		if v.Rows.AllUint8 {
			s.whole = true
			if cap(s.q8) < len(q) {
				s.q8 = make([]uint8, len(q))
			}
			s.q8 = s.q8[:len(q)]
			for i, x := range q {
				b := uint8(max(0, min(255, x)))
				if float32(b) != x {
					s.whole = false
					break
				}
				s.q8[i] = b
			}
		}
	}
}

func inverseNorm(x []float32) float32 {
	if n := vector.Dot(x, x); n > 0 {
		return float32(1 / math.Sqrt(float64(n)))
	}
	return 0
}

// prefetch hints that row will be scored soon.
func (s *scorer) prefetch(row uint32) {
	if i := int(row); i < s.sealed {
		c := s.v.Rows.Chunks[i>>s.v.Rows.Shift]
		vector.Prefetch(unsafe.Pointer(&c[(i&s.mask)*s.rowByte]), s.rowByte)
	}
}

// distance is the exact distance of a row.
func (s *scorer) distance(row uint32) float32 {
	r, i, d := s.v.Rows, int(row), s.v.Dim
	if i >= s.sealed {
		x := asFloats(r.Tail[i-s.sealed], d, nil)
		if s.v.Metric == vector.Cosine {
			return 1 - vector.Dot(s.q, x)*s.qInv*inverseNorm(x)
		}
		return s.plain(x)
	}
	c, at := i>>r.Shift, i&s.mask
	chunk := r.Chunks[c]
	if r.Uint8[c] {
		x := chunk[at*d : at*d+d]
		switch {
		case s.whole:
			return float32(vector.L2SquaredUint8(s.q8, x))
		case s.v.Metric == vector.L2:
			return vector.L2SquaredFloat32Uint8(s.q, x)
		case s.v.Metric == vector.Cosine:
			return 1 - vector.DotFloat32Uint8(s.q, x)*s.qInv*r.InvNorm[c][at]
		}
		return -vector.DotFloat32Uint8(s.q, x)
	}
	x := asFloats(chunk[4*at*d:], d, nil)
	if s.v.Metric == vector.Cosine {
		return 1 - vector.Dot(s.q, x)*s.qInv*r.InvNorm[c][at]
	}
	return s.plain(x)
}

func (s *scorer) plain(x []float32) float32 {
	if s.v.Metric == vector.L2 {
		return vector.L2Squared(s.q, x)
	}
	return -vector.Dot(s.q, x)
}

// quantScorer computes distances in the 8-bit copy of the rows.
type quantScorer struct {
	v    *QuantView
	q    []uint8
	mask int
}

func (s *quantScorer) reset(v *QuantView, q []float32) {
	s.v, s.mask = v, 1<<v.Shift-1
	if cap(s.q) < len(q) {
		s.q = make([]uint8, len(q))
	}
	s.q = s.q[:len(q)]
	for i, x := range q {
		s.q[i] = uint8(math.RoundToEven(float64(max(0, min(255, (x-v.Offset)/v.Step)))))
	}
}

func (s *quantScorer) distance(row uint32) float32 {
	d := len(s.q)
	at := (int(row) & s.mask) * d
	return float32(vector.L2SquaredUint8(s.q, s.v.Chunks[row>>s.v.Shift][at:at+d]))
}
