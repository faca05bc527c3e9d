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

// A query that is unlike those that were held out needs a wider beam than the curve has for its recall. Until
// queries of users are measured, a search sees that by the distance of its nearest rows: once its best
// rows are expanded, and one of them is farther, by estimate, than that of nearly all held-out queries,
// its beam gets unlikeWidth times the width and the gap. Before that it has room for as many rows, so
// none is lost.

// unlikeWidth is how much wider the beam of an unlike query is.
const unlikeWidth = 2

// usual returns the place of the row that counts, from 1, and its usual squared distance; zeros if that is
// unknown, or if the curve has the recalls of users' queries.
func (s *Searcher) usual() (place int, squared float32) {
	c := s.p.curve
	if c == nil || c.Sampled > 0 || s.p.Range {
		return 0, 0
	}
	most := min(s.p.K, nearestGap)
	for d := range c.each {
		if d.K <= most {
			place, squared = d.K, d.Usual
		}
	}
	return place, squared
}

// openBeam starts a beam of a width and walks it until it knows whether the query is unlike the held-out
// ones. It returns the width that the query needs, and the first place that may have to be expanded.
func (s *Searcher) openBeam(ids []uint32, width int) (needed, first int) {
	place, usual := s.usual()
	if !(usual > 0) {
		s.startBeam(ids, width)
		return width, 0
	}
	room := min(unlikeWidth*width, s.seg.N)
	stop := s.stop
	s.stop.share, s.stop.keep = unlikeWidth*stop.share, unlikeWidth*stop.keep
	s.startBeam(ids, room)
	for until := max(place, min(nearestGap, width)); first >= 0 && first < until && !s.halted(); {
		first = s.advance(first, width, room)
	}
	first = max(first, 0)
	if s.farther(place, usual) {
		s.stats.Widened++
		return room, first
	}
	s.stats.Width, s.stop = width, stop
	s.beam.cut(width)
	return width, first
}

// farther reports whether the row at a place of the beam is farther than usual.
func (s *Searcher) farther(place int, usual float32) bool {
	n := min(place, s.beam.len())
	if n == 0 || !(usual > 0) {
		return false
	}
	s.nearest = s.squaredAt(n)
	return s.nearest > usual
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

// cut drops the rows beyond a width.
func (b *beam) cut(width int) {
	n := min(width, len(b.keys))
	b.keys, b.marks = b.keys[:n], b.marks[:n]
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
