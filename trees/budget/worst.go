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
	if p.columns != nil && len(folds) == 1 && folds[0].held == nil {
		p.correlateRest(folds[0])
	} else {
		p.correlate(folds)
	}
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
			c := p.compact[i]
			if c < 0 {
				c = int32(classOf(p.y[i]))
			}
			a[v] = f.alpha[c]
			if f.held != nil && f.held[i] {
				a[v] = 0
			}
			any = any || a[v] != 0
		}
		if !any {
			continue
		}
		if n == 1 {
			p.addRow(r, a[0], s.sum)
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

// addRow adds a multiple of a matrix row to out.
func (p *problem) addRow(r int32, a float64, out []float64) {
	if a == 0 {
		return
	}
	s := p.scratch
	lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
	for e, j := range p.x.Index[lo:hi] {
		if s.local[j] < 0 {
			s.local[j] = 0
			s.touched = append(s.touched, j)
		}
		out[j] += a * float64(entry(p.x, lo+uint64(e)))
	}
}

// correlateRest is correlate with one pass over all rows for all analyses: the
// rows without active feature have one α a class, so the sums of the columns
// over each class, times that, only need to be put right for the others.
func (p *problem) correlateRest(f *fold) {
	s := p.scratch
	if p.sums == nil {
		p.sums = p.sumClasses()
	}
	rest := [restRows]float64{f.alpha[restNegative], f.alpha[restPositive]}
	for c := range rest {
		if f.cost[c] == 0 {
			rest[c] = 0 // there are no such rows
		}
	}
	for k, j := range p.sums.features {
		s.local[j] = 0
		s.sum[j] = rest[restNegative]*p.sums.sum[restNegative][k] + rest[restPositive]*p.sums.sum[restPositive][k]
	}
	s.touched = append(s.touched, p.sums.features...)
	for c := restRows; c < len(p.sign); c++ {
		i := p.origin[c]
		p.addRow(p.rows[i], f.alpha[c]-rest[classOf(p.y[i])], s.sum)
	}
	for k, j := range p.sums.features {
		// What is left of two equal sums is rounding.
		size := math.Abs(rest[restNegative]*p.sums.sum[restNegative][k]) +
			math.Abs(rest[restPositive]*p.sums.sum[restPositive][k])
		if math.Abs(s.sum[j]) <= 1e-13*size {
			s.sum[j] = 0
		}
	}
}

// sumClasses sums the columns over the rows of each class.
func (p *problem) sumClasses() *classSums {
	s := p.scratch
	out := [restRows][]float64{s.sum, s.total}
	for i, r := range p.rows {
		p.addRow(r, 1, out[classOf(p.y[i])])
	}
	sums := &classSums{features: slices.Clone(s.touched)}
	for c := range out {
		sums.sum[c] = make([]float64, len(s.touched))
		for k, j := range s.touched {
			sums.sum[c][k] = out[c][j]
			out[c][j] = 0
		}
	}
	for _, j := range s.touched {
		s.local[j] = -1
	}
	s.touched = s.touched[:0]
	return sums
}
