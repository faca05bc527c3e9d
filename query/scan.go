package query

import (
	"math"
	"math/bits"

	"github.com/anndb/anndb/vector"
)

// scanFirst reports whether an exact scan is requested or cheapest.
func (s *Searcher) scanFirst() bool {
	p := s.p
	if p.Method == Flat && !s.scansSketches() {
		return true
	}
	if p.Filter == nil || p.NoWiden {
		return false
	}
	return s.stats.Passing <= fewPassing+s.scanKeep()
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
		s.scan(0, s.v.Rows.N, "scan")
		return
	}
	s.filtered(0, s.v.Rows.N, func(ids []uint32) { s.enter(ids, "scan") })
}

// filtered calls f with the live and accepted rows of the filter from first to before end, some at a time.
func (s *Searcher) filtered(first, end int, f func(ids []uint32)) {
	s.batch = grow(s.batch, sketchRun)
	s.rows.Initialize(s.p.Filter)
	for !s.halted() {
		ids := s.batch[:s.rows.NextMany(s.batch[:sketchRun])]
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
	s.batch = grow(s.batch, sketchRun)
	words := s.v.DeletedBits
	for row := first &^ 63; row < end && !s.halted(); {
		ids := s.batch[:0]
		for row < end && len(ids) <= sketchRun-64 {
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
func (s *Searcher) scan(lo, hi int, source string) {
	r, requested := &s.v.Rows, -1
	for lo < hi && s.err == nil {
		if c := lo >> r.Shift; c > requested {
			r.RequestChunk(c)
			requested = c
		}
		end := min(lo+s.every+1, hi)
		for ; lo < end; lo++ {
			s.scanRow(uint32(lo), source)
		}
		s.halted()
	}
}

func (s *Searcher) scanRow(row uint32, source string) {
	if s.restricted() && !s.allowed(row) {
		return
	}
	s.stats.Exact++
	s.keep(row, s.exact.distance(row))
	if s.watch != nil && s.watch.row == row {
		s.watch.source = source
	}
}

// judgements records the results of Params.Accept in one search, so that it is called once per
// row: judged[row] is verdict for a rejected row, verdict+1 for an accepted one; smaller
// numbers are of older searches.
type judgements struct {
	judged  []uint16
	verdict uint16
}

// begin discards all judgements. It clears the array only once in 32,767 searches.
func (j *judgements) begin(rows int) {
	if len(j.judged) < rows {
		j.judged = make([]uint16, rows+rows/4)
		j.verdict = 0
	}
	j.verdict += 2
	if j.verdict == 0 {
		clear(j.judged)
		j.verdict = 2
	}
}

// accepted reports whether Params.Accept accepts a row. Once the context has ended it returns
// false without calling Accept.
func (s *Searcher) accepted(row uint32) bool {
	switch s.judged[row] {
	case s.verdict:
		return false
	case s.verdict + 1:
		return true
	}
	if s.halted() {
		return false
	}
	s.judged[row] = s.verdict
	if !s.p.Accept(row) {
		return false
	}
	s.judged[row]++
	return true
}

// scanKeep returns the number of rows that get exact distances first in a scan by sketches: as many
// per answer as a beam of that depth needs.
func (s *Searcher) scanKeep() int {
	k := float64(max(1, s.p.K))
	most := float64(s.p.sketchKeep())
	l := &s.widths
	for i := range l.n {
		x := &l.levels[i]
		if x.depth >= k || i == l.n-1 {
			most = max(most, x.r/x.depth*k)
		}
	}
	return s.places(most)
}

// scanSketches compares the sketches of all passing rows of the segment, and computes exact
// distances of the best ones until these no longer change the answer and all others are farther than it
// by estimate. If these are too many, because the passing rows are all far away and about equally far, it
// compares all of them exactly.
func (s *Searcher) scanSketches() {
	s.stats.Way, s.stats.Width = BySketches, 0
	want := s.scanKeep()
	s.pool.fill(s, 8*want+4*settleLeast) // of which want get an exact distance first
	s.nextEpoch()
	bound := float32(math.Inf(-1))
	var errors residuals
	for scored := 0; !s.halted(); {
		n := want
		if scored > 0 {
			n = max(scored/2, settleLeast)
		}
		var ids []uint32
		last := bound
		if ids, bound = s.pool.next(s, n, bound); len(ids) < n {
			s.enter(s.numbered(ids), "scan")
			if !s.pool.dropped {
				s.stats.Recall = 1
				return
			}
			break
		}
		entered := s.enter(s.numbered(ids), "scan")
		s.judge(ids, &errors)
		few := scored > 0 && entered*fewEntered <= s.depth()
		if few && bound > last && s.settled(&errors, bound) { // equal estimates say nothing about others
			return
		}
		scored += len(ids)
	}
	if s.halted() {
		return
	}
	s.stats.Widened++
	s.stats.Way, s.stats.Recall = ByScan, 1
	s.possibleRows(func(ids []uint32) { s.enter(s.unseen(ids), "scan") })
}

// unseen keeps the rows of the segment that pool.next has not returned.
func (s *Searcher) unseen(ids []uint32) []uint32 {
	n := 0
	for _, id := range ids {
		if s.seen[id-uint32(s.seg.First)] != s.epoch {
			ids[n] = id
			n++
		}
	}
	return ids[:n]
}

// judge adds the errors of some rows that pool.next has returned.
func (s *Searcher) judge(ids []uint32, errors *residuals) {
	for i := 0; i < len(ids); i += max(1, len(ids)/settleLeast) {
		errors.add(float64(s.squared(s.exact.distance(ids[i])) - s.scores[i]))
	}
}

// settled reports whether rows of estimates above bound are not expected to be nearer than the answer: the
// errors of short rows next to long ones may exceed all differences between their distances.
func (s *Searcher) settled(errors *residuals, bound float32) bool {
	threshold := float64(s.squared(s.top.Threshold()))
	return float64(bound+s.fromMean) >= threshold && errors.least(float64(bound), settleErrors) >= threshold
}

// squared returns the squared distance in the partition space of an internal distance.
func (s *Searcher) squared(d float32) float32 {
	switch {
	case s.v.Lift:
		return 2*s.v.LiftNorm*s.v.LiftNorm + 2*s.lifted*d
	case s.v.Metric == vector.Cosine:
		return 2 * d
	}
	return d
}

// pool keeps the rows of best estimates of a scan by sketches.
type pool struct {
	room   int
	ids    []uint32
	scores []float32 // estimates of ids
	// bound is an estimate that those of the best room rows do not exceed; dropped is set if rows
	// were left out.
	bound   float32
	dropped bool
	out     []float32
	part    []uint32 // scratch of next
}

// settleLeast is the least number of rows that can show that an answer has settled.
const settleLeast = 32

// fill estimates all passing rows of the segment and keeps the best, at most room of them.
func (p *pool) fill(s *Searcher, room int) {
	p.room, p.bound, p.dropped = room, float32(math.Inf(1)), false
	p.ids, p.scores = p.ids[:0], p.scores[:0]
	s.possibleRows(func(ids []uint32) { p.add(s, ids) })
	p.shrink(s)
}

// possibleRows calls f with the passing rows of the segment, some at a time.
func (s *Searcher) possibleRows(f func(ids []uint32)) {
	if s.p.Filter != nil {
		s.filtered(s.seg.First, s.seg.end(), f)
	} else {
		s.unfiltered(s.seg.First, s.seg.end(), f)
	}
}

// add estimates rows and keeps those that may be among the best, by their numbers in the segment.
func (p *pool) add(s *Searcher, ids []uint32) {
	for i := range ids {
		ids[i] -= uint32(s.seg.First)
	}
	p.out = grow(p.out, sketchRun)
	out := p.out[:len(ids)]
	s.stats.Sketched += len(ids)
	s.estimate(s.seg.Sketch, ids, out)
	for i, x := range out {
		if x < p.bound {
			p.ids, p.scores = append(p.ids, ids[i]), append(p.scores, x)
		} else {
			p.dropped = true
		}
	}
	if len(p.ids) >= 2*p.room+sketchRun {
		p.shrink(s)
	}
}

// shrink reduces the pool to the best rows.
func (p *pool) shrink(s *Searcher) {
	if len(p.ids) <= p.room {
		return
	}
	p.dropped = true
	p.ids = s.pick.best(p.ids, p.scores, p.room)
	p.scores = p.scores[:len(p.ids)]
	p.bound = highest(p.scores)
}

// highest returns the largest of scores.
func highest(scores []float32) float32 {
	most := float32(math.Inf(-1))
	for _, x := range scores {
		most = max(most, x)
	}
	return most
}

// next returns the n rows of best estimates that were not returned before, none of which is
// below bound, and their highest estimate.
func (p *pool) next(s *Searcher, n int, bound float32) ([]uint32, float32) {
	p.part, s.scores = p.part[:0], s.scores[:0]
	for i, x := range p.scores {
		if x >= bound && s.seen[p.ids[i]] != s.epoch {
			p.part, s.scores = append(p.part, p.ids[i]), append(s.scores, x)
		}
	}
	ids := s.pick.best(p.part, s.scores, n)
	for _, id := range ids {
		s.seen[id] = s.epoch
	}
	s.scores = s.scores[:len(ids)]
	return ids, highest(s.scores)
}
