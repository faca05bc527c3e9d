package postings

// candidate is a row with its estimates in the units of a search: its score
// is sure, or more, but less than most + over of the search.
type candidate struct {
	at         uint32 // its row or position
	sure, most uint16
	count      uint16 // common features, if they were counted
}

const (
	bucketBits  = 5
	maxEstimate = 1<<16 - 1
	bucketCount = (maxEstimate + 1) >> bucketBits
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
	// edge is the lowest bucket that counts for the threshold, above how many
	// candidates lie in it or higher.
	edge, above int
	count       [bucketCount]uint32
	found       []candidate
}

// reset starts a search; floor is a score, in units, known to be reached by k
// rows elsewhere.
func (p *picker) reset(k, over, floor int) {
	p.k, p.over = k, over
	p.least = floor - over
	p.edge, p.above = 0, 0
	clear(p.count[:])
	p.found = p.found[:0]
}

// add takes a row whose upper estimate is at least p.least.
func (p *picker) add(c candidate, sure, most int) {
	sure = max(sure, 0)
	c.sure, c.most = uint16(sure), uint16(most)
	p.found = append(p.found, c)
	b := sure >> bucketBits
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
	p.least = max(p.least, p.edge<<bucketBits-p.over)
}

// sampleRows is the most cells that lowest looks at.
const sampleRows = 8 * scanRows

// lowest is an estimate that k or more of some cells reach, and not many more:
// a start for a picker. The cells are a multiple of columnRows; of more than
// sampleRows it sees a sample, spread evenly, and the estimate is the lower.
func lowest(cells []uint16, k int) int {
	blocks := 1
	if len(cells) > sampleRows {
		blocks = sampleRows / scanRows
	}
	block := min(len(cells), sampleRows) / blocks
	apart := len(cells) / blocks / columnRows * columnRows
	reach := func(least int) (n int) {
		for b := range blocks {
			n += countAtLeast16(cells[b*apart:b*apart+block], uint16(least))
		}
		return n
	}
	// k cells reach least, and fewer than k reach more.
	least, more := 0, maxEstimate+1
	for more-least > 1 {
		mid := (least + more) / 2
		n := reach(mid)
		if n < k {
			more = mid
			continue
		}
		least = mid
		if n <= k+k/16 {
			break
		}
	}
	return least
}

// threshold is least as a cell of the accumulator, which is never below one:
// rows without a common feature are no candidates.
func (p *picker) threshold() uint16 { return uint16(min(max(p.least, 1), maxEstimate)) }
