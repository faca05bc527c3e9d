package query

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// A beam search follows the label lists as a graph, best estimate first, by sketches alone: it
// starts from the rows elected by the forest, and its final rows get exact distances. Where
// rows have no clusters that trees can split by, as in word vectors, trees find a few of the
// nearest rows and the lists lead from them to the others, at the cost of one cache line per
// row.

// beamStep is the number of rows that are expanded together, so that the cache misses of their
// lists and of the sketches of the listed rows overlap.
const beamStep = 4

// A width is the same for all queries, although most have found their nearest rows long before its last
// places are expanded. With Params.Gap a beam ends where rows are clearly farther than the k-th best one
// (Al-Jazzazi and others 2025, arXiv 2505.15636): queries whose nearest rows stand out end early, and those
// with many rows at about the same distance get a width that all queries could not afford. In a restricted
// search the row is that at the depth it needs.

// nearestGap is the least place, from 1, of the row whose distance counts: that of the nearest row alone
// differs much between queries.
const nearestGap = 10

// gap is the gap of a beam.
type gap struct {
	share, floor float32 // Params.Gap and Params.GapFloor; without a gap the share is 0
	depth        int     // the place, from 1, of the row whose distance counts
	keep         int     // rows that are too far are only kept among so many best ones
	ended        bool    // rows were not expanded because of the gap
}

// gapEnd returns the key from which on rows are too far for the gap, noKey without one.
func (s *Searcher) gapEnd() uint64 {
	g := &s.stop
	if !(g.share > 0) || s.beam.len() < g.depth {
		return noKey
	}
	kth := s.squaredAt(g.depth)
	return newKey(kth+g.share*max(kth, g.floor)-s.fromMean, math.MaxUint32)
}

// squaredAt returns the squared distance, by estimate, of the row at a place of the beam, from 1.
func (s *Searcher) squaredAt(place int) float32 {
	// Estimates lack the squared distance of the query to the mean.
	return max(0, keyEstimate(s.beam.keys[place-1])+s.fromMean)
}

// bar returns the key from which on the beam keeps no rows because of the gap.
func (s *Searcher) bar() uint64 {
	if keep := s.stop.keep; s.stop.share > 0 && s.beam.len() >= keep {
		return max(s.beam.keys[keep-1], s.gapEnd())
	}
	return noKey
}

// follow expands the best width rows by estimate until all of them are expanded. It starts from
// ids and returns the best rows.
func (s *Searcher) follow(ids []uint32, width int) []uint32 {
	width = max(1, width)
	s.spills, s.stop = false, gap{}
	if s.p.Gap > 0 && !s.p.Range {
		s.stop = gap{share: s.p.Gap, floor: s.p.GapFloor, depth: max(s.p.K, nearestGap), keep: s.p.sketchKeep()}
	}
	width, first := s.openBeam(ids, width)
	s.walk(first, width)
	s.hop = grow(s.hop, s.beam.len())
	for i := range s.hop {
		s.hop[i] = s.beam.row(i)
	}
	return s.hop
}

// nextEpoch marks all rows as unseen. It clears the array only once in 65,535 searches.
func (s *Searcher) nextEpoch() {
	if len(s.seen) < s.seg.N {
		s.seen = make([]uint16, s.seg.N)
		s.epoch = 0
	}
	if s.epoch++; s.epoch == 0 {
		clear(s.seen)
		s.epoch = 1
	}
}

// startBeam begins a beam of a width with the best of ids. Others may come back by a list.
func (s *Searcher) startBeam(ids []uint32, width int) {
	s.nextEpoch()
	s.stats.Width = width
	s.scores = grow(s.scores, len(ids))
	s.stats.Sketched += len(ids)
	s.estimate(s.seg.Sketch, ids, s.scores)
	ids = selectBest(ids, s.scores, width)
	for _, id := range ids {
		s.seen[id] = s.epoch
	}
	s.spilled = s.spilled[:0]
	s.beam.reset(width)
	s.merge(ids, width)
}

// walk expands the spots of a beam of a width until all of them are expanded. Those before first are.
func (s *Searcher) walk(first, width int) {
	for step := 1; ; step++ {
		if first = s.advance(first, width, width); first < 0 || step%mostRows == 0 && s.halted() {
			return
		}
	}
}

// advance expands the next spots, from first on and among the best width, of a beam with room for so many
// rows. It returns the first place that may have to be expanded then, -1 at the end.
func (s *Searcher) advance(first, width, room int) int {
	if first = s.expand(first, width); first < 0 {
		return first
	}
	if s.trial {
		s.hop = s.passing(s.hop)
	}
	s.stats.Hopped += len(s.hop)
	s.stats.Sketched += len(s.hop)
	s.scores = grow(s.scores, len(s.hop))
	s.estimate(s.seg.Sketch, s.hop, s.scores)
	return min(first, s.merge(s.hop, room))
}

// expand sets hop to the unseen rows on the lists of the best spots that were not expanded,
// starting at from and among the best width. It returns the place of the first spot after them,
// or -1 if there is none.
func (s *Searcher) expand(from, width int) int {
	nv, end := s.seg.Neighbors, s.gapEnd()
	var lists [beamStep][]uint32
	n, i := 0, from
	marks := s.beam.marks[:min(s.beam.len(), width)]
	for ; i < len(marks) && n < beamStep && s.beam.keys[i] < end; i++ {
		if marks[i]&followed != 0 {
			continue
		}
		marks[i] |= followed
		row := s.beam.row(i)
		list := nv.list(row, nv.K)
		if s.watch != nil {
			s.watch.followed(s, row, list)
		}
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(list)), 4*len(list))
		lists[n] = list
		n++
	}
	if n == 0 {
		s.stop.ended = i < len(marks)
		return -1
	}
	s.hop = grow(s.hop, n*nv.K+1)
	ids, seen, epoch, m := s.hop, s.seen[:s.seg.N], s.epoch, 0
	for _, list := range lists[:n] {
		for _, id := range list {
			if int(id) >= len(seen) {
				continue
			}
			was := seen[id]
			seen[id] = epoch
			ids[m] = id
			if was != epoch {
				m++
			}
		}
	}
	s.hop = ids[:m]
	return i
}

// The rows of a beam are ordered by keys: 64-bit integers with the estimate in the high half and
// the row in the low half. New rows are compared with the beam and with each other in no
// predictable order, so a branch that depends on such a comparison is mispredicted about every
// other time, at the cost of some ten comparisons. Comparisons of integers compile to
// instructions without a branch: min, max, and the borrow of a subtraction.

// beam holds the best rows that a search has found, in ascending order of their keys. The
// capacities exceed the lengths by at least moveRun, see insert.
type beam struct {
	keys  []uint64
	marks []mark // of the rows of keys
}

// mark holds what is known of a row on the beam.
type mark uint8

const (
	followed mark = 1 << iota // the row is expanded
	judged                    // it is known whether the row passes the filters
	passed                    // the row passes the filters
)

// spot is a row that left the beam.
type spot struct {
	key  uint64
	mark mark
}

// moveRun is the number of rows that are moved together. Most runs of rows between two new ones
// are not longer, so the processor predicts the number of moves.
const moveRun = 16

// sortRun8 is the number of keys that sortEight sorts.
const sortRun8 = 8

// noKey is larger than all keys.
const noKey = math.MaxUint64

// leastOrder is the place of -Inf among all bit patterns of floats in order.
const leastOrder = 0x007fffff

// newKey returns the key of a row. Rows of equal estimates are ordered by number. Rows whose
// estimate is not a number, as of a damaged index or after an overflow, come last.
func newKey(estimate float32, row uint32) uint64 {
	// The bits of positive numbers are in order, those of negative ones in reverse order.
	b := math.Float32bits(estimate)
	b ^= uint32(int32(b)>>31) | 1<<31
	// Negative NaNs would precede -Inf; the difference wraps around to the largest integers.
	b -= leastOrder
	return uint64(b)<<32 | uint64(row)
}

// keyEstimate returns the estimate of a key.
func keyEstimate(key uint64) float32 {
	b := uint32(key>>32) + leastOrder
	return math.Float32frombits(b ^ (^uint32(int32(b)>>31) | 1<<31))
}

// less returns 1 if x < y, 0 otherwise, without a branch.
func less(x, y uint64) int {
	_, borrow := bits.Sub64(x, y, 0)
	return int(borrow)
}

func (b *beam) len() int { return len(b.keys) }

// row returns the row at a place.
func (b *beam) row(place int) uint32 { return uint32(b.keys[place]) }

// reset empties the beam and reserves memory for a width.
func (b *beam) reset(width int) {
	b.keys = grow(b.keys, width+moveRun)[:0]
	b.marks = grow(b.marks, width+moveRun)[:0]
}

// merger is the memory of merge.
type merger struct {
	keys, spare []uint64
	places      []int32
	moved       beam
}

// merge inserts rows with their scores into the beam, which keeps the best width. It returns the
// first of their places, or width if no row was inserted. O(n·log(n·width) + width), with one
// move of each row on the beam.
func (s *Searcher) merge(ids []uint32, width int) int {
	b, m := &s.beam, &s.merger
	bar := s.bar() // rows beyond would not be expanded
	if b.len() == width {
		bar = min(bar, b.keys[width-1])
	}
	keys := m.filter(ids, s.scores, bar)
	if s.spills {
		for i, x := range s.scores[:len(ids)] {
			if key := newKey(x, ids[i]); key >= bar {
				s.spilled = append(s.spilled, spot{key: key})
			}
		}
	}
	if len(keys) == 0 {
		return width
	}
	keys = m.sort(keys)
	m.places = grow(m.places, len(keys))
	places := m.places
	findPlaces(places, keys, b.keys)
	n := len(keys)
	for int(places[n-1])+n > width {
		n--
	}
	left := min(b.len(), width-n)
	if s.spills {
		for _, key := range keys[n:] {
			s.spilled = append(s.spilled, spot{key: key})
		}
		for i, key := range b.keys[left:] {
			s.spilled = append(s.spilled, spot{key, b.marks[left+i]})
		}
	}
	b.keys, b.marks = b.keys[:left], b.marks[:left]
	b.insert(keys[:n], places, &m.moved)
	return int(places[0])
}

// filter returns the keys of the rows that are below bar.
func (m *merger) filter(ids []uint32, scores []float32, bar uint64) []uint64 {
	m.keys = grow(m.keys, sortedLen(len(ids)))
	keys, n := m.keys, 0
	for i, x := range scores[:len(ids)] {
		key := newKey(x, ids[i])
		keys[n] = key
		n += less(key, bar)
	}
	return keys[:n]
}

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

// insert inserts sorted keys at places of the beam, as findPlaces found them. The rows from the
// first place on are copied to moved and from there to their new places, moveRun at a time; the
// next row overwrites what is copied beyond the end of a run. This is why the slices have spare
// capacity.
func (b *beam) insert(keys []uint64, places []int32, moved *beam) {
	first, old := int(places[0]), b.len()
	to := old + len(keys)
	moved.reset(old - first)
	moved.keys = append(moved.keys, b.keys[first:]...)
	moved.marks = append(moved.marks, b.marks[first:]...)
	b.keys, b.marks = b.keys[:to], b.marks[:to]
	from := first
	for i, key := range keys {
		place := int(places[i])
		moveKeys(b, from+i, moved, from-first)
		for from += moveRun; from < place; from += moveRun {
			moveKeys(b, from+i, moved, from-first)
		}
		from = place
		b.keys[place+i], b.marks[place+i] = key, 0
	}
	for ; from < old; from += moveRun {
		moveKeys(b, from+len(keys), moved, from-first)
	}
}

// moveKeys copies moveRun rows from a place of one beam to a place of another. The blocks are
// structures because the compiler copies an array, which might overlap, by a call.
func moveKeys(dst *beam, to int, src *beam, from int) {
	k, l := dst.keys[to:to+moveRun], src.keys[from:from+moveRun]
	*(*keyBlock)(unsafe.Pointer(&k[0])) = *(*keyBlock)(unsafe.Pointer(&l[0]))
	v, w := dst.marks[to:to+moveRun], src.marks[from:from+moveRun]
	*(*markBlock)(unsafe.Pointer(&v[0])) = *(*markBlock)(unsafe.Pointer(&w[0]))
}

type (
	keyBlock  struct{ _ [moveRun]uint64 }
	markBlock struct{ _ [moveRun]mark }
)
