package labels

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sortedCut is cut by trying every number of scores in falling order.
func sortedCut(scores []float32, want float64) float64 {
	slices.Sort(scores)
	slices.Reverse(scores)
	best, gap := 0, math.Abs(want)
	for n := 1; n <= len(scores); n++ {
		if n < len(scores) && scores[n] == scores[n-1] {
			continue
		}
		if g := math.Abs(float64(n) - want); g < gap {
			best, gap = n, g
		}
	}
	switch best {
	case 0:
		return math.Nextafter(float64(scores[0]), math.Inf(1))
	case len(scores):
		return float64(scores[best-1]) / 2
	}
	return (float64(scores[best-1]) + float64(scores[best])) / 2
}

func TestCutIsThatOfSortedScores(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 3000)).Draw(rt, "n")
		levels := rapid.SampledFrom([]int{1, 2, 5, 100, 1 << 20}).Draw(rt, "levels")
		scores := make([]float32, n)
		state := rapid.Uint64().Draw(rt, "seed")
		for i := range scores {
			state = state*6364136223846793005 + 1442695040888963407
			scores[i] = float32(1+int(state>>33)%levels) / float32(levels)
		}
		if rapid.Bool().Draw(rt, "sorted") {
			slices.Sort(scores)
		}
		want := rapid.OneOf(rapid.Float64Range(-2, float64(n)+3), rapid.Map(rapid.IntRange(-1, n+1), func(i int) float64 { return float64(i) / 2 })).Draw(rt, "want")
		expect := sortedCut(slices.Clone(scores), want)
		if got := cut(scores, want); got != expect {
			rt.Fatalf("cut for %g of %d scores is %v, want %v", want, n, got, expect)
		}
	})
}

// Orders that lead a choice of pivots astray must not cost squares.
func TestCutOfManyEqualScores(t *testing.T) {
	scores := make([]float32, 1<<20)
	for i := range scores {
		scores[i] = 1
	}
	scores[5] = 0.5
	if got := cut(scores, 1000); got != math.Nextafter(1, 2) {
		t.Errorf("cut is %v, want just above 1", got)
	}
	organ := make([]float32, 1<<18)
	for i := range organ {
		organ[i] = float32(min(i, len(organ)-i)) + 1
	}
	want := sortedCut(slices.Clone(organ), 100_000)
	if got := cut(organ, 100_000); got != want {
		t.Errorf("cut is %v, want %v", got, want)
	}
}
