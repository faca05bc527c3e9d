package query

// selectBest reorders ids and scores so that the k smallest scores come
// first, in no particular order, and returns their ids: quickselect with a
// median-of-three pivot, O(n) on average, no allocation.
func selectBest(ids []uint32, scores []float32, k int) []uint32 {
	if k >= len(ids) {
		return ids
	}
	lo, hi := 0, len(ids)-1
	for lo < hi {
		pivot := medianOfThree(scores[lo], scores[(lo+hi)/2], scores[hi])
		i, j := lo, hi
		for i <= j {
			for scores[i] < pivot {
				i++
			}
			for scores[j] > pivot {
				j--
			}
			if i <= j {
				scores[i], scores[j] = scores[j], scores[i]
				ids[i], ids[j] = ids[j], ids[i]
				i++
				j--
			}
		}
		switch {
		case k-1 <= j:
			hi = j
		case k-1 >= i:
			lo = i
		default:
			return ids[:k]
		}
	}
	return ids[:k]
}

func medianOfThree(a, b, c float32) float32 {
	return max(min(a, b), min(max(a, b), c))
}
