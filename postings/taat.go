package postings

import (
	"github.com/anndb/anndb/vector"
)

const (
	maxEstimate = 1<<16 - 1
	// highestScore is the estimate of the highest possible score. Rounding up adds to it.
	highestScore = 65000
	// scanRows is the number of cells that are scanned between updates of the threshold.
	scanRows = 1024
	// sampleRows is the number of cells from which the first threshold of a window is set.
	sampleRows = 8 * scanRows
	// blockRows is the number of cells to which the bitmaps are added in turn: they stay in the
	// first-level cache.
	blockRows = 4096
	// ahead is the number of rows by which prefetching runs ahead.
	ahead = 6
)

// scan is the scratch memory of TAAT.
type scan struct {
	// perScore is the number of units of the cells per point of score.
	perScore float64
	// unit is the estimate of a common feature, before the row's ratio multiplies it, if an estimate is a
	// count of common features: in an index without codes, for a query of one value. Else it is zero.
	unit  uint32
	cells []uint16 // estimates of the rows of a window
	found []uint16
	near  []uint64 // rows with their estimates; see nearKey
}

// nearKey packs a row of a window and its estimate: ascending keys have descending estimates, equal
// ones ascending rows.
func nearKey(estimate uint16, row int) uint64 { return uint64(^estimate)<<32 | uint64(row) }

func estimateOf(key uint64) uint16 { return ^uint16(key >> 32) }

// scanWindow searches a window term at a time. A cell estimates the score of its row from above, in
// units: codes are rounded up, and so are products. The k rows of highest estimate are scored
// first. They give a threshold that the estimates of all other hits reach.
func (s *Searcher) scanWindow(rows int) {
	cells := s.addLists(rows)
	least := s.threshold()
	if s.params.Deleted == nil && s.params.Accept == nil {
		reached := s.reached(cells[:min(len(cells), sampleRows)])
		if s.scan.unit > 0 {
			// The rows that reach it may have lower scores than others with lower estimates: each list, the
			// ratio, and what is added to an estimate round up by at most one.
			reached -= min(reached, uint16(min(len(s.terms)+4, maxEstimate)))
		}
		least = max(least, reached)
	}
	if s.scan.unit > 0 {
		s.offerCounts(cells, least)
		return
	}
	s.nearest(cells, least)
	near := s.scan.near
	for i, key := range near {
		if i+ahead < len(near) {
			s.scorer.prefetch(s.first + uint32(near[i+ahead]))
		}
		s.offer(s.first + uint32(key))
	}
	s.stats.Candidates += len(near)
	if len(near) == s.top.k {
		s.offerRest(cells, near[s.top.k-1])
	}
}

// threshold returns the lowest estimate of a row that may be among the k best. It is at least one:
// rows without a common feature are not candidates.
func (s *Searcher) threshold() uint16 {
	// Codes, products and sums in float64 may be too low by a relative error far below one unit.
	return uint16(min(max(s.top.theta()*s.scan.perScore-1, 1), maxEstimate))
}

// addLists adds the containers of a window up.
func (s *Searcher) addLists(rows int) []uint16 {
	n := (rows + 63) &^ 63
	if cap(s.scan.cells) < n {
		s.scan.cells = make([]uint16, n)
	}
	cells := s.scan.cells[:n]
	clear(cells)
	bitmaps := 0
	for i := range s.parts {
		p := &s.parts[i]
		s.read(p.in.n, p.in.n+2*len(p.in.words))
		switch {
		case p.in.isBitmap():
			bitmaps++
		case p.code == nil:
			for _, row := range p.in.words { // assembly is no faster
				cells[row] += p.units
			}
		default:
			scatterCodes(cells, p.in.words, p.code, p.units)
		}
	}
	for from := 0; from < n && bitmaps > 0; from += blockRows {
		to := min(from+blockRows, n)
		for i := range s.parts {
			switch p := &s.parts[i]; {
			case !p.in.isBitmap():
			case p.code == nil:
				addUnit(cells[from:to], p.in.words[from/16:to/16], p.units)
			default:
				p.rank += addBits(cells[from:to], p.in.words[from/16:to/16], p.code[p.rank:], p.units)
			}
		}
	}
	if !s.lists.hasCodes() {
		scaleCells(cells, s.lists.Ratio[s.first:int(s.first)+rows])
	}
	return cells
}

// reached returns an estimate that k of some cells reach; zero if fewer than k cells are above zero.
func (s *Searcher) reached(cells []uint16) uint16 {
	least, more := 0, maxEstimate+1 // k cells reach least, fewer than k reach more
	for more-least > 1+least/16 {
		if mid := (least + more) / 2; countAtLeast16(cells, uint16(mid)) >= s.top.k {
			least = mid
		} else {
			more = mid
		}
	}
	return uint16(least)
}

// nearest puts the keys of the k rows of highest estimate into s.scan.near, the lowest of them last if
// there are k; only rows whose estimates are at least least.
func (s *Searcher) nearest(cells []uint16, least uint16) {
	k := s.top.k
	near := s.scan.near[:0]
	cut := func() {
		vector.SelectNth(near, k-1)
		near = near[:k]
		least = max(least, estimateOf(near[k-1]))
	}
	s.eachAtLeast(cells, &least, func(row int) {
		if s.accepted(s.first + uint32(row)) {
			if near = append(near, nearKey(cells[row], row)); len(near) >= max(4*k, 256) {
				cut()
			}
		}
	})
	if len(near) >= k {
		cut()
	}
	s.scan.near = near
}

// offerRest offers the rows with keys above last whose estimates reach the threshold.
func (s *Searcher) offerRest(cells []uint16, last uint64) {
	least := s.threshold()
	if least > estimateOf(last) {
		return
	}
	s.eachAtLeast(cells, &least, func(row int) {
		if nearKey(cells[row], row) > last && s.accepted(s.first+uint32(row)) {
			s.offer(s.first + uint32(row))
			s.stats.Candidates++
			least = s.threshold()
		}
	})
}

// offerCounts offers the rows whose estimates, which are counts, reach least. They are not selected first,
// since their scores follow from the counts.
func (s *Searcher) offerCounts(cells []uint16, least uint16) {
	s.eachAtLeast(cells, &least, func(row int) {
		if at := s.first + uint32(row); s.accepted(at) {
			s.stats.Candidates++
			s.stats.Scored++
			s.top.push(Hit{s.base + at, s.scoreCount(at, cells[row])})
			least = max(least, s.threshold())
		}
	})
}

// scoreCount returns the exact score of a row by the count that its estimate stands for: the estimate is
// count·unit·ratio/2¹⁶, rounded down, and one.
func (s *Searcher) scoreCount(row uint32, estimate uint16) float64 {
	factor := s.scan.unit * uint32(s.lists.Ratio[row])
	if factor < 1<<16 { // several counts have this estimate
		return s.scorer.score(row)
	}
	count := (uint32(estimate)<<16 - 1) / factor
	return equalProducts(s.terms[0].weight, s.lists.Value[row], int(count))
}

// eachAtLeast calls f with the rows whose cells are at least *least, which f may raise.
func (s *Searcher) eachAtLeast(cells []uint16, least *uint16, f func(row int)) {
	if s.scan.found == nil {
		s.scan.found = make([]uint16, scanRows+foundRoom)
	}
	for from := 0; from < len(cells); from += scanRows {
		block := cells[from:min(from+scanRows, len(cells))]
		for _, i := range s.scan.found[:atLeast16(block, *least, s.scan.found)] {
			if block[i] >= *least {
				f(from + int(i))
			}
		}
	}
}
