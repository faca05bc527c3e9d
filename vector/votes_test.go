package vector

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAddVotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 10, 300, 1<<16 - 1, 1 << 16, 1<<16 + 3}).Draw(t, "counters")
		label := rapid.OneOf(rapid.Uint16(), rapid.Uint16Range(0, 9))
		labels := rapid.SliceOfN(label, 0, 40).Draw(t, "labels")
		weights := rapid.SliceOfN(rapid.Uint8(), 0, 40).Draw(t, "weights")
		got, want := make([]uint16, size), make([]uint16, size)
		for i := range min(len(labels), len(weights)) {
			if int(labels[i]) < size {
				want[labels[i]] += uint16(weights[i])
			}
		}
		AddVotes(got, labels, weights)
		if !slices.Equal(got, want) {
			t.Fatal("votes differ")
		}
	})
}

func TestAddVotesWraps(t *testing.T) {
	for _, size := range []int{8, 1 << 16} {
		votes := make([]uint16, size)
		for range 257 {
			AddVotes(votes, []uint16{7}, []uint8{255})
		}
		if votes[7] != 65_535 {
			t.Errorf("257 votes of 255: %d", votes[7])
		}
		AddVotes(votes, []uint16{7}, []uint8{2})
		if votes[7] != 1 {
			t.Errorf("two more: %d, want 1", votes[7])
		}
	}
}
