package labels

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Patched is counts that follow a stream of changes: those of some rows, which
// stay as they are, and what has become of them since. Both do not change.
type Patched struct {
	// Base has pairs of features and labels; its Square and Rows are not read.
	Base *FeatureLabels
	// Patch has the pairs whose sum is another one than in Base, or new; a sum
	// of zero is that of a pair which is gone. Square and Rows are those of all
	// rows, and say how many features and labels there are.
	Patch *FeatureLabels
}

// Change is the patch after some rows were taken away and others added: with
// it the counts are those of the rows that there are then, counted afresh. add
// may have more features and labels. O(features + labels + the patch + the
// pairs of the change · log L).
//
// Errors: ErrInput if rows are taken away that were never counted.
func (p *Patched) Change(add, sub *FeatureLabels) (*FeatureLabels, error) {
	old := p.Patch
	m, l := max(old.Features(), add.Features()), max(old.Labels(), add.Labels())
	out := &FeatureLabels{Ptr: make([]uint64, 1, m+1), Square: make([]Uint128, m), Rows: make([]uint32, l)}
	if sub.Features() > old.Features() || sub.Labels() > old.Labels() {
		return nil, tooMuch("a shape of", fmt.Sprintf("%d×%d", sub.Features(), sub.Labels()))
	}
	copy(out.Square, old.Square)
	for f, q := range sub.Square {
		var ok bool
		if out.Square[f], ok = out.Square[f].sub(q); !ok {
			return nil, tooMuch("feature", f)
		}
	}
	for f, q := range add.Square {
		out.Square[f] = out.Square[f].add(q)
	}
	copy(out.Rows, old.Rows)
	for j, n := range sub.Rows {
		if n > out.Rows[j] {
			return nil, tooMuch("label", j)
		}
		out.Rows[j] -= n
	}
	for j, n := range add.Rows {
		out.Rows[j] += n
	}
	for f := range m {
		if err := p.change(f, add, sub, out); err != nil {
			return nil, err
		}
		out.Ptr = append(out.Ptr, uint64(len(out.Label)))
	}
	return out, nil
}

func tooMuch(what string, i any) error {
	return fmt.Errorf("%w: %s %v: more is taken away than there is", ErrInput, what, i)
}

// change appends a feature's pairs of the new patch.
func (p *Patched) change(f int, add, sub, out *FeatureLabels) error {
	base, baseSum := p.Base.row(f)
	old, oldSum := p.Patch.row(f)
	a, aSum := add.row(f)
	s, sSum := sub.row(f)
	for len(a) > 0 || len(s) > 0 {
		l := ^uint32(0)
		if len(a) > 0 {
			l = a[0]
		}
		if len(s) > 0 {
			l = min(l, s[0])
		}
		n, known := slices.BinarySearch(old, l)
		out.Label, out.Sum = append(out.Label, old[:n]...), append(out.Sum, oldSum[:n]...)
		at, stood := slices.BinarySearch(base, l)
		var before, sum int64
		if stood {
			before = baseSum[at]
		}
		base, baseSum = base[at:], baseSum[at:]
		if sum = before; known {
			sum = oldSum[n]
			n++
		}
		old, oldSum = old[n:], oldSum[n:]
		if len(s) > 0 && s[0] == l {
			sum -= sSum[0]
			s, sSum = s[1:], sSum[1:]
		}
		if sum < 0 {
			return tooMuch("feature", f)
		}
		if len(a) > 0 && a[0] == l {
			sum += aSum[0]
			a, aSum = a[1:], aSum[1:]
		}
		if sum != before {
			out.Label, out.Sum = append(out.Label, l), append(out.Sum, sum)
		}
	}
	out.Label, out.Sum = append(out.Label, old...), append(out.Sum, oldSum...)
	return nil
}

// Whole is the counts without a patch. O(all pairs).
func (p *Patched) Whole() *FeatureLabels {
	m := p.Patch.Features()
	n := len(p.Base.Label) + len(p.Patch.Label)
	out := &FeatureLabels{
		Ptr: make([]uint64, 1, m+1), Label: make([]uint32, 0, n), Sum: make([]int64, 0, n),
		Square: slices.Clone(p.Patch.Square), Rows: slices.Clone(p.Patch.Rows),
	}
	for f := range m {
		base, baseSum := p.Base.row(f)
		patch, patchSum := p.Patch.row(f)
		for i, l := range patch {
			at, stood := slices.BinarySearch(base, l)
			out.Label, out.Sum = append(out.Label, base[:at]...), append(out.Sum, baseSum[:at]...)
			if stood {
				at++
			}
			base, baseSum = base[at:], baseSum[at:]
			if patchSum[i] > 0 {
				out.Label, out.Sum = append(out.Label, l), append(out.Sum, patchSum[i])
			}
		}
		out.Label, out.Sum = append(out.Label, base...), append(out.Sum, baseSum...)
		out.Ptr = append(out.Ptr, uint64(len(out.Label)))
	}
	return out
}

// Powers makes the matrix for the power beta: S is that of the base, whose
// values are given, nil to compute them.
//
// Errors: ErrInput unless beta is above 0 and finite.
func (p *Patched) Powers(beta float64, base *vector.CSR) (*Powers, error) {
	out, err := p.Patch.Powers(beta)
	if err != nil {
		return nil, err
	}
	out.Patch, out.S = out.S, base
	if base == nil {
		out.S = p.Base.matrix(out.Beta)
	}
	out.Tally()
	return out, nil
}
