package postings

import (
	"math"
	"math/bits"
)

// candidate is a row with its estimates in the units of a search: its score
// is sure, or more, but less than most + over of the search.
type candidate struct {
	at         uint32 // its row or position
	sure, most uint16
}

const (
	maxEstimate = 1<<16 - 1
	// bucketCount keeps the histograms of a batch in the second cache.
	bucketCount = 1024
)

// picker collects the rows that may be among the k best by 16-bit estimates,
// keeping the threshold by a histogram: no order among the candidates is
// needed before they are scored.
type picker struct {
	k int
	// over is what a score may exceed the upper estimate of its row by.
	over int
	// under is what it may lie below the estimate by; only some searches use it.
	under int
	// least is the estimate below which no row can be needed. It may be
	// negative.
	least int
	// The histogram goes from base to maxEstimate in buckets 1<<shift wide. edge
	// is the lowest bucket that counts for the threshold, above how many
	// candidates lie in it or higher.
	base, edge, above int
	shift             uint
	count             [bucketCount]uint32
	found             []candidate
}

// reset starts a search; floor is a score, in units, known to be reached by k
// rows, be they candidates or not.
func (p *picker) reset(k, over, floor int) {
	p.k, p.over = k, over
	p.least = floor - over
	p.base, p.edge, p.above = max(floor, 0), 0, 0
	p.shift = uint(bits.Len(uint(max(maxEstimate-p.base, 0) / bucketCount)))
	clear(p.count[:])
	p.found = p.found[:0]
}

// add takes a row whose upper estimate is at least p.least.
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

// reached is a score, in units, that the candidates in the buckets that count
// reach.
func (p *picker) reached() int { return p.base + p.edge<<p.shift }

// sampleRows is the most cells that lowest looks at.
const sampleRows = 8 * scanRows

// near looks for an estimate that k rows reach, and no more than spare others
// where it can. reach counts those that reach one; guess, if not zero, is where it
// may lie. Zero, if fewer than k reach any.
//
// The logarithm of the count falls nearly in proportion to that of the estimate,
// so each step goes where the line through the last two leads, and halves what
// is left to look through if that is nowhere in it. Each step, which costs as much
// as some rows, makes it content with more others, in the end twice as many.
func near(k, spare int, guess float64, reach func(estimate float64) int) float64 {
	const (
		slope = -5 // of a line through one point
		most  = 1.4
		limit = 8 // steps before only halving is left
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

// logLike is the logarithm to base 2 with straight lines between powers of two:
// the bits of a number above zero. powerLike is its inverse.
func logLike(x float64) float64 { return float64(math.Float64bits(x)) * (1.0 / (1 << 52)) }

func powerLike(y float64) float64 { return math.Float64frombits(uint64(max(y, 0) * (1 << 52))) }

// lowest is an estimate that k or more of some cells reach, and not many more:
// a start for a picker. The cells are a multiple of columnRows; of more than
// sampleRows it sees a sample, spread evenly, and the estimate is the lower.
func lowest(cells []uint16, k, spare int, guess float64) int {
	blocks := 1
	if len(cells) > sampleRows {
		blocks = sampleRows / scanRows
	}
	block := min(len(cells), sampleRows) / blocks
	apart := len(cells) / blocks / columnRows * columnRows
	return int(near(k, spare, guess, func(estimate float64) (n int) {
		for b := range blocks {
			n += countAtLeast16(cells[b*apart:b*apart+block], uint16(estimate))
		}
		return n
	}))
}

// threshold is least as a cell of the accumulator, which is never below one:
// rows without a common feature are no candidates.
func (p *picker) threshold() uint16 { return uint16(min(max(p.least, 1), maxEstimate)) }
