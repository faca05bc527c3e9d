package postings

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
)

// cursor iterates over a list of the DAAT part. It is at a row of a container; rank is the
// row's index in the list.
type cursor struct {
	weight float32 // weight of the feature in the query
	row    uint32
	list   rowList
	rank   int
	// number is the index of the container among containers; first is the rank of its first
	// row.
	number, containers, first int
	in                        rowContainer
	// at is the place of the row in the container: the index of its number in a list, or of its
	// word in a bitmap. rest holds that word without the bits below the row.
	at   int
	rest uint16
}

// turn is the place of a cursor in the order by rows.
type turn struct {
	row    uint32
	cursor uint32
	bound  float64 // maximum that the list adds to a score (definition 13)
}

// wand is phase (ii) of INSTANCEKNNFAST (Feremans 2020, Algorithm 8). It differs from the paper
// in one point: a row whose bound equals θ is evaluated, since it may win a tie by its row
// number.
func (s *Searcher) wand(ctx context.Context, p *Partition) error {
	s.top.heap()
	s.openCursors(p)
	c := s.turns
	// A float64 sum of n products has at most this relative error.
	const nearly = 1 - 1e-9
	for steps := 0; ; steps++ {
		if steps%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		theta := s.top.theta() * nearly
		pivot, bound := -1, 0.0
		for i := range c {
			bound += c[i].bound
			if bound >= theta {
				pivot = i
				break
			}
		}
		if pivot < 0 {
			return nil
		}
		row := c[pivot].row
		for pivot+1 < len(c) && c[pivot+1].row == row {
			pivot++
		}
		if c[0].row == row {
			var sum float64
			for i := range c[:pivot+1] {
				x := &s.cursors[c[i].cursor]
				sum += float64(x.weight) * float64(x.list.value[x.rank])
			}
			s.stats.Candidates++
			s.mark(pivot+1, 8*(pivot+1))
			if sum >= theta && s.accepted(row) {
				s.top.pushHeap(s.hit(row))
			}
			row++
		}
		c = s.advance(c, pivot, row)
	}
}

// openCursors puts a cursor at the first row of each DAAT list of the query, in
// the order of these rows.
func (s *Searcher) openCursors(p *Partition) {
	s.cursors, s.turns = s.cursors[:0], s.turns[:0]
	for _, t := range s.partition(p) {
		list := p.DAAT.list(t.list)
		if len(list.value) == 0 {
			continue
		}
		c := cursor{weight: t.weight, list: list, containers: list.set.containers()}
		c.open(0, 0)
		s.turns = append(s.turns, turn{
			row: c.row, cursor: uint32(len(s.cursors)),
			bound: up(float64(t.weight) * float64(p.Max[t.list])),
		})
		s.cursors = append(s.cursors, c)
	}
	slices.SortFunc(s.turns, func(a, b turn) int { return cmp.Compare(a.row, b.row) })
}

// advance moves the cursors of the turns up to pivot to row or beyond, drops those at the end
// of their lists, and restores the order from the back.
func (s *Searcher) advance(c []turn, pivot int, row uint32) []turn {
	for i := pivot; i >= 0; i-- {
		moved := c[i]
		if moved.row < row {
			x := &s.cursors[moved.cursor]
			if !x.seek(row) {
				copy(c[i:], c[i+1:])
				c = c[:len(c)-1]
				continue
			}
			moved.row = x.row
		}
		j := i
		for ; j+1 < len(c) && c[j+1].row < moved.row; j++ {
			c[j] = c[j+1]
		}
		c[j] = moved
	}
	return c
}

// open moves to the first row of container i, whose rank is first.
func (c *cursor) open(i, first int) {
	c.number, c.first, c.rank = i, first, first
	c.in = c.list.set.container(i)
	c.at = 0
	if !c.in.isBitmap() {
		c.row = c.in.base() + uint32(c.in.words[0])
		return
	}
	for c.in.words[c.at] == 0 {
		c.at++
	}
	c.rest = c.in.words[c.at]
	c.row = c.in.base() + uint32(16*c.at+bits.TrailingZeros16(c.rest))
}

// seek moves to the first row that is at least the given one, which must be above the current
// row. It reports whether there is one.
func (c *cursor) seek(row uint32) bool {
	for i := c.number; c.in.key < uint16(row>>windowBits); {
		if i++; i == c.containers {
			return false
		}
		if c.open(i, c.first+c.in.n); c.row >= row {
			return true
		}
	}
	if c.in.isBitmap() {
		if c.seekBits(uint16(row)) {
			return true
		}
	} else if c.seekRows(uint16(row)) {
		return true
	}
	if c.number+1 == c.containers {
		return false
	}
	c.open(c.number+1, c.first+c.in.n)
	return true
}

// seekRows is seek in a list of rows: exponential search, then bisection.
func (c *cursor) seekRows(low uint16) bool {
	words := c.in.words
	lo, step := c.at, 1
	for lo+step < len(words) && words[lo+step] < low {
		lo += step
		step *= 2
	}
	hi := min(lo+step, len(words))
	for lo+1 < hi { // words[lo] is below low, words[hi] is not
		mid := int(uint(lo+hi) / 2)
		if words[mid] < low {
			lo = mid
		} else {
			hi = mid
		}
	}
	if hi == len(words) {
		return false
	}
	c.at, c.rank = hi, c.first+hi
	c.row = c.in.base() + uint32(words[hi])
	return true
}

// seekBits is seek in a bitmap; it counts the rows that it skips.
func (c *cursor) seekBits(low uint16) bool {
	words, to := c.in.words, int(low/16)
	if c.at < to {
		c.rank += bits.OnesCount16(c.rest)
		for c.at++; c.at < to; c.at++ {
			c.rank += bits.OnesCount16(words[c.at])
		}
		c.rest = words[to]
	}
	below := c.rest & (1<<(low%16) - 1)
	c.rank += bits.OnesCount16(below)
	c.rest &^= below
	for c.rest == 0 {
		if c.at++; c.at == len(words) {
			return false
		}
		c.rest = words[c.at]
	}
	c.row = c.in.base() + uint32(16*c.at+bits.TrailingZeros16(c.rest))
	return true
}
