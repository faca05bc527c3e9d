package vector

import (
	"cmp"
	"math"
)

// Ascending maps finite floats to integers of the same order. Keys for SelectNth
// combine such an integer with a tie-breaker.
func Ascending(v float32) uint32 {
	u := math.Float32bits(v)
	if u>>31 != 0 {
		return ^u
	}
	return u | 1<<31
}

// SelectNth reorders v so that v[n] is the n-th smallest value (from zero), no value
// before it is larger and no value after it is smaller (Hoare's selection with the
// median of three as pivot). No value may be NaN. O(len(v)) on average, no
// allocation.
func SelectNth[T cmp.Ordered](v []T, n int) {
	lo, hi := 0, len(v)-1
	for lo < hi {
		a, b, c := v[lo], v[lo+(hi-lo)/2], v[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j
		case n >= i:
			lo = i
		default:
			return
		}
	}
}
