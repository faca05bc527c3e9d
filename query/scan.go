package query

import (
	"math"
	"math/bits"
)

// filterScan is the number of rows up to which a filter is answered by scanning its rows, which
// is cheaper than searching and discarding.
const filterScan = 2000

// scanFirst reports whether an exact scan is requested or cheapest.
func (s *Searcher) scanFirst() bool {
	p := s.p
	if p.Method == Flat && !s.scansSketches() {
		return true
	}
	if p.Filter == nil || p.NoWiden {
		return false
	}
	few := uint64(filterScan)
	if s.beamWidth() > 0 || s.scansSketches() {
		few = uint64(fewPassing + s.scanKeep())
	}
	return uint64(s.stats.Passing) <= few
}

// fewPass reports whether the passing rows are so few that all of them are compared, whatever the setting.
func (s *Searcher) fewPass() bool {
	return s.p.Filter != nil && !s.p.NoWiden && s.stats.Passing <= fewPassing
}

// scansSketches reports whether the sketches of all rows of the segment are compared.
func (s *Searcher) scansSketches() bool {
	return s.p.Method == Flat && s.p.Sketch && !s.p.Range && s.seg.Sketch != nil && s.seg.Forest != nil
}

// restricted reports whether some rows cannot be answers.
func (s *Searcher) restricted() bool {
	return s.v.Deleted != nil || s.p.Filter != nil || s.p.Accept != nil
}

// allowed reports whether a row is live and passes the filters.
func (s *Searcher) allowed(row uint32) bool {
	return !s.deleted(row) &&
		(s.p.Filter == nil || s.p.Filter.Contains(row)) &&
		(s.p.Accept == nil || s.accepted(row))
}

// deleted reports whether a row is deleted.
func (s *Searcher) deleted(row uint32) bool { return s.v.IsDeleted(row) }

// passing keeps the rows of the segment that are live and pass the filters.
func (s *Searcher) passing(ids []uint32) []uint32 {
	if !s.restricted() {
		return ids
	}
	n := 0
	for _, id := range ids {
		if s.allowed(id + uint32(s.seg.First)) {
			ids[n] = id
			n++
		}
	}
	return ids[:n]
}

// sparse reports whether so few of the elected rows pass the filters that the best passing rows
// are probably not among them.
func (s *Searcher) sparse(passing int) bool {
	return s.restricted() && !s.p.NoWiden &&
		passing < s.stats.Candidates/2 && passing < 4*max(s.p.K, 10)
}

// complete reports whether the answer already holds all rows that a scan could find.
func (s *Searcher) complete() bool {
	p := s.p
	return p.Range || p.NoWiden || s.top.Len() >= p.K || s.top.Len() >= s.passingRows(0, s.v.Rows.N)
}

// scanAll scores every row that passes the filters.
func (s *Searcher) scanAll() {
	s.within = s.within[:0]
	s.stats.Way, s.stats.Width, s.stats.Recall = ByScan, 0, 1
	if s.p.Filter == nil {
		s.scan(0, s.v.Rows.N, fromScan)
		return
	}
	s.filtered(0, s.v.Rows.N, func(ids []uint32) { s.enter(ids, fromScan) })
}

// filtered calls f with the live and accepted rows of the filter from first to before end, some at a time.
func (s *Searcher) filtered(first, end int, f func(ids []uint32)) {
	s.batch = grow(s.batch, poolRun)
	s.rows.Initialize(s.p.Filter)
	for !s.halted() {
		ids := s.batch[:s.rows.NextMany(s.batch[:poolRun])]
		all := len(ids)
		for len(ids) > 0 && int(ids[len(ids)-1]) >= end {
			ids = ids[:len(ids)-1]
		}
		last := len(ids) < all || all == 0
		for len(ids) > 0 && int(ids[0]) < first {
			ids = ids[1:]
		}
		if len(ids) > 0 {
			f(s.possible(ids))
		}
		if last {
			return
		}
	}
}

// unfiltered calls f with the live and accepted rows from first to before end, some at a time.
func (s *Searcher) unfiltered(first, end int, f func(ids []uint32)) {
	s.batch = grow(s.batch, poolRun)
	words := s.v.DeletedBits
	for row := first &^ 63; row < end && !s.halted(); {
		ids := s.batch[:0]
		for row < end && len(ids) <= poolRun-64 {
			// Whole words, since mostly deleted collections have many without a live row.
			live := uint64(math.MaxUint64)
			if words != nil {
				live = ^words[row>>6]
			}
			for ; live != 0; live &= live - 1 {
				if id := row + bits.TrailingZeros64(live); first <= id && id < end {
					ids = append(ids, uint32(id))
				}
			}
			row += 64
		}
		if ids = s.possible(ids); len(ids) > 0 {
			f(ids)
		}
	}
}

// possible keeps the rows that are live and accepted, of rows that pass the filter.
func (s *Searcher) possible(ids []uint32) []uint32 {
	if s.v.Deleted == nil && s.p.Accept == nil {
		return ids
	}
	n := 0
	for _, id := range ids {
		if !s.deleted(id) && (s.p.Accept == nil || s.accepted(id)) {
			ids[n] = id
			n++
		}
	}
	return ids[:n]
}

// scan scores the rows of [lo, hi) that pass the filters.
func (s *Searcher) scan(lo, hi int, stage origin) {
	r, requested := &s.v.Rows, -1
	for lo < hi && s.err == nil {
		if c := lo >> r.Shift; c > requested {
			r.RequestChunk(c)
			requested = c
		}
		end := min(lo+s.every+1, hi)
		for ; lo < end; lo++ {
			s.scanRow(uint32(lo), stage)
		}
		s.halted()
	}
}

func (s *Searcher) scanRow(row uint32, stage origin) {
	if s.restricted() && !s.allowed(row) {
		return
	}
	s.stats.Exact++
	s.keep(row, s.exact.distance(row))
	if s.watch != nil && s.watch.row == row {
		s.watch.origin = stage
	}
}
