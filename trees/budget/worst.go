package budget

import (
	"cmp"
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

// first returns the first n features, in order.
func first(all []scored, n int) []scored {
	slices.SortFunc(all, scored.before)
	return all[:min(n, len(all))]
}

// worst is the worst-case analysis (problem 9; for folds the sum of equation
// 11): the budget features of largest Ξ, ascending by number, and the sum of
// their Ξ. Features of Ξ = 0 change nothing and are left out, so the choice is
// smaller than the budget where its support is. skip leaves out features that
// are active already. O(entries of the rows of nonzero α + touched features ·
// log budget).
func (p *problem) worst(folds []*fold, budget int, skip bool) ([]uint32, float64) {
	s := p.scratch
	p.correlate(folds)
	n := len(folds)
	for _, j := range s.touched {
		for v, c := range s.sum[int(j)*n : (int(j)+1)*n] {
			s.total[j] += c * c
			s.sum[int(j)*n+v] = 0
		}
	}
	if skip {
		for _, j := range p.features {
			s.total[j] = 0
		}
	}
	var top []scored
	for _, j := range s.touched {
		if v := s.total[j]; v > 0 {
			if top = append(top, scored{j, v}); len(top) == 2*budget {
				top = first(top, budget)
			}
		}
		s.total[j] = 0
		s.local[j] = -1
	}
	s.touched = s.touched[:0]
	sum := 0.0
	top = first(top, budget)
	chosen := make([]uint32, len(top))
	for i, c := range top {
		sum += c.value
		chosen[i] = c.feature
	}
	slices.Sort(chosen)
	return chosen, sum
}

// correlate adds Σᵢ αᵢyᵢxᵢⱼ over the rows of the problem, of fold v to
// scratch.sum[j·folds + v], and enters every feature met in scratch.touched;
// local marks those entered. All folds share one pass and, of a feature, one
// cache line: in a wide space the pass waits for memory.
func (p *problem) correlate(folds []*fold) {
	s, n := p.scratch, len(folds)
	s.widen(n)
	var a [MaxVoters]float64
	for i, r := range p.rows {
		any := false
		for v, f := range folds {
			a[v] = f.alpha[i]
			any = any || a[v] != 0
		}
		if !any {
			continue
		}
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		for e, j := range p.x.Index[lo:hi] {
			if s.local[j] < 0 {
				s.local[j] = 0
				s.touched = append(s.touched, j)
			}
			value := float64(entry(p.x, lo+uint64(e)))
			sum := s.sum[int(j)*n : (int(j)+1)*n]
			for v := range sum {
				sum[v] += a[v] * value
			}
		}
	}
}
