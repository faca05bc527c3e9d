package postings

import (
	"context"
	"slices"
)

// cursor walks a list of the DAAT part.
type cursor struct {
	row    uint32  // of list[at]
	weight float32 // of the feature in the query
	bound  float64 // the most the list adds to a score (definition 13)
	at     int
	list   []Posting
}

// wand is phase (ii) of INSTANCEKNNFAST (Feremans 2020, Algorithm 8). It
// departs from the paper in one thing: a row whose bound equals θ is
// evaluated, since it may win a tie by its row number.
func (s *Searcher) wand(ctx context.Context, p *Partition) error {
	s.top.heap()
	s.cursors = s.cursors[:0]
	for _, t := range s.terms {
		list := p.DAAT.list(t.feature)
		if len(list) == 0 {
			continue
		}
		s.cursors = append(s.cursors, cursor{
			row: list[0].Row, weight: t.weight, list: list,
			bound: up(float64(t.weight) * float64(p.Max[t.feature])),
		})
	}
	c := s.cursors
	slices.SortFunc(c, func(a, b cursor) int { return int(int64(a.row) - int64(b.row)) })
	// A float64 sum of n products is this close, relatively, to the scores.
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
				sum += float64(c[i].weight) * float64(c[i].list[c[i].at].Value)
			}
			s.stats.Candidates++
			s.mark(pivot+1, 8*(pivot+1))
			if sum >= theta && s.accepted(row) {
				s.top.pushHeap(s.hit(row))
			}
			row++
		}
		// Every cursor up to the pivot moves to row or beyond; then the order
		// is restored from the back.
		for i := pivot; i >= 0; i-- {
			if c[i].row < row && !c[i].seek(row) {
				copy(c[i:], c[i+1:])
				c = c[:len(c)-1]
				continue
			}
			moved := c[i]
			j := i
			for ; j+1 < len(c) && c[j+1].row < moved.row; j++ {
				c[j] = c[j+1]
			}
			c[j] = moved
		}
	}
}

// seek moves to the first entry of a row not below the one given, by doubling
// steps and bisection; it says whether there is one.
func (c *cursor) seek(row uint32) bool {
	lo, step := c.at, 1
	for lo+step < len(c.list) && c.list[lo+step].Row < row {
		lo += step
		step *= 2
	}
	hi := min(lo+step, len(c.list))
	for lo+1 < hi { // list[lo] is below row, list[hi] is not
		mid := int(uint(lo+hi) / 2)
		if c.list[mid].Row < row {
			lo = mid
		} else {
			hi = mid
		}
	}
	if c.at = hi; hi == len(c.list) {
		return false
	}
	c.row = c.list[hi].Row
	return true
}
