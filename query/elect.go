package query

import (
	"math"

	"github.com/anndb/anndb/trees/forest"
)

// electorate accumulates votes and elects candidates. Between queries all its
// counters are zero.
type electorate struct {
	// votes are the counters of an election: of votes, or of votes in units of a common
	// multiple of the leaf sizes. wide are the counters where no small multiple exists.
	votes  []uint16
	wide   []uint32
	blocks []forest.LeafBlock
	tree   []uint32 // tree of each block
	points []uint64 // training points in the visited leaves of each tree
	scale  []uint64 // weight of a vote in each tree, times 1<<scaleShift
	cands  []uint32
	ballot ballot
}

// ballot defines how an election is decided: a label is elected if its sum reaches the
// threshold.
type ballot struct {
	how       counting
	threshold uint32
	widened   bool
}

type counting uint8

const (
	// byUnion elects all labels.
	byUnion counting = iota
	// byVotes sums votes.
	byVotes
	// byScaled sums votes times the scale of their tree, in 16 bits.
	byScaled
	// byWide is byScaled in 32 bits.
	byWide
)

const (
	scaleShift = 16
	// wideUnit is the sum in byWide if all proportions are 1.
	wideUnit = 1 << 30
	// tauSlack is the amount by which an estimate must exceed τ. Estimates that differ from τ
	// only by the rounding of τ, or of the sum, are not elected.
	tauSlack = 1e-12
)

// reset makes room for n row numbers.
func (e *electorate) reset(n int) {
	if size := windows(n); len(e.votes) < size {
		e.votes = make([]uint16, size)
	}
	e.blocks, e.tree, e.cands = e.blocks[:0], e.tree[:0], e.cands[:0]
}

// windows rounds n up to blocks of 65,536 counters, so that a segment's window
// is one slice.
func windows(n int) int { return (n + 1<<16 - 1) &^ (1<<16 - 1) }

// add adds a leaf of a tree.
func (e *electorate) add(tree uint32, b forest.LeafBlock) {
	e.blocks, e.tree = append(e.blocks, b), append(e.tree, tree)
}

// weigh prepares the ballot of equation 8 over the added leaves, for the first trees of a
// forest: it elects labels whose mean proportion exceeds tau. The leaves of a tree count as one
// element of its partition (footnote 3).
//
// Sums are exact where the leaf sizes have a common multiple that fits into 16 bits, as equal
// and nearly equal sizes do. Otherwise an estimate is too small by less than 2⁻²⁹ for each
// entry that the label has in the leaves.
func (e *electorate) weigh(trees int, tau float64) {
	e.points, e.scale = grow(e.points, trees), grow(e.scale, trees)
	clear(e.points)
	for i, t := range e.tree {
		e.points[t] += uint64(e.blocks[i].Points())
	}
	unit, how := commonMultiple(e.points, math.MaxUint16/uint64(trees)), byVotes
	if unit == 0 {
		unit, how = wideUnit/uint64(trees), byWide
	}
	for t, n := range e.points {
		if n == 0 {
			continue // the tree has no votes
		}
		// Exact where n divides unit. Integer division takes ten times as long.
		e.scale[t] = uint64(float64(unit<<scaleShift) / float64(n))
		if how == byVotes && n != unit {
			how = byScaled
		}
	}
	e.ballot = ballot{how: how, threshold: naturalThreshold(tau, trees, unit)}
}

// naturalThreshold returns the smallest sum of votes for which the mean over the trees exceeds
// tau, where unit is the sum of the votes of all points of a tree.
func naturalThreshold(tau float64, trees int, unit uint64) uint32 {
	return uint32(math.Floor((tau+tauSlack)*float64(uint64(trees)*unit))) + 1
}

// commonMultiple returns the least common multiple of the nonzero sizes, or zero if it exceeds
// most.
func commonMultiple(sizes []uint64, most uint64) uint64 {
	multiple := uint64(1)
	var last, other uint64 // in most forests leaves have two sizes
	for _, n := range sizes {
		if n == last || n == other || n == 0 {
			continue
		}
		last, other = n, last
		if multiple%n == 0 {
			continue
		}
		if n > most {
			return 0
		}
		a, b := multiple, n
		for b != 0 {
			a, b = b, a%b
		}
		if multiple *= n / a; multiple > most {
			return 0
		}
	}
	return multiple
}

// elect sums the votes of all blocks and collects the labels that reach the ballot's threshold,
// in the order in which they cross it. It returns the number of entries. To avoid a branch,
// every label is written after the list, and the list grows by the bit of the comparison.
func (e *electorate) elect() int {
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
	var n int
	switch {
	case e.ballot.threshold <= 1:
		e.ballot.how = byUnion
		n = e.unite(out)
		clearCounters(e.blocks, e.votes)
	case e.ballot.how == byScaled:
		n = countScaled(e, e.votes, out)
		clearCounters(e.blocks, e.votes)
	case e.ballot.how == byWide:
		if len(e.wide) < len(e.votes) {
			e.wide = make([]uint32, len(e.votes))
		}
		n = countScaled(e, e.wide, out)
		clearCounters(e.blocks, e.wide)
	default:
		n = e.countPlain(out)
		clearCounters(e.blocks, e.votes)
	}
	e.cands = out[:n]
	return total
}

// unite collects the labels of all blocks.
func (e *electorate) unite(out []uint32) (n int) {
	for i := range e.blocks {
		b := e.blocks[i]
		for {
			hi, low, _, ok := b.Next()
			if !ok {
				break
			}
			n += uniteSegment(e.votes[hi<<16:], hi<<16, low, out[n:])
		}
	}
	return n
}

// countPlain collects the labels whose number of votes reaches the threshold.
func (e *electorate) countPlain(out []uint32) (n int) {
	for i := range e.blocks {
		b := e.blocks[i]
		for {
			hi, low, weights, ok := b.Next()
			if !ok {
				break
			}
			window := e.votes[hi<<16:]
			c := crossing{base: hi << 16, threshold: e.ballot.threshold}
			if weights == nil {
				n += c.members(window, low, out[n:])
			} else {
				n += c.votes(window, low, weights, out[n:])
			}
		}
	}
	return n
}

// countScaled collects the labels whose votes, each times the scale of its tree, sum to at
// least the threshold.
func countScaled[C uint16 | uint32](e *electorate, counters []C, out []uint32) (n int) {
	for i := range e.blocks {
		b := e.blocks[i]
		c := crossing{threshold: e.ballot.threshold, scale: e.scale[e.tree[i]]}
		for {
			hi, low, weights, ok := b.Next()
			if !ok {
				break
			}
			c.base = hi << 16
			n += scaledVotes(&c, counters[hi<<16:], low, weights, out[n:])
		}
	}
	return n
}

// The loops below run once per entry of a leaf. Each is a separate function, so that all its
// variables stay in registers. They write the labels of a segment to out, which has room for
// all of them, and return the number collected.

// crossing collects the labels base + low[i] of a segment that cross a threshold.
type crossing struct {
	base, threshold uint32
	scale           uint64
}

//go:noinline
func uniteSegment(window []uint16, base uint32, low []uint16, out []uint32) (n int) {
	out, window = out[:len(low)], window[:1<<16]
	for _, l := range low {
		seen := window[l]
		window[l] = 1
		out[n] = base | uint32(l)
		n += int(1 - seen)
	}
	return n
}

//go:noinline
func (c *crossing) members(window []uint16, low []uint16, out []uint32) (n int) {
	base, threshold := c.base, c.threshold
	out, window = out[:len(low)], window[:1<<16]
	for _, l := range low {
		old := uint32(window[l])
		window[l] = uint16(old + 1)
		out[n] = base | uint32(l)
		n += int(((old - threshold) ^ (old + 1 - threshold)) >> 31)
	}
	return n
}

//go:noinline
func (c *crossing) votes(window []uint16, low []uint16, weights []uint8, out []uint32) (n int) {
	base, threshold := c.base, c.threshold
	out, weights, window = out[:len(low)], weights[:len(low)], window[:1<<16]
	for i, l := range low {
		old := uint32(window[l])
		now := old + uint32(weights[i])
		window[l] = uint16(now)
		out[n] = base | uint32(l)
		n += int(((old - threshold) ^ (now - threshold)) >> 31)
	}
	return n
}

//go:noinline
func scaledVotes[C uint16 | uint32](c *crossing, window []C, low []uint16, weights []uint8,
	out []uint32) (n int) {
	base, threshold, scale := c.base, c.threshold, c.scale
	out, weights, window = out[:len(low)], weights[:len(low)], window[:1<<16]
	for i, l := range low {
		old := uint32(window[l])
		now := old + uint32(uint64(weights[i])*scale>>scaleShift)
		window[l] = C(now)
		out[n] = base | uint32(l)
		n += int(((old - threshold) ^ (now - threshold)) >> 31)
	}
	return n
}

// weighted returns the weight of a number of votes for a label in one block.
func (e *electorate) weighted(tree uint32, votes uint32) uint32 {
	if e.ballot.how != byScaled && e.ballot.how != byWide {
		return votes
	}
	const most = 255 // maximum votes of an entry
	scale := e.scale[tree]
	sum := uint64(votes/most) * (most * scale >> scaleShift)
	return uint32(sum + uint64(votes%most)*scale>>scaleShift)
}

// clearCounters zeroes every counter that the blocks touched; its cost is that of the touched
// counters instead of the whole array.
func clearCounters[C uint16 | uint32](blocks []forest.LeafBlock, counters []C) {
	for i := range blocks {
		b := blocks[i]
		for {
			hi, low, _, ok := b.Next()
			if !ok {
				break
			}
			window := (*[1 << 16]C)(counters[hi<<16:])
			for _, l := range low {
				window[l] = 0
			}
		}
	}
}
