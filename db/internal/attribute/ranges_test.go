package attribute

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ranges() *rapid.Generator[[]Range] {
	bound := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 2)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
		r := Range{From: bound.Draw(t, "from"), To: bound.Draw(t, "to")}
		if rapid.IntRange(0, 4).Draw(t, "open") == 0 {
			r.To = nil
		}
		return r
	}), 0, 6)
}

// TestRanges compares unions and intersections with the membership of single keys.
func TestRanges(t *testing.T) {
	contains := func(list []Range, key []byte) bool {
		return slices.ContainsFunc(list, func(r Range) bool { return r.Contains(key) })
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := ranges().Draw(t, "a"), ranges().Draw(t, "b")
		ua, ub := Union(slices.Clone(a)), Union(slices.Clone(b))
		both := Intersect(ua, ub)
		for _, list := range [][]Range{ua, ub, both} {
			for i, r := range list {
				if r.To != nil && bytes.Compare(r.From, r.To) >= 0 ||
					i > 0 && (list[i-1].To == nil || bytes.Compare(list[i-1].To, r.From) > 0) {
					t.Fatalf("ranges %v are empty, overlap or are not ordered", list)
				}
			}
		}
		for i := range 4 * 4 * 4 {
			for n := range 4 {
				key := []byte{byte(i >> 4), byte(i >> 2 & 3), byte(i & 3)}[:n]
				inA, inB := contains(a, key), contains(b, key)
				if contains(ua, key) != inA || contains(ub, key) != inB {
					t.Fatalf("key %v: unions differ from their parts", key)
				}
				if got := contains(both, key); got != (inA && inB) {
					t.Fatalf("key %v in both: %t", key, got)
				}
			}
		}
	})
}
