package attribute

import (
	"bytes"
	"slices"
)

// Union returns the keys of any of the ranges, as disjoint ranges that are not empty, in ascending
// order. It reorders the ranges that it gets.
func Union(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return bytes.Compare(a.From, b.From) })
	var out []Range
	for _, r := range ranges {
		if r.To != nil && bytes.Compare(r.From, r.To) >= 0 {
			continue
		}
		if n := len(out); n > 0 && (out[n-1].To == nil || bytes.Compare(r.From, out[n-1].To) <= 0) {
			out[n-1].To = later(out[n-1].To, r.To)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// later returns the larger upper bound.
func later(a, b []byte) []byte {
	if a == nil || b == nil {
		return nil
	}
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// Intersect returns the keys that are in ranges of both lists, which must be as Union returns
// them. So is the result.
func Intersect(a, b []Range) []Range {
	var out []Range
	for len(a) > 0 && len(b) > 0 {
		r := Range{From: a[0].From, To: b[0].To}
		if bytes.Compare(b[0].From, r.From) > 0 {
			r.From = b[0].From
		}
		firstEnds := r.To == nil || a[0].To != nil && bytes.Compare(a[0].To, r.To) <= 0
		if firstEnds {
			r.To = a[0].To
		}
		if r.To == nil || bytes.Compare(r.From, r.To) < 0 {
			out = append(out, r)
		}
		if firstEnds {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}
