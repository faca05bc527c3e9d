package postings

import (
	"cmp"
	"math/bits"
	"slices"
)

// turn is the place of a cursor in the order by rows.
type turn struct {
	row   int
	bound float64
	part  *part
}

// nearly is below one by more than the relative error of a float64 sum of products.
const nearly = 1 - 1e-9

// weakAND searches a window document at a time (Feremans 2020, Algorithm 8, phase ii). It differs from
// the paper in two points: values are upper bounds, so a row that reaches θ is scored exactly, and a row
// whose bound equals θ is evaluated, since it may win a tie by its row number.
func (s *Searcher) weakAND() {
	s.turns = s.turns[:0]
	for i := range s.parts {
		p := &s.parts[i]
		p.open()
		s.turns = append(s.turns, turn{p.row, p.bound, p})
	}
	slices.SortFunc(s.turns, func(a, b turn) int { return cmp.Compare(a.row, b.row) })
	c := s.turns
	for {
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
			return
		}
		row := c[pivot].row
		for pivot+1 < len(c) && c[pivot+1].row == row {
			pivot++
		}
		if c[0].row == row {
			var sum float64
			for i := range c[:pivot+1] {
				p := c[i].part
				code := 255.0
				if p.code != nil {
					code = float64(p.code[p.rank])
				}
				sum += p.step * code * code
			}
			s.stats.Candidates++
			s.read(pivot+1, 3*(pivot+1))
			at := s.first + uint32(row)
			if !s.lists.hasCodes() {
				sum *= (float64(s.lists.Ratio[at]) + 1) / (1 << 16) // the highest ratio is cut by one
			}
			if sum >= theta && s.accepted(at) {
				s.offer(at)
			}
			row++
		}
		c = advance(c, pivot, row)
	}
}

// advance moves the cursors of the turns up to pivot to row or beyond, drops those at the end
// of their containers, and restores the order from the back.
func advance(c []turn, pivot, row int) []turn {
	for i := pivot; i >= 0; i-- {
		moved := c[i]
		if moved.row < row {
			if row >= windowRows || !moved.part.seek(uint16(row)) {
				copy(c[i:], c[i+1:])
				c = c[:len(c)-1]
				continue
			}
			moved.row = moved.part.row
		}
		j := i
		for ; j+1 < len(c) && c[j+1].row < moved.row; j++ {
			c[j] = c[j+1]
		}
		c[j] = moved
	}
	return c
}

// open moves to the first row of the container.
func (p *part) open() {
	p.at, p.rank = 0, 0
	if !p.in.isBitmap() {
		p.row = int(p.in.words[0])
		return
	}
	for p.in.words[p.at] == 0 {
		p.at++
	}
	p.rest = p.in.words[p.at]
	p.row = 16*p.at + bits.TrailingZeros16(p.rest)
}

// seek moves to the first row that is at least the given one, which must be above the current
// row. It reports whether there is one.
func (p *part) seek(low uint16) bool {
	if p.in.isBitmap() {
		return p.seekBits(low)
	}
	return p.seekRows(low)
}

// seekRows is seek in a list of rows: exponential search, then bisection.
func (p *part) seekRows(low uint16) bool {
	words := p.in.words
	lo, step := p.at, 1
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
	p.at, p.rank, p.row = hi, hi, int(words[hi])
	return true
}

// seekBits is seek in a bitmap; it counts the rows that it skips.
func (p *part) seekBits(low uint16) bool {
	words, to := p.in.words, int(low/16)
	if to >= len(words) {
		return false
	}
	if p.at < to {
		p.rank += bits.OnesCount16(p.rest)
		p.rank += ones(words[p.at+1 : to])
		p.at, p.rest = to, words[to]
	}
	below := p.rest & (1<<(low%16) - 1)
	p.rank += bits.OnesCount16(below)
	p.rest &^= below
	for p.rest == 0 {
		if p.at++; p.at == len(words) {
			return false
		}
		p.rest = words[p.at]
	}
	p.row = 16*p.at + bits.TrailingZeros16(p.rest)
	return true
}

// ones counts bits, four words at a time.
func ones(words []uint16) (n int) {
	for ; len(words) >= 4; words = words[4:] {
		four := uint64(words[0]) | uint64(words[1])<<16 | uint64(words[2])<<32 | uint64(words[3])<<48
		n += bits.OnesCount64(four)
	}
	for _, w := range words {
		n += bits.OnesCount16(w)
	}
	return n
}
