package query

import (
	"math"
	"slices"

	"github.com/anndb/anndb/trees/forest"
)

// gather routes the query and elects the candidates. After widening, it uses all trees, more
// leaves (2, 8, 32... per tree) and the lowest threshold.
func (s *Searcher) gather(widened int) []uint32 {
	p, f := s.p, s.seg.Forest
	trees, extra := p.trees(f.Trees), p.Extra
	natural := !p.members()
	if widened > 0 {
		trees = f.Trees
		extra = max(extra, trees<<min(2*widened-1, 20))
	}
	s.find(trees, extra)
	s.e.reset(s.seg.N, trees)
	for _, l := range s.route {
		s.e.add(l.Tree, leafOf(f, natural, l))
	}
	s.e.widened = widened > 0
	switch {
	case widened > 0:
	case p.Method == Natural && p.Tau > 0:
		s.e.weigh(p.Tau)
	case p.Method == Voting:
		s.e.threshold = uint32(min(max(1, p.Votes), 1<<17))
	}
	s.stats.Leaves += len(s.route)
	s.stats.Labels += s.e.elect()
	s.stats.Candidates = len(s.e.cands)
	return s.e.cands
}

// find sets route to the query's leaves: one per tree, then extra more.
func (s *Searcher) find(trees, extra int) {
	f := s.seg.Forest
	if extra > 0 {
		s.rotateAll() // many nodes need most coordinates
		s.route = append(s.route[:0], f.RouteMulti(s.z, trees, extra, &s.multi)...)
		return
	}
	s.leaves = grow(s.leaves, trees)
	if s.straight != nil {
		f.RouteRotated(s.v.Rotation, s.straight, s.z, s.leaves)
	} else {
		f.Route(s.z, s.leaves)
	}
	s.route = s.route[:0]
	for t, leaf := range s.leaves {
		s.route = append(s.route, forest.TreeLeaf{Tree: uint32(t), Leaf: leaf})
	}
}

func leafOf(f *forest.Forest, natural bool, l forest.TreeLeaf) forest.LeafBlock {
	if natural {
		return f.Leaf(int(l.Tree), int(l.Leaf))
	}
	return f.MemberLeaf(int(l.Tree), int(l.Leaf))
}

// electorate adds up the votes of leaves for rows and elects those whose sum reaches the threshold. Between
// queries all its counters are zero.
type electorate struct {
	counters  []uint32
	blocks    []forest.LeafBlock
	tree      []uint32 // tree of each block
	points    []uint64 // training points in the visited leaves of each tree
	scale     []uint64 // weight of a vote in each tree, times 1<<scaleShift
	cands     []uint32
	threshold uint32
	widened   bool
}

const (
	scaleShift = 16
	// mostUnit is the largest sum if all proportions are 1.
	mostUnit = 1 << 30
	// tauSlack is the amount by which an estimate must exceed τ. Estimates that differ from τ
	// only by the rounding of τ, or of the sum, are not elected.
	tauSlack = 1e-12
)

// reset makes room for n row numbers and prepares an election in which one vote suffices.
func (e *electorate) reset(n, trees int) {
	// Whole blocks of 65,536 counters, so that the window of a segment of a leaf is one slice.
	if size := (n + 1<<16 - 1) &^ (1<<16 - 1); len(e.counters) < size {
		e.counters = make([]uint32, size)
	}
	e.blocks, e.tree, e.cands = e.blocks[:0], e.tree[:0], e.cands[:0]
	e.points, e.scale, e.threshold = grow(e.points, trees), grow(e.scale, trees), 1
	clear(e.points)
	for t := range e.scale {
		e.scale[t] = 1 << scaleShift
	}
}

// add adds a leaf of a tree.
func (e *electorate) add(tree uint32, b forest.LeafBlock) {
	e.blocks, e.tree = append(e.blocks, b), append(e.tree, tree)
}

// weigh prepares the election of equation 8 over the added leaves: of labels whose mean proportion exceeds
// tau. The leaves of a tree count as one element of its partition (footnote 3).
//
// Sums are exact where the numbers of points have a small common multiple, as equal and nearly equal ones
// do. Otherwise an estimate is too small by less than 2⁻²⁹ for each entry that the label has in the
// leaves.
func (e *electorate) weigh(tau float64) {
	for i, t := range e.tree {
		e.points[t] += uint64(e.blocks[i].Points())
	}
	trees := uint64(len(e.points))
	unit := commonMultiple(e.points, mostUnit/trees)
	for t, n := range e.points {
		if n > 0 { // otherwise the tree has no votes
			// Exact where n divides unit. Integer division takes ten times as long.
			e.scale[t] = uint64(float64(unit<<scaleShift) / float64(n))
		}
	}
	e.threshold = naturalThreshold(tau, trees*unit)
}

// naturalThreshold returns the smallest sum of votes which, as a share of the sum of the votes of all points
// of all trees, exceeds tau.
func naturalThreshold(tau float64, all uint64) uint32 {
	return uint32(math.Floor((tau+tauSlack)*float64(all))) + 1
}

// commonMultiple returns the least common multiple of the nonzero sizes, or most if that is less.
func commonMultiple(sizes []uint64, most uint64) uint64 {
	multiple := uint64(1)
	for _, n := range sizes {
		if n == 0 || multiple%n == 0 {
			continue
		}
		a, b := multiple, n
		for b != 0 {
			a, b = b, a%b
		}
		if n > most || multiple*(n/a) > most {
			return most
		}
		multiple *= n / a
	}
	return multiple
}

// elect sums the votes of all blocks and collects the labels that reach the threshold, in the order in which
// they cross it. It returns the number of entries. To avoid a branch, every label is written after the list,
// and the list grows by the bit of the comparison.
func (e *electorate) elect() int {
	total := 0
	for i := range e.blocks {
		b := e.blocks[i]
		for _, low, _, ok := b.Next(); ok; _, low, _, ok = b.Next() {
			total += len(low)
		}
	}
	if cap(e.cands) < total+1 {
		e.cands = make([]uint32, total+1+total/2)
	}
	out, n := e.cands[:total+1], 0
	for i := range e.blocks {
		b, c := e.blocks[i], crossing{threshold: e.threshold, scale: e.scale[e.tree[i]]}
		for hi, low, weights, ok := b.Next(); ok; hi, low, weights, ok = b.Next() {
			c.base = hi << 16
			if weights == nil {
				n += c.members(e.counters[c.base:], low, out[n:])
			} else {
				n += c.votes(e.counters[c.base:], low, weights, out[n:])
			}
		}
	}
	e.cands = out[:n]
	// Clearing what the blocks touched costs less than clearing all counters.
	for i := range e.blocks {
		b := e.blocks[i]
		for hi, low, _, ok := b.Next(); ok; hi, low, _, ok = b.Next() {
			window := (*[1 << 16]uint32)(e.counters[hi<<16:])
			for _, l := range low {
				window[l] = 0
			}
		}
	}
	return total
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
func (c *crossing) members(window []uint32, low []uint16, out []uint32) (n int) {
	base, threshold := c.base, c.threshold
	out, window = out[:len(low)], window[:1<<16]
	for _, l := range low {
		old := window[l]
		window[l] = old + 1
		out[n] = base | uint32(l)
		n += int(((old - threshold) ^ (old + 1 - threshold)) >> 31)
	}
	return n
}

//go:noinline
func (c *crossing) votes(window []uint32, low []uint16, weights []uint8, out []uint32) (n int) {
	base, threshold, scale := c.base, c.threshold, c.scale
	out, weights, window = out[:len(low)], weights[:len(low)], window[:1<<16]
	for i, l := range low {
		old := window[l]
		now := old + uint32(uint64(weights[i])*scale>>scaleShift)
		window[l] = now
		out[n] = base | uint32(l)
		n += int(((old - threshold) ^ (now - threshold)) >> 31)
	}
	return n
}

// votesIn returns the votes of block i for a row, and their weight in the election.
func (e *electorate) votesIn(i int, row uint32) (votes, weight uint32) {
	b := e.blocks[i]
	for hi, low, weights, ok := b.Next(); ok; hi, low, weights, ok = b.Next() {
		if hi != row>>16 {
			continue
		}
		at, found := slices.BinarySearch(low, uint16(row))
		if found && weights == nil {
			return 1, 1
		}
		for ; found && at < len(low) && low[at] == uint16(row); at++ {
			votes += uint32(weights[at])
			weight += uint32(uint64(weights[at]) * e.scale[e.tree[i]] >> scaleShift)
		}
	}
	return votes, weight
}
