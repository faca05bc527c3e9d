package labels

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// cut returns the threshold that the number of scores nearest to want reaches; of two equally
// near numbers it takes the smaller. The scores are above zero, in any order, and equal scores
// are on the same side of the threshold. The threshold is the midpoint between the smallest
// score that reaches it and the largest that does not. cut reorders the scores. O(len(scores)).
func cut(scores []float32, want float64) float64 {
	n := len(scores)
	if want >= float64(n) {
		return float64(slices.Min(scores)) / 2
	}
	at := n - 1 - max(0, int(math.Floor(want)))
	vector.SelectNth(scores, at)
	v := scores[at]
	// Equal scores are accepted together: either only those above v, or also those equal to it.
	lo, hi := 0, 0
	above, below := float32(math.Inf(1)), float32(0)
	for _, x := range scores {
		switch {
		case x > v:
			lo, hi, above = lo+1, hi+1, min(above, x)
		case x == v:
			hi++
		default:
			below = max(below, x)
		}
	}
	switch {
	case math.Abs(float64(hi)-want) < math.Abs(float64(lo)-want):
		return (float64(v) + float64(below)) / 2
	case lo == 0:
		return math.Nextafter(float64(v), math.Inf(1))
	}
	return (float64(above) + float64(v)) / 2
}

// NthBest returns the score at place n in falling order, counted from 0, and how many are larger. It
// reorders the scores. O(len(scores)).
func NthBest(scores []float32, n int) (score float32, larger int) {
	at := len(scores) - 1 - n
	vector.SelectNth(scores, at)
	for _, x := range scores[at+1:] {
		if x > scores[at] {
			larger++
		}
	}
	return scores[at], larger
}
