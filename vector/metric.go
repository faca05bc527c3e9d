package vector

import (
	"errors"
	"fmt"
	"math"
)

// ErrMetric is returned by ParseMetric for a name it does not know.
var ErrMetric = errors.New("vector: unknown metric")

// Metric is a dissimilarity of vectors. The names are part of the file format.
type Metric uint8

const (
	// L2 is the Euclidean distance.
	L2 Metric = 1 + iota
	// Cosine is one minus the cosine of the angle.
	Cosine
	// InnerProduct is the negated dot product: the largest product is nearest.
	InnerProduct
)

// String returns the metric's name as ParseMetric reads it.
func (m Metric) String() string {
	switch m {
	case L2:
		return "l2"
	case Cosine:
		return "cosine"
	case InnerProduct:
		return "ip"
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
}

// ParseMetric reads "l2", "cosine" or "ip". Errors: ErrMetric.
func ParseMetric(name string) (Metric, error) {
	for _, m := range []Metric{L2, Cosine, InnerProduct} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%w: %q, want l2, cosine or ip", ErrMetric, name)
}

// MarshalText returns the name.
func (m Metric) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMetric.
func (m *Metric) UnmarshalText(name []byte) (err error) {
	*m, err = ParseMetric(string(name))
	return err
}

// CosineDistance returns 1 - a·b/(|a||b|), in [0, 2], over the shorter length. It
// returns 1 if the squared norm of a vector is zero or underflows to zero, 0 for
// equal vectors, and NaN if an element is NaN or a squared norm overflows.
func CosineDistance(a, b []float32) float32 {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	na, nb := float64(Dot(a, a)), float64(Dot(b, b))
	if na == 0 || nb == 0 {
		return 1
	}
	return float32(min(max(1-float64(Dot(a, b))/math.Sqrt(na*nb), 0), 2))
}

// smallSquare is the squared norm below which a float32 sum is inaccurate or zero.
const smallSquare = 0x1p-100

// InverseNorm returns 1/|x|, or zero for the zero vector. It computes the squared
// norm with Dot, or in double precision if it is too small for float32. The result is
// infinite for vectors shorter than about 3e-39. Stored rows and rows that are not
// stored yet must get the same bits, so all callers use this function.
func InverseNorm(x []float32) float32 {
	n := float64(Dot(x, x))
	if n < smallSquare {
		n = 0
		for _, y := range x {
			n += float64(y) * float64(y)
		}
	}
	if n > 0 {
		return float32(1 / math.Sqrt(n))
	}
	return 0
}

// IsFinite returns the index of the first NaN or infinity in x, or -1. O(n), eight
// floats at a time if the processor supports it.
func IsFinite(x []float32) int {
	if allFinite(x) {
		return -1
	}
	return firstNotFinite(x)
}
