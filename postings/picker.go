package postings

import "math/bits"

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

// near looks for an estimate that k rows reach, and not many more. reach counts
// those that reach one; guess, if not zero, is where it may lie. Zero, if fewer
// than k reach any.
func near(k int, guess float64, reach func(estimate float64) int) float64 {
	// k rows reach least, and fewer than k reach more.
	least, more := 0.0, float64(maxEstimate+1)
	const step = 1.15 // from a guess to the next
	for more-least > 1+least/128 {
		mid := (least + more) / 2
		switch {
		case !(guess > 0 && guess < maxEstimate):
		case least == 0 && more > maxEstimate:
			mid = guess
		case least == 0:
			mid = more / step
		case more > maxEstimate:
			mid = min(least*step, mid)
		}
		n := reach(mid)
		if n < k {
			more = mid
			continue
		}
		if least = mid; n <= k+k/8 {
			break
		}
	}
	return least
}

// lowest is an estimate that k or more of some cells reach, and not many more:
// a start for a picker. The cells are a multiple of columnRows; of more than
// sampleRows it sees a sample, spread evenly, and the estimate is the lower.
func lowest(cells []uint16, k int, guess float64) int {
	blocks := 1
	if len(cells) > sampleRows {
		blocks = sampleRows / scanRows
	}
	block := min(len(cells), sampleRows) / blocks
	apart := len(cells) / blocks / columnRows * columnRows
	return int(near(k, guess, func(estimate float64) (n int) {
		for b := range blocks {
			n += countAtLeast16(cells[b*apart:b*apart+block], uint16(estimate))
		}
		return n
	}))
}

// threshold is least as a cell of the accumulator, which is never below one:
// rows without a common feature are no candidates.
func (p *picker) threshold() uint16 { return uint16(min(max(p.least, 1), maxEstimate)) }
