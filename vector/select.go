package vector

import "cmp"

// SelectNth reorders v so that place n holds the n-th smallest value (from
// zero), no larger one stands before it and no smaller one behind (Hoare's
// selection, the median of three as pivot). No value may be NaN. O(len(v)) on
// average, no allocation.
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
