package labels

import (
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Powers is the matrix of definition 8: S with every cosine raised to a power. It is stored as
// factors, so that adding or removing a row changes few numbers:
//
//	S[f,l]^β = (f·l)^β · |f|^−β · |l|^−β
//
// A pair's entry changes only with rows that have both the feature and the label. The lengths
// of the columns are stored separately.
type Powers struct {
	// Beta is the power of the stored numbers: StoredPower of the requested one.
	Beta float64
	// S holds (f·l)^β, M × L. Entries of Patch, which may be nil, replace those of S; zero
	// means no entry.
	S, Patch *vector.CSR
	// Feature holds |f|^−β, Label |l|^−β; 0 for columns of zeros. nil means ones, for a matrix
	// S that includes these factors.
	Feature, Label []float64
	// Count is the number of entries of each feature, nil if S has them all. With is the number
	// of labels that have any row, zero if all have one.
	Count []uint32
	With  int
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
	p := &Powers{Beta: beta, S: s.matrix(beta), Feature: make([]float64, s.Features()),
		Label: make([]float64, s.Labels())}
	for f, square := range s.Square {
		p.Feature[f] = inverse(square.root(), beta)
	}
	for l, n := range s.Rows {
		p.Label[l] = inverse(math.Sqrt(float64(n)), beta)
	}
	p.With = p.withRows()
	return p, nil
}

// matrix returns the sums raised to a power.
func (s *FeatureLabels) matrix(beta float64) *vector.CSR {
	m := &vector.CSR{Ptr: s.Ptr, Index: s.Label, Value: make([]float32, len(s.Label)), Cols: s.Labels()}
	for e, sum := range s.Sum {
		m.Value[e] = float32(Power(float64(sum)/unit, beta))
	}
	return m
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

// Row returns the entries of a feature in S and those of the patch that replace them; none
// beyond the matrix.
func (p *Powers) Row(f int) (row, patch vector.Sparse) {
	if f < p.S.Rows() {
		row = p.S.Row(f)
	}
	if p.Patch != nil && f < p.Patch.Rows() {
		patch = p.Patch.Row(f)
	}
	return row, patch
}

// Features returns M, the number of features.
func (p *Powers) Features() int {
	if p.Patch != nil {
		return max(p.S.Rows(), p.Patch.Rows())
	}
	return p.S.Rows()
}

// Labels returns L, the number of labels.
func (p *Powers) Labels() int { return max(p.S.Cols, len(p.Label)) }

// Seen reports whether any row has feature f. Definition 8 sums over the features of the data set,
// so it leaves out the others.
func (p *Powers) Seen(f int) bool {
	if p.Feature == nil {
		return f < p.Features()
	}
	return f < len(p.Feature) && p.Feature[f] > 0
}

// Pairs returns the number of entries of a feature.
func (p *Powers) Pairs(f int) int {
	switch {
	case p.Count != nil && f < len(p.Count):
		return int(p.Count[f])
	case f < p.S.Rows():
		return int(p.S.Ptr[f+1] - p.S.Ptr[f])
	}
	return 0
}

// withRows counts the labels that have any row.
func (p *Powers) withRows() int {
	n := 0
	for _, x := range p.Label {
		if x > 0 {
			n++
		}
	}
	return n
}

// Tally sets Count and With from Patch and Label. O(M + L + entries of Patch · log L).
func (p *Powers) Tally() {
	p.Count, p.With = nil, p.withRows()
	if p.Patch == nil || len(p.Patch.Index) == 0 {
		return
	}
	p.Count = make([]uint32, p.Features())
	for f := range p.Count {
		row, patch := p.Row(f)
		n := row.Len()
		for e, l := range patch.Index {
			_, stood := slices.BinarySearch(row.Index, l)
			switch {
			case patch.Value[e] > 0 && !stood:
				n++
			case patch.Value[e] == 0 && stood:
				n--
			}
		}
		p.Count[f] = uint32(n)
	}
}

// At returns the entry of feature f and label l, to the power Beta, in 0…1; 0 if there is none.
// O(log L).
func (p *Powers) At(f, l int) float64 {
	row, patch := p.Row(f)
	i, ok := slices.BinarySearch(patch.Index, uint32(l))
	if ok {
		row = patch
	} else if i, ok = slices.BinarySearch(row.Index, uint32(l)); !ok {
		return 0
	}
	x := float64(row.Value[i])
	if p.Feature != nil {
		x *= p.Feature[f]
	}
	if p.Label != nil {
		x *= p.Label[l]
	}
	return min(1, x)
}
