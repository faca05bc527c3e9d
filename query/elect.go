package query

import (
	"math"

	"github.com/anndb/anndb/trees/forest"
)

// maxNaturalLeaves keeps a counter of 16 bits from overflowing: a label's
// weight in a leaf is at most 255. Member lists need no such limit: a row lies
// in one leaf a tree, and a forest has far fewer than 65,536 trees.
const maxNaturalLeaves = 65535 / 255

// electorate accumulates votes and elects candidates. Between queries all its
// counters are zero.
type electorate struct {
	votes  []uint16
	blocks []forest.LeafBlock
	cands  []uint32
	// threshold and widened are those of the last election.
	threshold uint32
	widened   bool
}

// reset makes room for n row numbers.
func (e *electorate) reset(n int) {
	// Blocks of 65,536 counters, so that a segment's window is one slice.
	n = (n + 1<<16 - 1) &^ (1<<16 - 1)
	if len(e.votes) < n {
		e.votes = make([]uint16, n)
	}
	e.blocks, e.cands = e.blocks[:0], e.cands[:0]
}

// naturalThreshold is the least number of votes with which the mean label
// proportion over the leaves (equation 5) exceeds tau (equation 8).
func naturalThreshold(tau float64, leaves int, unit float32) uint32 {
	return uint32(min(math.Floor(tau*float64(leaves)*float64(unit))+1, 1<<17))
}

// elect adds up the votes of all blocks and collects the labels that reach
// the threshold, in the order of crossing it, and says how many votes there
// were. Every label is written behind the list and the list grows by the
// crossing bit, without a branch.
func (e *electorate) elect(threshold uint32) int {
	total := 0
	for i := range e.blocks {
		b := e.blocks[i]
		for {
			_, low, _, ok := b.Next()
			if !ok {
				break
			}
			total += len(low)
		}
	}
	if cap(e.cands) < total+1 {
		e.cands = make([]uint32, total+1+total/2)
	}
	out := e.cands[:total+1]
	n := 0
	for i := range e.blocks {
		b := e.blocks[i]
		for {
			hi, low, weights, ok := b.Next()
			if !ok {
				break
			}
			window := (*[1 << 16]uint16)(e.votes[hi<<16:])
			base := hi << 16
			if weights == nil {
				for _, l := range low {
					old := uint32(window[l])
					window[l] = uint16(old + 1)
					out[n] = base | uint32(l)
					n += int(((old - threshold) >> 31) &^ ((old + 1 - threshold) >> 31))
				}
				continue
			}
			weights = weights[:len(low)]
			for j, l := range low {
				old := uint32(window[l])
				now := old + uint32(weights[j])
				window[l] = uint16(now)
				out[n] = base | uint32(l)
				n += int(((old - threshold) >> 31) &^ ((now - threshold) >> 31))
			}
		}
	}
	e.cands = out[:n]
	e.threshold = threshold
	return total
}

// clear sets every counter that the blocks touched back to zero, which costs
// what was touched instead of the whole array.
func (e *electorate) clear() {
	for i := range e.blocks {
		b := e.blocks[i]
		for {
			hi, low, _, ok := b.Next()
			if !ok {
				break
			}
			window := (*[1 << 16]uint16)(e.votes[hi<<16:])
			for _, l := range low {
				window[l] = 0
			}
		}
	}
}
