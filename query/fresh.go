package query

// Rows behind the segments have no leaf and no neighbor list. Where they have sketches (View.Fresh) and rows
// of the segments have shown how far estimates are from distances, those that cannot be expected to be among
// the nearest by their estimates get no exact distance.

// measureErrors computes the errors of the estimates of some of the rows of the segment.
func (s *Searcher) measureErrors(ids []uint32) {
	ids = ids[:min(len(ids), settleLeast)]
	s.scores = grow(s.scores, len(ids))
	s.estimate(s.seg.Sketch, ids, s.scores)
	unit := s.estimateUnit()
	for i, id := range ids {
		s.errors.add(float64(s.exact.distance(id+uint32(s.seg.First))) - unit*float64(s.scores[i]))
	}
	s.stats.Exact += len(ids)
}

// enterFresh enters the rows behind the segments.
func (s *Searcher) enterFresh() {
	from, end := s.v.Covered(), s.v.Rows.N
	s.stats.Fresh = end - from
	if s.v.Fresh != nil && s.first.Sketch && !s.p.Range && s.errors.n >= stopRows {
		n := s.v.FreshN
		for len(s.counting) < n {
			s.counting = append(s.counting, uint32(len(s.counting)))
		}
		s.scores = grow(s.scores, n)
		s.stats.Sketched += n
		s.estimate(s.v.Fresh, s.counting[:n], s.scores)
		s.hop = grow(s.hop, n)[:0]
		unit, threshold := s.estimateUnit(), s.top.Threshold()
		for i, x := range s.scores {
			if row := uint32(from + i); !s.errors.exceed(unit*float64(x), threshold) &&
				(!s.restricted() || s.allowed(row)) {
				s.hop = append(s.hop, row)
			}
		}
		s.enter(s.hop, "fresh")
		from += n
	}
	s.scan(from, end, "fresh")
}
