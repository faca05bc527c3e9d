package grouped

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestSums compares sums with those that were added.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			label uint32
			sum   int64
		}
		var s Sums
		var want, got []pair
		for range rapid.IntRange(0, 20).Draw(t, "labels") {
			p := pair{rapid.Uint32Max(99).Draw(t, "label"), rapid.Int64Range(1, math.MaxInt64).Draw(t, "sum")}
			want = append(want, p)
			s.Add(p.label, p.sum)
		}
		err := s.Each(100, func(label uint32, sum int64) { got = append(got, pair{label, sum}) })
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
	})
}

// FuzzSums reads bytes that are no sums: an error, or sums of labels that there are.
func FuzzSums(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{1, 255, 255, 255, 255, 255, 1, 1, 0})
	f.Fuzz(func(t *testing.T, pairs []byte) {
		s := Sums{Pairs: pairs}
		_ = s.Each(5, func(label uint32, sum int64) {
			if label >= 5 || sum <= 0 {
				t.Fatalf("label %d has the sum %d", label, sum)
			}
		})
	})
}
