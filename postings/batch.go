package postings

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/anndb/anndb/vector"
)

const (
	// batchWidth is how many queries the batch kernel estimates at once.
	batchWidth = 32
	// batchRows is how many rows it handles between updates of thresholds.
	batchRows = 64
	half      = 1.0 / 128000
	// batchSlots is the most features that a block of queries may have.
	batchSlots = 1 << 16
)

// batch is the scratch of SearchBatch.
type batch struct {
	slots     []uint16 // feature to slot of weights, zero for features of no query
	weights   []uint16 // slot times batchWidth; slot 0 is all zero
	features  []uint32 // of the slots from 1
	least     [batchWidth]uint16
	estimates [batchRows * batchWidth]uint16
	hits      [batchRows]uint64
	pickers   []picker
	scale     [batchWidth]float64
}

// SearchBatch answers many queries, the rows of a matrix, and calls each with
// every answer in order of the queries. The answers are those of Search; hits
// are valid until each returns, an error of each ends the batch. With p's
// strategy Auto, blocks of queries share one pass over the rows where that is
// cheaper than their lists. Errors: as Search.
func (s *Searcher) SearchBatch(ctx context.Context, ix *Index, queries *vector.CSR, k int, p SearchParams, each func(query int, hits []Hit, stats Stats) error) error {
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
		if p.Strategy == Auto && ix.share(queries, from, from+n) {
			if err := s.scoreBlock(ctx, ix, queries, from, n, k, p, each); err != nil {
				return err
			}
			continue
		}
		for q := from; q < from+n; q++ {
			var stats Stats
			var err error
			if s.answer, stats, err = s.Search(ctx, ix, s.query(queries, q), k, p, s.answer[:0]); err != nil {
				return err
			}
			if err := each(q, s.answer, stats); err != nil {
				return err
			}
		}
	}
	return nil
}

// query is row q of a matrix, with values.
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

// scoreBlock estimates the scores of all rows for n queries in one pass over
// the rows, 16-bit estimates as in searchWeighted but from the values
// themselves. With w the weights and v the values in whole numbers, an
// estimate A of a row that has m features of the query satisfies
//
//	S·s - m - Δ <= A <= S·s + Δ,   Δ = Σ w/2¹⁷ + √m·‖row‖·V/2¹⁷
//
// V the units of a value: m for rounding products down, Δ for rounding either
// factor to nearest. half stands for the 1/2¹⁷, with a little for float32.
func (s *Searcher) scoreBlock(ctx context.Context, ix *Index, queries *vector.CSR, from, n, k int, p SearchParams, each func(int, []Hit, Stats) error) error {
	b := &s.batch
	rows := ix.Rows
	if len(b.slots) < rows.Cols {
		b.slots = make([]uint16, rows.Cols)
	}
	if b.pickers == nil {
		b.pickers = make([]picker, batchWidth)
	}
	k = min(k, rows.Rows())
	b.features = b.features[:0]
	b.weights = append(b.weights[:0], zeros[:]...)
	unit := float64(float32(maxEstimate / ix.Unit * (1 - 1e-6)))
	s.params, s.base = p, 0
	for q := range batchWidth {
		b.least[q] = maxEstimate
		b.scale[q] = 0
		if q >= n || k == 0 {
			continue
		}
		query := s.query(queries, from+q)
		var sum float64
		var most float32
		known := 0
		for i, f := range query.Index {
			if int(f) >= rows.Cols {
				break
			}
			w := query.Value[i]
			sum += float64(w) * float64(w)
			most = max(most, w)
			known++
		}
		length := up(math.Sqrt(sum))
		scale := (maxEstimate - 8) / (length * ix.Norm)
		if s.guessFor == ix && s.guess > 0 {
			scale = max(scale, aim/(s.guess*length))
		}
		// scale/unit·2¹⁶ is the units of a weight.
		scale = down(min(scale, maxEstimate/float64(most)*unit/(1<<16)))
		if !(scale > 0) || math.IsInf(scale, 0) {
			continue
		}
		b.scale[q] = scale
		lost := float64(known) + math.Sqrt(float64(known))*ix.Norm*unit*half
		for i, f := range query.Index[:known] {
			w := uint16(math.Round(float64(query.Value[i]) * scale / unit * (1 << 16)))
			lost += float64(w) * half
			if w == 0 {
				continue
			}
			slot := b.slots[f]
			if slot == 0 {
				b.features = append(b.features, f)
				slot = uint16(len(b.features))
				b.slots[f] = slot
				b.weights = append(b.weights, zeros[:]...)
			}
			b.weights[int(slot)*batchWidth+q] = w
		}
		b.pickers[q].reset(k, int(math.Ceil(lost))+2, 0)
		b.pickers[q].under = int(math.Ceil(lost-float64(known))) + 1
		b.least[q] = b.pickers[q].threshold()
	}
	err := s.passRows(ctx, ix, float32(unit))
	for _, f := range b.features {
		b.slots[f] = 0
	}
	if err != nil {
		return err
	}
	for q := range n {
		s.top.reset(k)
		s.stats = Stats{Strategy: Rows}
		query := s.query(queries, from+q)
		if pk := &b.pickers[q]; b.scale[q] == 0 || pk.least < 1 {
			// Few rows have an estimate that beats zero for sure, or none.
			p.Strategy = Auto
			var stats Stats
			if s.answer, stats, err = s.Search(ctx, ix, query, k, p, s.answer[:0]); err != nil {
				return err
			}
			if err := each(from+q, s.answer, stats); err != nil {
				return err
			}
			continue
		}
		s.terms = appendTerms(s.terms[:0], query, rows.Cols)
		s.scorer.load(rows, s.terms)
		s.finish(&b.pickers[q], b.scale[q])
		s.scorer.unload(s.terms)
		s.learn(ix, queryNorm(s.terms))
		s.stats.Pruned = rows.Rows() - s.stats.Candidates
		s.stats.Postings = len(rows.Index) / n
		s.stats.Bytes += 8 * len(rows.Index) / n
		s.answer = s.top.append(s.answer[:0])
		if err := each(from+q, s.answer, s.stats); err != nil {
			return err
		}
	}
	return nil
}

var zeros [batchWidth]uint16

// passRows runs the kernel over all rows and offers the hits to the pickers.
func (s *Searcher) passRows(ctx context.Context, ix *Index, unit float32) error {
	b := &s.batch
	rows := ix.Rows
	for first := 0; first < rows.Rows(); first += batchRows {
		if first%(16*batchRows) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		n := min(batchRows, rows.Rows()-first)
		scoreRows(rows.Ptr[first:first+n+1], n, rows.Index, rows.Value, unit, b.slots, b.weights, &b.least, b.estimates[:], b.hits[:])
		for i, hits := range b.hits[:n] {
			row := uint32(first + i)
			if hits == 0 || !s.accepted(row) {
				continue
			}
			for ; hits != 0; hits &= hits - 1 {
				q := bits.TrailingZeros64(hits)
				p := &b.pickers[q]
				if most := int(b.estimates[i*batchWidth+q]); most >= p.least && b.scale[q] > 0 {
					p.add(candidate{at: row}, most-p.under, most)
					b.least[q] = p.threshold()
				}
			}
		}
	}
	return nil
}
