package labels

import (
	"context"
	"fmt"
	"slices"
)

// Patched holds counts that follow a stream of changes: an immutable base and an immutable
// patch of what has changed since.
type Patched struct {
	// Base has pairs of features and labels; its Square and Rows are not read.
	Base *FeatureLabels
	// Patch has the pairs that are new or whose sum differs from Base; a sum of zero marks a
	// deleted pair. Its Square and Rows are those of all rows and define the numbers of
	// features and labels.
	Patch *FeatureLabels
}

// Change returns the patch after some rows were removed and others added: with it the counts
// equal those of the remaining rows. add may have more features and labels. workers < 1 means
// all processors; the answer does not depend on it. O(features + labels + the patch + the pairs
// of the change · log L).
//
// Errors: ErrInput if rows are removed that were never counted.
func (p *Patched) Change(add, sub *FeatureLabels, workers int) (*FeatureLabels, error) {
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
	parts, err := inParts(context.Background(), m, workers, func() func(lo, hi int) (part, error) {
		return func(lo, hi int) (c part, err error) {
			for f := lo; f < hi && err == nil; f++ {
				err = p.change(f, add, sub, &c)
			}
			return c, err
		}
	})
	if err != nil {
		return nil, err
	}
	out.join(parts)
	return out, nil
}

func tooMuch(what string, i any) error {
	return fmt.Errorf("%w: %s %v: more is taken away than there is", ErrInput, what, i)
}

// change appends a feature's pairs to the new patch.
func (p *Patched) change(f int, add, sub *FeatureLabels, out *part) error {
	base, baseSum := p.Base.row(f)
	old, oldSum := p.Patch.row(f)
	a, aSum := add.row(f)
	s, sSum := sub.row(f)
	label, sums := slices.Grow(out.label, len(old)+len(a)+len(s)),
		slices.Grow(out.sum, len(old)+len(a)+len(s))
	var atBase, atOld, atA, atS int
	for atA < len(a) || atS < len(s) {
		l := ^uint32(0)
		if atA < len(a) {
			l = a[atA]
		}
		if atS < len(s) {
			l = min(l, s[atS])
		}
		from := atOld
		for atOld < len(old) && old[atOld] < l {
			atOld++
		}
		label, sums = append(label, old[from:atOld]...), append(sums, oldSum[from:atOld]...)
		atBase = seek(base, atBase, l)
		var before int64
		if atBase < len(base) && base[atBase] == l {
			before = baseSum[atBase]
		}
		sum := before
		if atOld < len(old) && old[atOld] == l {
			sum = oldSum[atOld]
			atOld++
		}
		if atS < len(s) && s[atS] == l {
			sum -= sSum[atS]
			atS++
		}
		if sum < 0 {
			return tooMuch("feature", f)
		}
		if atA < len(a) && a[atA] == l {
			sum += aSum[atA]
			atA++
		}
		if sum != before {
			label, sums = append(label, l), append(sums, sum)
		}
	}
	out.label, out.sum = append(label, old[atOld:]...), append(sums, oldSum[atOld:]...)
	out.ends = append(out.ends, len(out.label))
	return nil
}

// seek returns the first place at or after at whose label is at least l. Its cost grows with
// the distance to that place.
func seek(set []uint32, at int, l uint32) int {
	step := 1
	for at+step <= len(set) && set[at+step-1] < l {
		at += step
		step *= 2
	}
	n, _ := slices.BinarySearch(set[at:min(at+step, len(set))], l)
	return at + n
}

// Whole returns the counts with the patch applied. O(all pairs).
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
