package labels

import (
	"math"
	"math/bits"
	"slices"
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
	// Equal scores are accepted together: either only those above the score at this place, or
	// also those equal to it.
	lo, hi := selectFalling(scores, max(0, int(math.Floor(want))))
	v := scores[lo]
	gap := math.Abs(float64(lo) - want)
	switch {
	case math.Abs(float64(hi)-want) < gap && hi == n:
		return float64(v) / 2
	case math.Abs(float64(hi)-want) < gap:
		return (float64(v) + float64(slices.Max(scores[hi:]))) / 2
	case lo == 0:
		return math.Nextafter(float64(v), math.Inf(1))
	}
	return (float64(slices.Min(scores[:lo])) + float64(v)) / 2
}

// NthBest returns the score at place n in falling order, counted from 0, and how many are larger. It
// reorders the scores. O(len(scores)).
func NthBest(scores []float32, n int) (score float32, larger int) {
	larger, _ = selectFalling(scores, n)
	return scores[larger], larger
}

// selectFalling reorders a so that place i holds the value it has in descending order.
// a[lo:hi], which includes i, holds the values equal to it; those before are larger, those
// after are smaller. O(len(a)).
func selectFalling(a []float32, i int) (lo, hi int) {
	from, to := 0, len(a)
	for rounds := 2 * bits.Len(uint(len(a))); to-from > 24; rounds-- {
		if rounds == 0 { // the pivots were bad: sort
			break
		}
		p := a[from+(to-from)/2]
		if x, y := a[from], a[to-1]; x > p != (x > y) {
			p = x
		} else if y > p != (y > x) {
			p = y
		}
		// Larger than p before lo, equal from lo to at, smaller from hi on.
		lo, hi = from, to
		for at := from; at < hi; {
			switch x := a[at]; {
			case x > p:
				a[at], a[lo] = a[lo], x
				lo++
				at++
			case x < p:
				hi--
				a[at], a[hi] = a[hi], x
			default:
				at++
			}
		}
		switch {
		case i < lo:
			to = lo
		case i >= hi:
			from = hi
		default:
			return lo, hi
		}
	}
	slices.SortFunc(a[from:to], func(x, y float32) int {
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for lo = i; lo > from && a[lo-1] == a[i]; lo-- {
	}
	for hi = i + 1; hi < to && a[hi] == a[i]; hi++ {
	}
	return lo, hi
}
