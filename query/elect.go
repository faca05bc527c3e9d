package query

import (
	"math"

	"github.com/anndb/anndb/trees/forest"
)

// electorate accumulates votes and elects candidates. Between queries all its
// counters are zero.
type electorate struct {
	// votes are the counters of an election: of votes, or of votes in a common
	// multiple of the sizes of the leaves. wide are those of an election where
	// no small multiple exists.
	votes  []uint16
	wide   []uint32
	blocks []forest.LeafBlock
	tree   []uint32 // of each block
	points []uint64 // training points in the visited leaves of each tree
	scale  []uint64 // what a vote in each tree counts, times 1<<scaleShift
	cands  []uint32
	ballot ballot
}

// ballot says how an election is decided: a label is elected if what it sums up
// to reaches the threshold.
type ballot struct {
	how       counting
	threshold uint32
	widened   bool
}

type counting uint8

const (
	// byUnion elects all labels.
	byUnion counting = iota
	// byVotes adds up votes.
	byVotes
	// byScaled adds up votes times the scale of their tree, in 16 bits.
	byScaled
	// byWide is byScaled in 32 bits.
	byWide
)

const (
	scaleShift = 16
	// wideUnit is what all proportions 1 sum up to in byWide. A label in a
	// leaf and in what that has gained cannot reach 1<<31, even in a forged file.
	wideUnit = 1 << 30
	// tauSlack is by how much an estimate must exceed τ. It keeps estimates that
	// are equal to τ but for the rounding of τ, or of the sum, from being elected.
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

// add adds a leaf of a tree, or what it has gained.
func (e *electorate) add(tree uint32, b forest.LeafBlock) {
	e.blocks, e.tree = append(e.blocks, b), append(e.tree, tree)
}

// weigh makes the ballot of equation 8 over the leaves added, for the first trees
// of a forest: labels whose mean proportion exceeds tau are elected. The leaves
// of a tree count as one element of its partition (footnote 3). most is how large
// a counter of 16 bits may get.
//
// Sums are exact where the sizes of the leaves have a common multiple that 16 bits
// have room for, as equal and nearly equal sizes have. Otherwise an estimate falls
// short by less than 2⁻²⁹ an entry that the label has in the leaves.
func (e *electorate) weigh(trees int, tau float64, most uint64) {
	e.points, e.scale = grow(e.points, trees), grow(e.scale, trees)
	clear(e.points)
	for i, t := range e.tree {
		e.points[t] += uint64(e.blocks[i].Points())
	}
	unit, how := commonMultiple(e.points, most/uint64(trees)), byVotes
	if unit == 0 {
		unit, how = wideUnit/uint64(trees), byWide
	}
	for t, n := range e.points {
		if n == 0 {
			continue // nothing in the tree votes
		}
		// Exact where n divides unit. A division of integers takes ten times as long.
		e.scale[t] = uint64(float64(unit<<scaleShift) / float64(n))
		if how == byVotes && n != unit {
			how = byScaled
		}
	}
	e.ballot = ballot{how: how, threshold: naturalThreshold(tau, trees, unit)}
}

// naturalThreshold is the least sum of votes with which the mean over the trees
// exceeds tau, where the votes of all points of a tree are unit.
func naturalThreshold(tau float64, trees int, unit uint64) uint32 {
	return uint32(math.Floor((tau+tauSlack)*float64(uint64(trees)*unit))) + 1
}

// commonMultiple is the least common multiple of the sizes that are not zero, or
// zero if it is above most.
func commonMultiple(sizes []uint64, most uint64) uint64 {
	multiple := uint64(1)
	var last, other uint64 // of most forests, leaves have two sizes
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

// elect adds up the votes of all blocks and collects the labels that reach the
// ballot's threshold, in the order of crossing it. It returns how many entries
// there were. Every label is written behind the list and the list grows by the
// crossing bit, without a branch.
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

// countPlain collects the labels that have so many votes.
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

// countScaled collects the labels whose votes, each times the scale of its tree,
// sum up to the threshold.
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

// The loops below run once an entry of a leaf. Each is a function of its own, so
// that all it needs stays in registers. They write the labels of a segment to out,
// which has room for all of them, and return how many are collected.

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
func scaledVotes[C uint16 | uint32](c *crossing, window []C, low []uint16, weights []uint8, out []uint32) (n int) {
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

// weighted is what so many votes for a label in one block count.
func (e *electorate) weighted(tree uint32, votes uint32) uint32 {
	if e.ballot.how != byScaled && e.ballot.how != byWide {
		return votes
	}
	const most = 255 // votes of an entry
	scale := e.scale[tree]
	sum := uint64(votes/most) * (most * scale >> scaleShift)
	return uint32(sum + uint64(votes%most)*scale>>scaleShift)
}

// clearCounters sets every counter that the blocks touched back to zero, which
// costs what was touched instead of the whole array.
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
