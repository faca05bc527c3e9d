package labels

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// Values are summed as integers in units of 2⁻³⁶. Integer sums do not depend on the order, so
// parallel building and adding or removing rows give the same bits as one pass over the
// remaining rows. The rounding error of a value is at most 2⁻³⁷, about 10⁻¹¹, which is below
// the precision of float32 for values above 10⁻⁴. A sum of 2²⁶ rows fits into 63 bits.
const (
	unitBits = 36
	unit     = 1 << unitBits
	// MaxValue is the largest feature value that [CountFeatureLabels] accepts. Rows of unit
	// length stay below it even after rounding.
	MaxValue = 2
)

// FeatureLabels holds the exact sums behind the matrix S of cosines between feature columns and
// label columns (definition 7, algorithm 4): for each feature and label that share a row the
// sum of the feature's values over the label's rows, the squared length of each feature column
// and the number of rows of each label. Adding and removing rows is exact: the result equals a
// count of the remaining rows.
//
// FeatureLabels is immutable and safe for concurrent use. Its slices are flat, so that they can
// be stored and memory-mapped unchanged.
type FeatureLabels struct {
	Ptr    []uint64 // M + 1 offsets into Label and Sum, the first zero
	Label  []uint32 // the labels of each feature, ascending
	Sum    []int64  // f·l in units of 2⁻³⁶, above zero
	Square []Uint128
	Rows   []uint32 // L: number of rows of each label
}

// Uint128 is a sum of squares in units of 2⁻⁷².
type Uint128 struct{ Hi, Lo uint64 }

// Add returns a + b.
func (a Uint128) Add(b Uint128) Uint128 {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(a.Hi, b.Hi, carry)
	return Uint128{hi, lo}
}

// sub returns a − b and reports whether b ≤ a.
func (a Uint128) sub(b Uint128) (Uint128, bool) {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, borrow := bits.Sub64(a.Hi, b.Hi, borrow)
	return Uint128{hi, lo}, borrow == 0
}

// root returns the square root of the sum: a column's length.
func (a Uint128) root() float64 {
	return math.Sqrt(math.Ldexp(float64(a.Hi), 64)+float64(a.Lo)) / unit
}

// Features returns M, the number of features.
func (s *FeatureLabels) Features() int { return len(s.Square) }

// Labels returns L, the number of labels.
func (s *FeatureLabels) Labels() int { return len(s.Rows) }

// quantum returns a value in units of 2⁻³⁶.
func quantum(v float32) int64 { return int64(math.Round(float64(v) * unit)) }

// chunk is the number of features in one task of a worker.
const chunk = 256

// CountFeatureLabels counts the rows of a training part. features is N × M: rows of unit length
// with values in 0…MaxValue. labels is N × L. workers < 1 means all processors; the answer does
// not depend on it. Time O(Σ over rows of features · labels); memory: twice the result and one
// copy of the features.
//
// Errors: ErrShape; ErrInput for a value that is negative, above MaxValue or not finite; the
// context's error.
func CountFeatureLabels(ctx context.Context, features *vector.CSR, labels *Matrix,
	workers int) (*FeatureLabels, error) {
	if features.Rows() != labels.Rows() {
		return nil, fmt.Errorf("%w: %d rows of features, %d of labels", ErrShape, features.Rows(),
			labels.Rows())
	}
	if features.Value == nil && len(features.Index) > 0 {
		return nil, fmt.Errorf("%w: features without values", ErrInput)
	}
	if err := features.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	for e, v := range features.Value {
		if v < 0 || v > MaxValue {
			return nil, fmt.Errorf("%w: feature %d has the value %g, want 0 to %d: rows of unit length",
				ErrInput, features.Index[e], v, MaxValue)
		}
	}
	columns := features.Transpose()
	m := columns.Rows()
	s := &FeatureLabels{Ptr: make([]uint64, 1, m+1), Square: make([]Uint128, m),
		Rows: LabelRows[uint32](labels)}
	parts, err := inParts(ctx, m, workers, func() func(lo, hi int) (part, error) {
		c := &counter{columns: columns, labels: labels, sums: make([]int64, labels.Labels()),
			square: s.Square}
		return func(lo, hi int) (part, error) { return c.count(lo, hi), nil }
	})
	if err != nil {
		return nil, fmt.Errorf("labels: count feature-label pairs: %w", err)
	}
	s.join(parts)
	return s, nil
}

// inParts computes the pairs of m features, chunk by chunk. start returns the function that a
// goroutine calls for each chunk. Errors: that of the first chunk that fails, and the
// context's.
func inParts(ctx context.Context, m, workers int,
	start func() func(lo, hi int) (part, error)) ([]part, error) {
	parts := make([]part, (m+chunk-1)/chunk)
	err := par.Ranges(ctx, par.Work{N: m, Grain: chunk, Workers: workers}, func() func(lo, hi int) error {
		count := start()
		return func(lo, hi int) (err error) {
			parts[lo/chunk], err = count(lo, hi)
			return err
		}
	})
	return parts, err
}

// join concatenates the pairs of all features and frees the parts.
func (s *FeatureLabels) join(parts []part) {
	n := 0
	for _, p := range parts {
		n += len(p.label)
	}
	s.Label, s.Sum = make([]uint32, 0, n), make([]int64, 0, n)
	for i, p := range parts {
		for _, end := range p.ends {
			s.Ptr = append(s.Ptr, uint64(len(s.Label)+end))
		}
		s.Label, s.Sum = append(s.Label, p.label...), append(s.Sum, p.sum...)
		parts[i] = part{}
	}
}

// part holds the pairs of a range of features.
type part struct {
	label []uint32
	sum   []int64
	ends  []int // end of each feature's labels
}

// counter is one worker's scratch.
type counter struct {
	columns *vector.CSR
	labels  *Matrix
	sums    []int64 // one per label, zero between features
	met     []uint32
	square  []Uint128 // one per feature; a worker writes only its own features
}

// count sums features lo to hi: for each row of a feature's column, for each label of the row.
func (c *counter) count(lo, hi int) part {
	var p part
	for f := lo; f < hi; f++ {
		column := c.columns.Row(f)
		c.met = c.met[:0]
		for i, row := range column.Index {
			q := quantum(column.Value[i])
			if q == 0 {
				continue
			}
			high, low := bits.Mul64(uint64(q), uint64(q))
			c.square[f] = c.square[f].Add(Uint128{high, low})
			for _, l := range c.labels.Row(int(row)) {
				if c.sums[l] == 0 {
					c.met = append(c.met, l)
				}
				c.sums[l] += q
			}
		}
		slices.Sort(c.met)
		for _, l := range c.met {
			p.label = append(p.label, l)
			p.sum = append(p.sum, c.sums[l])
			c.sums[l] = 0
		}
		p.ends = append(p.ends, len(p.label))
	}
	return p
}

// Sub returns the counts of s without those of t: the counts of the rows of s that are not rows
// of t. The numbers of features and labels do not change. O(size of both).
//
// Errors: ErrInput if t counts a pair more often than s.
func (s *FeatureLabels) Sub(t *FeatureLabels) (*FeatureLabels, error) {
	m := max(s.Features(), t.Features())
	out := &FeatureLabels{
		Ptr: make([]uint64, 1, m+1), Square: make([]Uint128, m),
		Rows:  make([]uint32, max(s.Labels(), t.Labels())),
		Label: make([]uint32, 0, len(s.Label)), Sum: make([]int64, 0, len(s.Label)),
	}
	copy(out.Rows, s.Rows)
	for j, n := range t.Rows {
		if n > out.Rows[j] {
			return nil, tooMuch("label", j)
		}
		out.Rows[j] -= n
	}
	copy(out.Square, s.Square)
	for f, q := range t.Square {
		var ok bool
		if out.Square[f], ok = out.Square[f].sub(q); !ok {
			return nil, tooMuch("feature", f)
		}
	}
	for f := range m {
		have, haveSum := s.row(f)
		less, lessSum := t.row(f)
		for i, l := range have {
			sum := haveSum[i]
			if len(less) > 0 && less[0] == l {
				sum -= lessSum[0]
				less, lessSum = less[1:], lessSum[1:]
			}
			if sum < 0 {
				return nil, tooMuch("feature", f)
			}
			if sum > 0 {
				out.Label, out.Sum = append(out.Label, l), append(out.Sum, sum)
			}
		}
		if len(less) > 0 { // t counts a label that s does not have
			return nil, tooMuch("feature", f)
		}
		out.Ptr = append(out.Ptr, uint64(len(out.Label)))
	}
	return out, nil
}

func tooMuch(what string, i any) error {
	return fmt.Errorf("%w: %s %v: more is taken away than there is", ErrInput, what, i)
}

// Extended returns what further rows change in the counts of s: the pairs that these rows have, with the
// sums over all rows, and the squared lengths and numbers of rows of all. So the answer equals a count of
// all rows, but for the pairs that only rows of s have; a feature for which Pairs stores values of all
// labels has all of its pairs. O(features + labels + pairs of more · log L).
//
// Errors: ErrInput for a sum that is not above zero or exceeds 63 bits.
func (s *FeatureLabels) Extended(more []*FeatureLabels) (*FeatureLabels, error) {
	out := &FeatureLabels{Ptr: make([]uint64, 1), Square: slices.Clone(s.Square), Rows: slices.Clone(s.Rows)}
	for _, t := range more {
		out.Square = append(out.Square, make([]Uint128, max(0, t.Features()-len(out.Square)))...)
		for f, q := range t.Square {
			out.Square[f] = out.Square[f].Add(q)
		}
		out.Rows = append(out.Rows, make([]uint32, max(0, t.Labels()-len(out.Rows)))...)
		for l, n := range t.Rows {
			out.Rows[l] += n
		}
	}
	sums := make([]int64, out.Labels()) // zero between features
	for f := range out.Features() {
		from := len(out.Label)
		for _, t := range more {
			set, sum := t.row(f)
			for i, l := range set {
				if sums[l] == 0 {
					out.Label = append(out.Label, l)
				}
				if sums[l] += sum[i]; sum[i] <= 0 || sums[l] <= 0 {
					return nil, fmt.Errorf("%w: feature %d and label %d have the sum %d", ErrInput, f, l, sum[i])
				}
			}
		}
		set, sum := s.row(f)
		if own := out.Label[from:]; len(own) > 0 && 2*(len(own)+len(set)) >= stride(out.Labels()) {
			out.Label = append(out.Label, set...)
		}
		own := out.Label[from:]
		slices.Sort(own)
		own = slices.Compact(own)
		out.Label = out.Label[:from+len(own)]
		for _, l := range own {
			total := sums[l]
			at, both := slices.BinarySearch(set, l)
			if set, sum = set[at:], sum[at:]; both {
				if total += sum[0]; sum[0] <= 0 || total <= 0 {
					return nil, fmt.Errorf("%w: feature %d and label %d have the sum %d", ErrInput, f, l, sum[0])
				}
			}
			out.Sum, sums[l] = append(out.Sum, total), 0
		}
		out.Ptr = append(out.Ptr, uint64(len(out.Label)))
	}
	return out, nil
}

// row returns a feature's labels and sums; none for a feature beyond the matrix.
func (s *FeatureLabels) row(f int) ([]uint32, []int64) {
	if f >= len(s.Ptr)-1 {
		return nil, nil
	}
	lo, hi := s.Ptr[f], s.Ptr[f+1]
	return s.Label[lo:hi], s.Sum[lo:hi]
}
