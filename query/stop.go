package query

import (
	"math"

	"github.com/anndb/anndb/vector"
)

// The rows of a beam get exact distances in the order of their estimates, at most R of them. The differences
// between both show how large the errors of this query's estimates are. Once the next estimate is more than
// stopErrors standard errors above the k-th distance, the rest is left out: with 768 coordinates 26 rows
// in place of 70 at the same recall. A fixed number has to suffice for the queries with the most
// rows at about the same distance.

const (
	// stopErrors is the number of standard errors. Compared with all rows of the beam, 5 costs no recall on
	// EURLEX57K and 0.0005 to 0.0008 on clusters in 768 dimensions; 3 costs 0.0008 and 0.003 to 0.005.
	stopErrors = 5
	// stopRows is the least number of rows from which the errors are judged.
	stopRows = 12
	// firstRound is the least number of rows that are requested together before the errors are judged.
	firstRound = 16
)

// residuals are the mean and the variance of exact distances less their estimates.
type residuals struct{ n, sum, squares float64 }

func (r *residuals) add(x float64) {
	r.n++
	r.sum += x
	r.squares += x * x
}

// least returns the distance that a row of this estimate has at least, if its error is at most that many
// standard errors.
func (r *residuals) least(estimate, errors float64) float64 {
	mean := r.sum / r.n
	return estimate + mean - errors*math.Sqrt(max(0, r.squares/r.n-mean*mean))
}

// beamOrder follows rows of the beam, in its order, that get exact distances.
type beamOrder struct {
	beam     *beam
	first    uint32  // number of the segment's first row
	unit     float64 // see estimateUnit
	place    int     // of the last row
	estimate float64 // of the last row
	errors   residuals
}

// ends reports whether neither the next row nor those after it are expected to be nearer than threshold.
func (o *beamOrder) ends(row uint32, threshold float32) bool {
	for o.beam.row(o.place)+o.first != row {
		o.place++
	}
	o.estimate = o.unit * float64(keyEstimate(o.beam.keys[o.place]))
	return o.errors.exceed(o.estimate, threshold)
}

// exceed reports whether rows of an estimate are expected to be farther away than threshold.
func (r *residuals) exceed(estimate float64, threshold float32) bool {
	return r.n >= stopRows && r.least(estimate, stopErrors) > float64(threshold)
}

// enterBeam is score for rows of the beam in its order, until the rest cannot be expected to be among the
// nearest of all segments. Rows that are read from a disk are requested in rounds: the best ones, then
// all that may be among the nearest by the errors of those before. A third round is rare.
func (s *Searcher) enterBeam(ids []uint32) {
	if s.p.Range || s.quantised() {
		s.score(ids, fromForest)
		return
	}
	order := beamOrder{beam: &s.beam, first: uint32(s.seg.First), unit: s.estimateUnit(), errors: s.errors}
	s.enterOrdered(s.numbered(ids), &order)
	s.errors = order.errors
}

func (s *Searcher) enterOrdered(ids []uint32, order *beamOrder) {
	if s.v.Rows.Request == nil {
		s.enterUntil(ids, fromForest, order)
		return
	}
	for n := max(s.p.K, firstRound); len(ids) > 0 && !s.halted(); {
		n = min(n, len(ids))
		s.enterUntil(ids[:n], fromForest, order)
		ids = ids[n:]
		next := *order
		for n = 0; n < len(ids) && !next.ends(ids[n], s.top.Threshold()); {
			n++
		}
		if n == 0 {
			return
		}
	}
}

// estimateUnit is what a squared distance in the partition space is worth in the metric's unit.
func (s *Searcher) estimateUnit() float64 {
	switch {
	case s.v.Metric == vector.Cosine:
		return 0.5 // of unit vectors
	case s.v.Lift:
		return 0.5 / float64(s.lifted)
	}
	return 1
}
