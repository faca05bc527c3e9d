package query

// filterScan is the number of rows up to which a filter is answered by scanning its rows, which
// is cheaper than searching and discarding.
const filterScan = 2000

// scanFirst reports whether an exact scan is requested or cheapest.
func (s *Searcher) scanFirst() bool {
	p := s.p
	return p.Method == Flat || p.Filter != nil && !p.NoWiden && p.Filter.GetCardinality() <= filterScan
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

// passing keeps the rows that are live and pass the filters.
func (s *Searcher) passing(ids []uint32) []uint32 {
	if !s.restricted() {
		return ids
	}
	n := 0
	for _, id := range ids {
		if s.allowed(id) {
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
	p, v := s.p, s.v
	if p.Range || p.NoWiden || s.top.Len() >= p.K {
		return true
	}
	most := uint64(v.live())
	if p.Filter != nil {
		most = min(most, p.Filter.GetCardinality())
	}
	return uint64(s.top.Len()) >= most
}

// scanAll scores every row that passes the filters.
func (s *Searcher) scanAll() {
	s.within = s.within[:0]
	f := s.p.Filter
	if f == nil {
		s.scan(0, s.v.Rows.N, fromScan)
		return
	}
	n := 0
	f.Iterate(func(row uint32) bool {
		if int(row) >= s.v.Rows.N {
			return false
		}
		s.scanRow(row, fromScan)
		n++
		return n&s.every != 0 || !s.halted()
	})
}

// scan scores the rows of [lo, hi) that pass the filters.
func (s *Searcher) scan(lo, hi int, stage origin) {
	for lo < hi && s.err == nil {
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
