package labels

import (
	"slices"
	"testing"
)

// A sample has rows from all of the test part, not its first ones.
func TestSample(t *testing.T) {
	f := Fold{Test: []int{2, 3, 5, 7, 11, 13, 17}}
	for n, want := range map[int][]int{0: {}, 1: {2}, 3: {2, 5, 11}, 6: {2, 3, 5, 7, 11, 13}, 7: f.Test, 9: f.Test} {
		if got := f.Sample(n); !slices.Equal(got, want) {
			t.Errorf("%d rows: %d, want %d", n, got, want)
		}
	}
}
