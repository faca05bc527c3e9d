package query

import (
	"cmp"
	"math"
	"slices"
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

// farMove is the number of places on the beam that are searched linearly before the search for
// a row's place continues by bisection.
const farMove = 32

// spot is a row on the beam.
type spot struct {
	estimate float32
	row      uint32
	followed bool
	// verdict caches whether the row passes the filters, in a restricted search.
	verdict verdict
}

// verdict is whether a row can be an answer.
type verdict uint8

const (
	unjudged verdict = iota
	failed
	passed
	regained // a spilled row is on the beam again
)

// follow expands the best width rows by estimate until all of them are expanded. It starts from
// ids and returns the best rows.
func (s *Searcher) follow(ids []uint32, width int) []uint32 {
	width = max(1, width)
	s.spills = false
	s.startBeam(ids, width, width)
	s.walk(0, width)
	s.hop = grow(s.hop, len(s.beam))
	for i, b := range s.beam {
		s.hop[i] = b.row
	}
	return s.hop
}

// startBeam begins a beam of a width with the best of ids, at most so many seeds. Others may come back by
// a list.
func (s *Searcher) startBeam(ids []uint32, seeds, width int) {
	s.nextEpoch()
	s.stats.Width = width
	s.scores = grow(s.scores, len(ids))
	s.stats.Sketched += len(ids)
	s.estimate(s.v.Sketch, ids, s.scores)
	if len(ids) > seeds {
		ids = s.pick.best(ids, s.scores, seeds)
	}
	for _, id := range ids {
		s.seen[id] = s.epoch
	}
	s.beam, s.spilled = grow(s.beam, width)[:0], s.spilled[:0]
	s.merge(ids, width)
}

// widen gives the beam more places, for the best of the rows that it had no room for (Searcher.spills).
func (s *Searcher) widen(width int) {
	s.stats.Width = width
	n := len(s.spilled)
	s.hop, s.scores = grow(s.hop, n), grow(s.scores, n)
	for i, x := range s.spilled {
		s.hop[i], s.scores[i] = uint32(i), x.estimate
	}
	had := len(s.beam)
	s.beam = slices.Grow(s.beam, max(0, width-had))
	for _, i := range s.pick.best(s.hop, s.scores, width-had) {
		s.beam = append(s.beam, s.spilled[i])
		s.spilled[i].verdict = regained
	}
	s.spilled = slices.DeleteFunc(s.spilled, func(x spot) bool { return x.verdict == regained })
	slices.SortFunc(s.beam[had:], func(x, y spot) int { return cmp.Compare(x.estimate, y.estimate) })
}

// walk expands the spots of a beam of a width until all of them are expanded. Those before first are.
func (s *Searcher) walk(first, width int) {
	for step := 1; ; step++ {
		if first = s.expand(first, width); first < 0 || step%beamRun == 0 && s.halted() {
			return
		}
		if s.trial {
			s.hop = s.passing(s.hop)
		}
		if s.v.Hidden != nil {
			s.hop = s.visible(s.hop)
		}
		s.stats.Hopped += len(s.hop)
		s.stats.Sketched += len(s.hop)
		s.scores = grow(s.scores, len(s.hop))
		s.estimate(s.v.Sketch, s.hop, s.scores)
		first = min(first, s.merge(s.hop, width))
	}
}

// expand sets hop to the unseen rows on the lists of the best spots that were not expanded,
// starting at from and among the best width. It returns the place of the first spot after them,
// or -1 if there is none.
func (s *Searcher) expand(from, width int) int {
	nv := s.v.Neighbors
	listed := nv.K
	if s.p.HopWidth > 0 {
		listed = min(listed, s.p.HopWidth)
	}
	var lists [beamStep][]uint32
	n, i := 0, from
	for ; i < min(len(s.beam), width) && n < beamStep; i++ {
		if s.beam[i].followed {
			continue
		}
		s.beam[i].followed = true
		row := s.beam[i].row
		list := nv.list(row, listed)
		if s.watch != nil {
			s.watch.followed(s, row, list)
		}
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(list)), 4*len(list))
		if nv.Request != nil && len(list) > 0 {
			nv.Request(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), 4*len(list)))
		}
		lists[n] = list
		n++
	}
	if n == 0 {
		return -1
	}
	s.hop = grow(s.hop, n*listed+1)
	ids, seen, epoch, m := s.hop, s.seen[:s.v.N], s.epoch, 0
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

// spill keeps a row that the beam has no room for, if it may be widened.
func (s *Searcher) spill(x spot) {
	if s.spills {
		s.spilled = append(s.spilled, x)
	}
}

// merge inserts rows with their scores into the beam, which keeps the best width; rows of equal
// estimates keep the order of arrival. It returns the first of their places, or width if no row
// was inserted. A beam of hundreds of rows is moved once for all rows of a step, not once for
// each.
func (s *Searcher) merge(ids []uint32, width int) int {
	beam := s.beam
	kept := s.beam[:cap(s.beam)]
	s.come = grow(s.come, len(ids))
	come, n := s.come, 0
	bar := float32(math.Inf(1))
	if len(beam) == width {
		bar = beam[width-1].estimate
	}
	for i, x := range s.scores[:len(ids)] {
		if !(x < bar) && len(beam) == width {
			s.spill(spot{estimate: x, row: ids[i]})
			continue
		}
		at := n
		for at > 0 && x < come[at-1].estimate {
			come[at] = come[at-1]
			at--
		}
		come[at] = spot{estimate: x, row: ids[i]}
		n++
	}
	if n == 0 {
		return width
	}
	come = come[:n]
	// Backwards: rows beyond the width are dropped before any row moves.
	old, to := len(beam), len(beam)+n
	for to > width {
		if n > 0 && (old == 0 || come[n-1].estimate >= beam[old-1].estimate) {
			n--
			s.spill(come[n])
		} else {
			old--
			s.spill(beam[old])
		}
		to--
	}
	s.beam = kept[:to]
	first := width
	for ; n > 0; n-- {
		x := come[n-1]
		from := old
		if from > farMove && x.estimate < beam[from-farMove].estimate {
			lo, hi := 0, from-farMove
			for lo < hi {
				if mid := (lo + hi) / 2; beam[mid].estimate <= x.estimate {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			from = lo
		} else {
			for from > 0 && x.estimate < beam[from-1].estimate {
				from--
			}
		}
		first = to - (old - from) - 1
		copy(kept[first+1:to], beam[from:old])
		kept[first] = x
		old, to = from, first
	}
	return first
}
