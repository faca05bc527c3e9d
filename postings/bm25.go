package postings

import (
	"fmt"
	"math"

	"github.com/anndb/anndb/vector"
)

// BM25 are the parameters of Okapi BM25 (Robertson, Zaragoza 2009, section 3): the score of a row is the
// sum over the terms of the query of the term's weight times
//
//	n·(K1+1) / (n + K1·(1 − B + B·length/Mean)),
//
// n being how often the row has the term, length the number of terms of the row, with repetitions, and Mean
// the mean of that.
type BM25 struct{ K1, B, Mean float64 }

// base returns the part of the denominator that depends on the length of a row only.
func (p *BM25) base(length float64) float64 { return p.K1 * (1 - p.B + p.B*length/p.Mean) }

// saturated returns what a term that a row has n times adds to its score, per unit of the term's weight.
func (p *BM25) saturated(n float32, base float64) float64 {
	return float64(n) * (p.K1 + 1) / (float64(n) + base)
}

// share returns what a term of a weight adds to the score of a row that has it n times: a multiple of
// 2⁻³⁷. So sums up to 2¹⁶ are exact: scores do not depend on the numbers of terms, which differ
// among collections with the same rows. It is rounded down, so that upper bounds stay valid.
func (p *BM25) share(weight, n float32, base float64) float64 {
	const unit = 1 << 37
	return math.Floor(float64(weight)*p.saturated(n, base)*unit) / unit
}

// Value is saturated for a row of a length.
func (p *BM25) Value(n float32, length float64) float64 { return p.saturated(n, p.base(length)) }

// IDF returns the weight of a term that have of rows rows have: ln(1 + (rows − have + ½)/(have + ½)),
// which is positive for all terms.
func IDF(rows, have int) float32 {
	return float32(math.Log1p((float64(rows-have) + 0.5) / (float64(have) + 0.5)))
}

func (p *BM25) validate() error {
	if !(p.K1 >= 0 && p.B >= 0 && p.B <= 1 && p.Mean > 0) || math.IsInf(p.K1, 0) || math.IsInf(p.Mean, 0) {
		return fmt.Errorf("%w: BM25 with k1 %g, b %g and a mean length of %g", ErrInvalid, p.K1, p.B, p.Mean)
	}
	return nil
}

// growth returns how much higher values can be than the codes of the index say, which were made with an
// earlier mean: with a higher one, long rows count more, by the ratio of the two at most.
func (p *BM25) growth(mean float64) float64 { return max(1, mean/p.Mean) }

// Score returns the score of a row of counts for a query of weights of terms: the bits of a search.
func (p *BM25) Score(q, row vector.Sparse, length float64) (sum float64) {
	base := p.base(length)
	for i, f := range q.Index {
		if n := row.At(f); n > 0 {
			sum += p.share(q.Value[i], n, base)
		}
	}
	return sum
}
