package postings

// candidate is a row, or position, with its estimate in the units of a search.
type candidate struct {
	at       uint32
	estimate uint32
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
	// width is the most by which the estimate of a row and that of another
	// can be off in opposite directions.
	width int
	// least is the estimate below which no row can be needed. It may be
	// negative.
	least int
	// edge is the lowest bucket that counts for the threshold, above how many
	// candidates lie in it or higher.
	edge, above int
	count       [bucketCount]uint32
	found       []candidate
}

// reset starts a search; floor is a threshold known before.
func (p *picker) reset(k, width, floor int) {
	p.k, p.width, p.least = k, width, floor
	p.edge, p.above = 0, 0
	clear(p.count[:])
	p.found = p.found[:0]
}

// add takes a row whose sure estimate is estimate and whose bound is bound, at
// least p.least.
func (p *picker) add(at uint32, estimate, bound int) {
	p.found = append(p.found, candidate{at, uint32(bound)})
	b := estimate >> bucketBits
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
	p.least = max(p.least, p.edge<<bucketBits-p.width)
}

// threshold is least as a cell of the accumulator, which is never below one:
// rows without a common feature are no candidates.
func (p *picker) threshold() uint16 { return uint16(min(max(p.least, 1), maxEstimate)) }
