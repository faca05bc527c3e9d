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

// best is selectBest for many scores, as of scans, without allocation in steady state. It counts scores in
// classes of equal width and takes complete classes up to the one that contains the k-th score. Only within
// that class it compares scores. Neither pass has a branch that depends on a score: mispredicted branches
// would cost more than the rest.
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
