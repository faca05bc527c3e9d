package postings

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/anndb/anndb/vector"
)

const (
	// batchWidth is the number of queries that the batch kernel estimates at once.
	batchWidth = 64
	// batchRows is the number of rows between updates of thresholds.
	batchRows = 64
	// sampleBlocks is the number of rows, in multiples of batchRows, that are estimated before
	// the thresholds of a group are first set.
	sampleBlocks = 32
	// batchSlots is the maximum number of entries of a group of queries.
	batchSlots = 1 << 16
	// half is the error of rounding one factor of a product to nearest, in units of 2⁻¹⁶, with
	// a margin for float32.
	half = 1.0 / 128000
)

// batch is the scratch of SearchBatch.
type batch struct {
	group     group
	estimates [batchRows * batchWidth]uint16
	sample    [sampleBlocks * batchRows * batchWidth]uint16
	hits      [batchRows]uint64
	decoded   vector.CSR // a block of rows of a Source
}

// group is batchWidth queries. Their features have slots in a table of weights, numbered from
// 1. Slot 0 is all zero: it is for features of no query.
type group struct {
	size     int      // queries in use
	slots    []uint16 // by feature
	features []uint32 // by slot − 1
	weights  []uint16 // batchWidth per slot
	least    [batchWidth]uint16
	scale    [batchWidth]float64 // units per point of score; zero: not estimated
	pickers  [batchWidth]picker
}

// SearchBatch answers the rows of a matrix as queries and calls each with every answer in order
// of the queries. The answers are those of Search. Hits are valid until each returns, and an
// error of each ends the batch. With strategy Auto, blocks of queries share one pass over the
// rows where that is estimated to be cheaper than their lists; with p.ByRows, wherever it is
// possible. Errors: as Search.
func (s *Searcher) SearchBatch(ctx context.Context, ix *Index, queries *vector.CSR, k int,
	p SearchParams, each func(query int, hits []Hit, stats Stats) error) error {
	if err := queries.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrParams, err)
	}
	for i, v := range queries.Value {
		if v < 0 {
			return fmt.Errorf("%w: entry %d of the queries is %g", ErrParams, i, v)
		}
	}
	if k < 0 {
		return fmt.Errorf("%w: k is %d", ErrParams, k)
	}
	for from := 0; from < queries.Rows(); from += batchWidth {
		n := min(batchWidth, queries.Rows()-from)
		if ix.canShare(queries, from, from+n) &&
			(p.ByRows || p.Strategy == Auto && ix.share(queries, from, from+n, min(k, ix.Len()))) {
			if err := s.scoreBlock(ctx, ix, queryBlock{queries, from, n}, k, p, each); err != nil {
				return err
			}
			continue
		}
		for q := from; q < from+n; q++ {
			var stats Stats
			var err error
			if s.answer, stats, err = s.search(ctx, ix, s.query(queries, q), k, p,
				s.answer[:0]); err != nil {
				return err
			}
			if err := each(q, s.answer, stats); err != nil {
				return err
			}
		}
	}
	return nil
}

// query returns row q of a matrix, with values.
func (s *Searcher) query(queries *vector.CSR, q int) vector.Sparse {
	r := queries.Row(q)
	if r.Value == nil {
		for len(s.ones) < len(r.Index) {
			s.ones = append(s.ones, 1)
		}
		r.Value = s.ones[:len(r.Index)]
	}
	return r
}

// queryBlock is n queries of a batch, the first of them with number from.
type queryBlock struct {
	queries *vector.CSR
	from, n int
}

// scoreBlock estimates the scores of all rows for a block of queries in one pass over the rows.
// Estimates have 16 bits as in searchWeighted, but come from the values themselves. With
// integer weights w and integer values v, an estimate A of a row that has m features of the
// query satisfies
//
//	S·s - m - Δ <= A <= S·s + Δ,   Δ = Σ w/2¹⁷ + √m·‖row‖·V/2¹⁷
//
// where V is the number of units of a value: m for rounding products down, Δ for rounding
// either factor to nearest.
func (s *Searcher) scoreBlock(
	ctx context.Context, ix *Index, b queryBlock, k int, p SearchParams,
	each func(int, []Hit, Stats) error,
) error {
	k = min(k, ix.Len())
	unit := float64(float32(maxEstimate / ix.Unit * (1 - 1e-6)))
	s.params, s.base = p, 0
	if s.batch == nil {
		s.batch = new(batch)
	}
	g := &s.batch.group
	g.size = b.n
	s.loadGroup(ix, g, b, k, unit)
	err := s.passRows(ctx, ix, float32(unit))
	for _, f := range g.features {
		g.slots[f] = 0
	}
	if err != nil {
		return err
	}
	for q := range b.n {
		stats, err := s.finishQuery(ctx, ix, s.query(b.queries, b.from+q), &g.pickers[q], g.scale[q], k, p)
		if err != nil {
			return err
		}
		if stats.Strategy == byRows {
			stats.Postings += ix.entries() / b.n
			stats.Bytes += 8 * ix.entries() / b.n
		}
		if err := each(b.from+q, s.answer, stats); err != nil {
			return err
		}
	}
	return nil
}

// loadGroup fills the table with the queries of a block.
func (s *Searcher) loadGroup(ix *Index, g *group, b queryBlock, k int, unit float64) {
	if len(g.slots) < ix.Features() {
		g.slots = make([]uint16, ix.Features())
	}
	g.features = g.features[:0]
	g.weights = append(g.weights[:0], zeros[:]...)
	for q := range batchWidth {
		g.least[q] = maxEstimate
		g.scale[q] = 0
		if q >= g.size || k == 0 {
			continue
		}
		s.terms = ix.appendTerms(s.terms[:0], s.query(b.queries, b.from+q))
		length := up(queryNorm(s.terms))
		scale := (maxEstimate - 8) / (length * ix.Norm)
		if s.guessFor == ix && s.guess > 0 {
			scale = max(scale, aim/(s.guess*length))
		}
		var most float32
		for _, t := range s.terms {
			most = max(most, t.weight)
		}
		// scale/unit·2¹⁶ is the number of units of a weight.
		scale = down(min(scale, maxEstimate/float64(most)*unit/(1<<16)))
		if !(scale > 0) || math.IsInf(scale, 0) {
			continue
		}
		g.scale[q] = scale
		m := float64(len(s.terms))
		lost := math.Sqrt(m) * ix.Norm * unit * half
		for _, t := range s.terms {
			w := uint16(math.Round(float64(t.weight) * scale / unit * (1 << 16)))
			lost += float64(w) * half
			if w == 0 {
				continue
			}
			slot := g.slots[t.feature]
			if slot == 0 {
				g.features = append(g.features, t.feature)
				slot = uint16(len(g.features))
				g.slots[t.feature] = slot
				g.weights = append(g.weights, zeros[:]...)
			}
			g.weights[int(slot)*batchWidth+q] = w
		}
		p := &g.pickers[q]
		p.reset(k, int(math.Ceil(m+lost))+2, 0)
		p.under = int(math.Ceil(lost)) + 1
		g.least[q] = p.threshold()
	}
}

// finishQuery puts the answer of a query, whose rows have been picked, into s.answer.
func (s *Searcher) finishQuery(ctx context.Context, ix *Index, query vector.Sparse, p *picker,
	scale float64, k int, params SearchParams) (Stats, error) {
	if scale == 0 || p.least < 1 {
		// At most a few rows have an estimate that surely exceeds zero.
		var stats Stats
		var err error
		s.answer, stats, err = s.search(ctx, ix, query, k, params, s.answer[:0])
		return stats, err
	}
	s.top.reset(k)
	s.stats = Stats{Strategy: byRows}
	s.terms = ix.appendTerms(s.terms[:0], query)
	s.loadScorer(ix)
	s.finish(p, scale)
	s.unloadScorer()
	s.learn(ix, queryNorm(s.terms))
	s.stats.Pruned = ix.Len() - s.stats.Candidates
	s.answer = s.top.append(s.answer[:0])
	return s.stats, nil
}

var zeros [batchWidth]uint16

// passRows runs the kernel over all rows and offers the hits to the pickers. It starts with a
// sample of blocks at equal distances, from which the pickers get their first thresholds.
func (s *Searcher) passRows(ctx context.Context, ix *Index, unit float32) error {
	b, g := s.batch, &s.batch.group
	n := ix.Len()
	blocks := (n + batchRows - 1) / batchRows
	apart := (blocks + sampleBlocks - 1) / sampleBlocks
	sampled := 0 // rows in the sample
	for block := 0; block < blocks; block += apart {
		sampled += s.estimateBlock(ix, block, unit, b.sample[sampled*batchWidth:])
	}
	if s.params.Deleted == nil && s.params.Accept == nil {
		s.raiseThresholds(sampled)
	}
	for block := range blocks {
		if block%16 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		estimates := b.estimates[:]
		if block%apart == 0 {
			estimates = b.sample[block/apart*batchRows*batchWidth:]
		} else {
			s.estimateBlock(ix, block, unit, estimates)
		}
		count := min(batchRows, n-block*batchRows)
		rowsAtLeast(estimates, count, &g.least, b.hits[:])
		s.pickGroup(g, estimates, block*batchRows, count)
	}
	return nil
}

// estimateBlock estimates the scores of a block of rows and returns their number.
func (s *Searcher) estimateBlock(ix *Index, block int, unit float32, estimates []uint16) int {
	rows, g := ix.Rows, &s.batch.group
	first := block * batchRows
	n := min(batchRows, ix.Len()-first)
	if ix.Source != nil {
		rows = &s.batch.decoded
		ix.Source.decode(rows, first, first+n)
		first = 0
	}
	scoreRows(rows.Ptr[first:first+n+1], n, rows.Index, rows.Value, unit, g.slots, g.weights, estimates)
	return n
}

// thresholdBits is the number of leading bits of a threshold that are searched for.
const thresholdBits = 11

// raiseThresholds sets the threshold of every query to an estimate that k rows of the sample
// reach, by bisection for all queries at once.
func (s *Searcher) raiseThresholds(sampled int) {
	b, g := s.batch, &s.batch.group
	var reached [batchWidth]uint16 // by k rows of the sample
	for bit := 15; bit >= 16-thresholdBits; bit-- {
		mid := reached
		for q := range mid {
			mid[q] |= 1 << bit
		}
		var counts [batchWidth]uint16
		countRows(b.sample[:], sampled, &mid, &counts)
		for q := range reached {
			if int(counts[q]) >= g.pickers[q].k {
				reached[q] = mid[q]
			}
		}
	}
	for q := range g.size {
		if p := &g.pickers[q]; g.scale[q] > 0 {
			p.reset(p.k, p.over, int(reached[q])-p.under)
			g.least[q] = p.threshold()
		}
	}
}

// pickGroup offers the hits of n rows.
func (s *Searcher) pickGroup(g *group, estimates []uint16, first, n int) {
	free := s.params.Deleted == nil && s.params.Accept == nil
	for i, hits := range s.batch.hits[:n] {
		row := uint32(first + i)
		if hits == 0 || !free && !s.accepted(row) {
			continue
		}
		for ; hits != 0; hits &= hits - 1 {
			q := bits.TrailingZeros64(hits)
			p := &g.pickers[q]
			if most := int(estimates[i*batchWidth+q]); most >= p.least && g.scale[q] > 0 {
				p.add(candidate{at: row}, most-p.under, most)
				g.least[q] = p.threshold()
			}
		}
	}
}
