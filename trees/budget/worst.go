package budget

import (
	"cmp"
	"math"
	"slices"
)

// scored is a feature with the violation Ξⱼ = Σᵥ (Σᵢ αᵢyᵢxᵢⱼ)² of the
// worst-case analysis.
type scored struct {
	feature uint32
	value   float64
}

// before orders by falling violation, ties by rising feature.
func (a scored) before(b scored) int {
	return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.feature, b.feature))
}

// worst is the worst-case analysis (problem 9; for folds the sum of equation
// 11): the budget features of largest Ξ, ascending by number, and the sum of
// their Ξ. Features of Ξ = 0 change nothing and are left out, so the choice is
// smaller than the budget where its support is. skip leaves out features that
// are active already. O(entries of the rows of nonzero α + touched features ·
// log budget).
func (p *problem) worst(folds []*fold, budget int, skip bool) ([]uint32, float64) {
	s := p.scratch
	for _, f := range folds {
		p.correlate(f)
		for _, j := range s.touched {
			s.total[j] += s.sum[j] * s.sum[j]
			s.sum[j] = 0
		}
	}
	if skip {
		for _, j := range p.features {
			s.total[j] = 0
		}
	}
	var top topFeatures
	top.limit = budget
	for _, j := range s.touched {
		if v := s.total[j]; v > 0 {
			top.push(scored{j, v})
		}
		s.total[j] = 0
		s.local[j] = -1
	}
	s.touched = s.touched[:0]
	sum := 0.0
	chosen := make([]uint32, len(top.heap))
	slices.SortFunc(top.heap, scored.before)
	for i, c := range top.heap {
		sum += c.value
		chosen[i] = c.feature
	}
	slices.Sort(chosen)
	return chosen, sum
}

// correlate adds Σᵢ αᵢyᵢxᵢⱼ over the rows of the problem to scratch.sum and
// enters every feature met in scratch.touched. local marks those entered.
func (p *problem) correlate(f *fold) {
	s := p.scratch
	for i, r := range p.rows {
		c := p.compact[i]
		if c < 0 {
			if f.held != nil && f.held[i] {
				continue
			}
			c = int32(classOf(p.y[i]))
		}
		a := f.alpha[c]
		if a == 0 {
			continue
		}
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		for e, j := range p.x.Index[lo:hi] {
			if s.local[j] < 0 {
				s.local[j] = 0
				s.touched = append(s.touched, j)
			}
			s.sum[j] += a * float64(entry(p.x, lo+uint64(e)))
		}
	}
}

// topFeatures keeps the limit first features by scored.before, in a heap with
// the last of them on top.
type topFeatures struct {
	limit int
	heap  []scored
}

func (t *topFeatures) push(s scored) {
	if math.IsNaN(s.value) {
		return
	}
	h := t.heap
	if len(h) < t.limit {
		h = append(h, s)
		for i := len(h) - 1; i > 0; {
			up := (i - 1) / 2
			if h[up].before(h[i]) >= 0 {
				break
			}
			h[up], h[i] = h[i], h[up]
			i = up
		}
		t.heap = h
		return
	}
	if s.before(h[0]) >= 0 {
		return
	}
	h[0] = s
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			return
		}
		if down+1 < len(h) && h[down].before(h[down+1]) < 0 {
			down++
		}
		if h[i].before(h[down]) >= 0 {
			return
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
