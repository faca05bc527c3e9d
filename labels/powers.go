package labels

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Powers is the matrix of definition 8: S with every cosine raised to a power. It is stored as
// factors, so that adding a row changes few numbers:
//
//	S[f,l]^β = (f·l)^β · |f|^−β · |l|^−β
//
// A pair's entry changes only with rows that have both the feature and the label. The lengths
// of the columns are stored separately.
type Powers struct {
	// Beta is the power of the stored numbers: StoredPower of the requested one.
	Beta float64
	// Parts hold (f·l)^β, M × L. An entry of a later part replaces that of an earlier one; zero
	// means no entry. A feature for which a later part has values of all labels has no others.
	Parts []Pairs
	// Feature holds |f|^−β, Label |l|^−β; 0 for columns of zeros.
	Feature, Label []float64
}

// Pairs holds a number for each pair of a feature and a label that share a row, by feature.
// Its slices are flat, so that they can be stored and memory-mapped unchanged.
type Pairs struct {
	Ptr   []uint64 // M + 1 offsets into Label, the first zero
	Label []uint32 // the labels of each feature, ascending
	Start []uint64 // M + 1 offsets into Value, the first zero
	// Value has a number for each label of a feature. A feature with many labels has numbers for
	// all labels instead, 0 where there is no pair, and for further ones up to a multiple of
	// vector.RowCells, so that they can be added by vector instructions.
	Value []float32
}

// stride returns the number of values of a feature that has values for all labels.
func stride(labels int) int {
	return (labels + vector.RowCells - 1) / vector.RowCells * vector.RowCells
}

// maxStored is the largest power that can be stored: in float32 the least possible sum to this
// power is above zero, and the largest is finite.
const maxStored = 4

// StoredPower returns the power that Powers holds for a requested one: the power itself, or 1
// if float32 could not hold the numbers; then the caller raises them to the power when they are
// used.
func StoredPower(beta float64) float64 {
	if beta > maxStored {
		return 1
	}
	return beta
}

// Powers returns the matrix for the power beta. It shares the index slices with s. O(entries).
//
// Errors: ErrInput unless beta is above 0 and finite.
func (s *FeatureLabels) Powers(beta float64) (*Powers, error) {
	if !(beta > 0) || math.IsInf(beta, 1) {
		return nil, fmt.Errorf("%w: power %v", ErrInput, beta)
	}
	beta = StoredPower(beta)
	p := &Powers{Beta: beta, Parts: []Pairs{s.Pairs(beta)}, Feature: make([]float64, s.Features()),
		Label: make([]float64, s.Labels())}
	for f, square := range s.Square {
		p.Feature[f] = inverse(square.root(), beta)
	}
	for l, n := range s.Rows {
		p.Label[l] = inverse(math.Sqrt(float64(n)), beta)
	}
	return p, nil
}

// Pairs returns the sums raised to a power, which StoredPower has returned. A feature has values for
// all labels if these are at most twice as many.
func (s *FeatureLabels) Pairs(beta float64) Pairs {
	p := Pairs{Ptr: s.Ptr, Label: s.Label, Start: make([]uint64, 1, len(s.Ptr)), Value: make([]float32,
		0, len(s.Label))}
	all := stride(s.Labels())
	for f := range len(s.Ptr) - 1 {
		set, sums := s.row(f)
		at := len(p.Value)
		if many := len(set) > 0 && 2*len(set) >= all; many {
			p.Value = append(p.Value, make([]float32, all)...)
			for e, l := range set {
				p.Value[at+int(l)] = float32(Power(float64(sums[e])/unit, beta))
			}
		} else {
			for _, sum := range sums {
				p.Value = append(p.Value, float32(Power(float64(sum)/unit, beta)))
			}
		}
		p.Start = append(p.Start, uint64(len(p.Value)))
	}
	return p
}

// inverse returns x to the power −beta, 0 for x = 0.
func inverse(x, beta float64) float64 {
	if x == 0 {
		return 0
	}
	return 1 / Power(x, beta)
}

// Power returns x to the power p, for x ≥ 0. The powers of the paper's grid need no logarithm.
func Power(x, p float64) float64 {
	switch p {
	case 1:
		return x
	case 2:
		return x * x
	case 0.5:
		return math.Sqrt(x)
	case 1.5:
		return x * math.Sqrt(x)
	}
	return math.Pow(x, p)
}

// Features returns M, the number of features.
func (p *Pairs) Features() int { return max(0, len(p.Ptr)-1) }

// Row returns the labels of a feature, none beyond the matrix, and their values: value[i] is that
// of label set[i] or, if all is set, of label i.
func (p *Pairs) Row(f int) (set []uint32, value []float32, all bool) {
	if f >= p.Features() {
		return nil, nil, false
	}
	set, value = p.Label[p.Ptr[f]:p.Ptr[f+1]], p.Value[p.Start[f]:p.Start[f+1]]
	n := len(value)
	return set, value, n > 0 && n%vector.RowCells == 0 && (n > len(set) || int(set[n-1]) == n-1)
}

// Validate checks pairs of memory from outside with so many labels. O(entries).
func (p *Pairs) Validate(labels int) error {
	m := vector.CSR{Ptr: p.Ptr, Index: p.Label, Cols: labels}
	if err := m.Validate(); err != nil {
		return err
	}
	if len(p.Start) != len(p.Ptr) || p.Start[0] != 0 || p.Start[len(p.Start)-1] != uint64(len(p.Value)) {
		return errors.New("offsets of values")
	}
	for f := range p.Features() {
		if p.Start[f] > p.Start[f+1] || p.Start[f+1] > uint64(len(p.Value)) {
			return fmt.Errorf("offsets of the values of feature %d", f)
		}
		set, value, all := p.Row(f)
		if n := len(value); n != len(set) && (!all || n > stride(labels) || len(set) > 0 &&
			int(set[len(set)-1]) >= n) {
			return fmt.Errorf("feature %d has %d labels and %d values", f, len(set), n)
		} else if all && slices.ContainsFunc(value[min(labels, n):], func(x float32) bool { return x != 0 }) {
			return fmt.Errorf("feature %d has values of further labels", f)
		}
	}
	for _, x := range p.Value {
		if !(x >= 0 && x <= math.MaxFloat32) {
			return fmt.Errorf("the value %g", x)
		}
	}
	return nil
}

// Seen reports whether any row has feature f. Definition 8 sums over the features of the data set,
// so it leaves out the others.
func (p *Powers) Seen(f int) bool { return f < len(p.Feature) && p.Feature[f] > 0 }

// At returns the entry of feature f and label l, to the power Beta, in 0…1; 0 if there is none.
// O(log L).
func (p *Powers) At(f, l int) float64 {
	for i := len(p.Parts) - 1; i >= 0; i-- {
		set, value, all := p.Parts[i].Row(f)
		e, ok := slices.BinarySearch(set, uint32(l))
		if !ok {
			continue
		}
		if all {
			e = l
		}
		return min(1, float64(value[e])*p.Feature[f]*p.Label[l])
	}
	return 0
}
