package query

import "math/bits"

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

// sortRun8 is the number of keys that sortEight sorts.
const sortRun8 = 8

// sortedLen returns the number of keys for which sort has memory: a power of two that is at
// least n and sortRun8.
func sortedLen(n int) int {
	return max(sortRun8, 1<<bits.Len(uint(max(n, 1)-1)))
}

// sort sorts keys, which begin m.keys: runs of eight by a network, then these by merging. The
// result is in memory of m.
func (m *merger) sort(keys []uint64) []uint64 {
	n := len(keys)
	if n == 1 {
		return keys
	}
	size := sortedLen(n)
	keys = m.keys[:size]
	for i := n; i < size; i++ {
		keys[i] = noKey
	}
	for i := 0; i < n; i += sortRun8 {
		sortEight((*[sortRun8]uint64)(keys[i:]))
	}
	if size == sortRun8 {
		return keys[:n]
	}
	m.spare = grow(m.spare, size)
	spare := m.spare
	for i := n; i < size; i++ {
		spare[i] = noKey
	}
	for run := sortRun8; run < size; run *= 2 {
		for i := 0; i < n; i += 2 * run {
			mergeRuns(spare[i:i+2*run], keys[i:i+2*run])
		}
		keys, spare = spare, keys
	}
	return keys[:n]
}

// sortEight sorts by the network of 19 comparators.
func sortEight(x *[sortRun8]uint64) {
	a, b, c, d, e, f, g, h := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
	a, c = min(a, c), max(a, c)
	b, d = min(b, d), max(b, d)
	e, g = min(e, g), max(e, g)
	f, h = min(f, h), max(f, h)

	a, e = min(a, e), max(a, e)
	b, f = min(b, f), max(b, f)
	c, g = min(c, g), max(c, g)
	d, h = min(d, h), max(d, h)

	a, b = min(a, b), max(a, b)
	c, d = min(c, d), max(c, d)
	e, f = min(e, f), max(e, f)
	g, h = min(g, h), max(g, h)

	c, e = min(c, e), max(c, e)
	d, f = min(d, f), max(d, f)

	b, e = min(b, e), max(b, e)
	d, g = min(d, g), max(d, g)

	b, c = min(b, c), max(b, c)
	d, e = min(d, e), max(d, e)
	f, g = min(f, g), max(f, g)
	x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7] = a, b, c, d, e, f, g, h
}

// mergeRuns merges the two sorted halves of src into dst. It merges the smaller half of the keys
// upwards and the larger half downwards: neither can reach the end of a run, and the two do not
// wait for each other.
func mergeRuns(dst, src []uint64) {
	n := len(src) / 2
	a, b := src[:n], src[n:2*n]
	low, high := dst[:n], dst[n:2*n]
	j, q := 0, 0 // keys of b that were merged upwards, and of a downwards
	for k := range n {
		x, y := a[k-j], b[j]
		low[k] = min(x, y)
		j += less(y, x)
		x, y = a[n-1-q], b[n-1-(k-q)]
		high[n-1-k] = max(x, y)
		q += less(y, x)
	}
}

// findPlaces sets places to the numbers of the sorted keys that are smaller than each of keys.
func findPlaces(places []int32, keys, sorted []uint64) {
	for len(keys) >= 4 && len(places) >= 4 {
		a, b, c, d := search4(sorted, (*[4]uint64)(keys))
		places[0], places[1], places[2], places[3] = int32(a), int32(b), int32(c), int32(d)
		keys, places = keys[4:], places[4:]
	}
	if len(keys) > 0 {
		x := [4]uint64{}
		n := copy(x[:], keys)
		a, b, c, _ := search4(sorted, &x)
		p := [3]int32{int32(a), int32(b), int32(c)}
		copy(places[:n], p[:])
	}
}

// search4 returns the numbers of the sorted keys that are smaller than each of x. A search waits
// for one comparison after the other, so four of them together take little longer than one.
// It is not inlined, so that all its variables are in registers.
//
//go:noinline
func search4(sorted []uint64, x *[4]uint64) (a, b, c, d int) {
	for n := uint(len(sorted)); n > 0; {
		low := int((n - 1) / 2)
		half := int(n - n/2)
		a += half & -less(sorted[a+low], x[0])
		b += half & -less(sorted[b+low], x[1])
		c += half & -less(sorted[c+low], x[2])
		d += half & -less(sorted[d+low], x[3])
		n /= 2
	}
	return a, b, c, d
}
