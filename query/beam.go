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

// trim moves the rows off the beam that were kept before rows nearer to the query lowered the bar, so that
// those on it are better than all that spilled.
func (s *Searcher) trim() {
	b, bar := &s.beam, s.bar()
	left := b.len()
	for left > s.stop.keep && b.keys[left-1] >= bar {
		left--
		s.spilled = append(s.spilled, spot{b.keys[left], b.marks[left]})
	}
	b.keys, b.marks = b.keys[:left], b.marks[:left]
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

// startBeam begins a beam of a width with the best of ids, at most so many seeds. Others may come back by
// a list.
func (s *Searcher) startBeam(ids []uint32, seeds, width int) {
	s.nextEpoch()
	s.stats.Width = width
	s.scores = grow(s.scores, len(ids))
	s.stats.Sketched += len(ids)
	s.estimate(s.seg.Sketch, ids, s.scores)
	if len(ids) > seeds {
		ids = s.pick.best(ids, s.scores, seeds)
	}
	for _, id := range ids {
		s.seen[id] = s.epoch
	}
	s.spilled = s.spilled[:0]
	s.beam.reset(width)
	s.merge(ids, width)
}

// widen gives the beam more places, for the best of the rows that it had no room for (Searcher.spills).
func (s *Searcher) widen(width int) {
	s.stats.Width = width
	bar, n := s.bar(), len(s.spilled)
	s.hop, s.scores = grow(s.hop, n)[:0], grow(s.scores, n)[:0]
	for i, x := range s.spilled {
		if x.key < bar {
			s.hop, s.scores = append(s.hop, uint32(i)), append(s.scores, keyEstimate(x.key))
		}
	}
	b := &s.beam
	best := s.pick.best(s.hop, s.scores, width-b.len())
	slices.SortFunc(best, func(i, j uint32) int {
		return cmp.Compare(s.spilled[i].key, s.spilled[j].key)
	})
	more := max(0, width+moveRun-b.len())
	b.keys, b.marks = slices.Grow(b.keys, more), slices.Grow(b.marks, more)
	for _, i := range best {
		x := &s.spilled[i]
		b.keys, b.marks = append(b.keys, x.key), append(b.marks, x.mark)
		x.mark = regained
	}
	s.spilled = slices.DeleteFunc(s.spilled, func(x spot) bool { return x.mark == regained })
}

// walk expands the spots of a beam of a width until all of them are expanded. Those before first are.
func (s *Searcher) walk(first, width int) {
	for step := 1; ; step++ {
		if first = s.advance(first, width, width); first < 0 || step%beamRun == 0 && s.halted() {
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
	listed := nv.K
	if s.p.HopWidth > 0 {
		listed = min(listed, s.p.HopWidth)
	}
	var lists [beamStep][]uint32
	n, i := 0, from
	marks := s.beam.marks[:min(s.beam.len(), width)]
	for ; i < len(marks) && n < beamStep && s.beam.keys[i] < end; i++ {
		if marks[i]&followed != 0 {
			continue
		}
		marks[i] |= followed
		row := s.beam.row(i)
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
		s.stop.ended = i < len(marks)
		return -1
	}
	s.hop = grow(s.hop, n*listed+1)
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
