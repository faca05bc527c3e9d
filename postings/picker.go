package postings

import (
	"math"
	"math/bits"
)

// candidate is a row with its estimates in the units of a search: its score is at least sure,
// and less than most + over of the search.
type candidate struct {
	at         uint32 // its row or position
	sure, most uint16
}

const (
	maxEstimate = 1<<16 - 1
	// bucketCount keeps the histograms of a batch in the second-level cache.
	bucketCount = 1024
)

// picker collects the rows that may be among the k best by 16-bit estimates. It keeps the
// threshold by a histogram: candidates need no order before they are scored.
type picker struct {
	k int
	// over is the maximum amount by which a score exceeds the upper estimate of its row.
	over int
	// under is the maximum amount by which a score is below the estimate; only some searches
	// use it.
	under int
	// least is the estimate below which no row is needed. It may be negative.
	least int
	// The histogram covers base to maxEstimate in buckets 1<<shift wide. edge is the lowest
	// bucket that counts for the threshold, above the number of candidates in it and in higher
	// buckets.
	base, edge, above int
	shift             uint
	count             [bucketCount]uint32
	found             []candidate
}

// reset starts a search. floor is a score, in units, that k rows are known to reach, whether or
// not they are candidates.
func (p *picker) reset(k, over, floor int) {
	p.k, p.over = k, over
	p.least = floor - over
	p.base, p.edge, p.above = max(floor, 0), 0, 0
	p.shift = uint(bits.Len(uint(max(maxEstimate-p.base, 0) / bucketCount)))
	clear(p.count[:])
	p.found = p.found[:0]
}

// add records a row whose upper estimate is at least p.least.
func (p *picker) add(c candidate, sure, most int) {
	sure = max(sure, 0)
	c.sure, c.most = uint16(sure), uint16(most)
	p.found = append(p.found, c)
	if sure < p.base {
		return
	}
	b := min((sure-p.base)>>p.shift, bucketCount-1)
	if b < p.edge {
		return
	}
	p.count[b]++
	p.above++
	if p.above < p.k {
		return
	}
	for p.above-int(p.count[p.edge]) >= p.k {
		p.above -= int(p.count[p.edge])
		p.edge++
	}
	p.least = max(p.least, p.reached()-p.over)
}

// reached returns a score, in units, that the candidates in the counted buckets reach.
func (p *picker) reached() int { return p.base + p.edge<<p.shift }

// sampleRows is the maximum number of cells that lowest reads.
const sampleRows = 8 * scanRows

// estimateReached searches for an estimate that k rows reach and, if possible, at most spare
// others. reach counts the rows that reach an estimate; guess, if not zero, is a first guess.
// The result is zero if fewer than k rows reach any estimate.
//
// The logarithm of the count falls almost linearly with that of the estimate, so each step
// tries the point that the line through the last two predicts, or the middle of the interval if
// the prediction is outside it. A step costs as much as scoring some rows, so each step
// increases the number of spare rows that it accepts, at most to twice as many.
func estimateReached(k, spare int, guess float64, reach func(estimate float64) int) float64 {
	const (
		slope = -5 // slope of the line through one point
		most  = 1.4
		limit = 8 // steps before bisection only
	)
	// k rows reach least, and fewer than k reach more.
	least, more := 0.0, float64(maxEstimate+1)
	if !(guess > 0 && guess < maxEstimate) {
		guess = maxEstimate / 2
	}
	aim, enough := logLike(float64(k)+float64(spare)/2), 2*spare
	mid, before, countBefore := guess, 0.0, 0.0
	for step := 0; more-least > 1+least/128; step++ {
		n := reach(mid)
		if n < k {
			more = mid
		} else {
			if least = mid; n <= k+spare {
				break
			}
		}
		spare = min(spare+spare/4, enough)
		at, count := logLike(mid), logLike(max(float64(n), 0.5))
		line := float64(slope)
		if step > 0 && (count-countBefore)*(at-before) < 0 {
			line = min((count-countBefore)/(at-before), -1)
		}
		before, countBefore = at, count
		mid = min(max(powerLike(at+(aim-count)/line), mid/most), mid*most)
		if step >= limit || !(mid > least && mid < more) {
			mid = (least + more) / 2
		}
	}
	return least
}

// logLike is the logarithm to base 2, linearly interpolated between powers of two: the bits of
// a number above zero. powerLike is its inverse.
func logLike(x float64) float64 { return float64(math.Float64bits(x)) * (1.0 / (1 << 52)) }

func powerLike(y float64) float64 { return math.Float64frombits(uint64(max(y, 0) * (1 << 52))) }

// lowest returns an estimate that k or slightly more of some cells reach: a first threshold for
// a picker. The number of cells is a multiple of columnRows. If there are more than sampleRows,
// lowest reads an evenly spread sample, and the estimate is lower.
func lowest(cells []uint16, k, spare int, guess float64) int {
	blocks := 1
	if len(cells) > sampleRows {
		blocks = sampleRows / scanRows
	}
	block := min(len(cells), sampleRows) / blocks
	apart := len(cells) / blocks / columnRows * columnRows
	return int(estimateReached(k, spare, guess, func(estimate float64) (n int) {
		for b := range blocks {
			n += countAtLeast16(cells[b*apart:b*apart+block], uint16(estimate))
		}
		return n
	}))
}

// threshold returns least as a value of the accumulator. It is at least one: rows without a
// common feature are not candidates.
func (p *picker) threshold() uint16 { return uint16(min(max(p.least, 1), maxEstimate)) }
