package query

// buckets is the number of score classes that the selection counts.
const buckets = 512

// selector picks the best of many scores without sorting them.
type selector struct {
	count  [buckets]uint16
	class  []uint16
	border []uint32
	scores []float32
}

// best moves the k ids with the smallest scores to the front of ids, in no particular order,
// and their scores to the front of scores, and returns the ids. It counts scores in classes of
// equal width and takes complete classes up to the one that contains the k-th score. Only within
// that class it compares scores. Neither pass has a branch that depends on a score: mispredicted
// branches would cost more than the rest.
// O(n) on average, no allocation in steady state. Which of equal scores at the border are taken
// depends only on the order of ids. NaN scores are taken last or in any order; they do no harm.
func (s *selector) best(ids []uint32, scores []float32, k int) []uint32 {
	n := len(ids)
	if k >= n {
		return ids
	}
	if n > 1<<16-1 {
		return selectBest(ids, scores, k)
	}
	scores = scores[:n]
	lo, hi := scores[0], scores[0]
	// Comparisons, which soon are always false; the built-in min and max take ten times as
	// long.
	for _, x := range scores {
		if x < lo {
			lo = x
		}
		if x > hi {
			hi = x
		}
	}
	scale := (buckets - 1) / (hi - lo)
	if !(scale > 0 && scale < 1e30) {
		return selectBest(ids, scores, k)
	}
	s.class = grow(s.class, n)
	class := s.class[:n]
	clear(s.count[:])
	for i, x := range scores {
		c := uint16(int32((x-lo)*scale)) % buckets
		class[i] = c
		s.count[c]++
	}
	cut, below := uint16(0), 0
	for below+int(s.count[cut]) < k {
		below += int(s.count[cut])
		cut++
	}
	s.border, s.scores = grow(s.border, n), grow(s.scores, n)
	border, borderScores := s.border[:n], s.scores[:n]
	taken, edge := 0, 0
	for i, c := range class {
		id, x := ids[i], scores[i]
		border[edge], borderScores[edge] = id, x
		// taken never exceeds i, so no unread element is overwritten.
		ids[taken], scores[taken] = id, x
		taken += int((uint32(c) - uint32(cut)) >> 31)
		edge += int((uint32(c^cut) - 1) >> 31)
	}
	copy(ids[taken:], selectBest(border[:edge], borderScores[:edge], k-taken))
	copy(scores[taken:k], borderScores)
	return ids[:k]
}

// selectBest does the same by quickselect with a median-of-three pivot.
func selectBest(ids []uint32, scores []float32, k int) []uint32 {
	if k >= len(ids) {
		return ids
	}
	lo, hi := 0, len(ids)-1
	for lo < hi {
		pivot := medianOfThree(scores[lo], scores[(lo+hi)/2], scores[hi])
		if pivot != pivot {
			// NaN: there is no order to select by.
			break
		}
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
