package labeltree

import (
	"math"
	"math/rand/v2"

	"github.com/anndb/anndb/vector"
)

// problem is the rows of a node, which its classifiers share. Its features are renumbered, so that the weights of
// a classifier stay in the cache.
type problem struct {
	x    *vector.CSR
	norm []float32 // squared lengths, the feature of the offset included
	cost float64
}

// newProblem returns the problem of rows.
func newProblem(x *vector.CSR, cost float64) *problem {
	p := &problem{x: x, norm: make([]float32, x.Rows()), cost: cost}
	for i := range p.norm {
		p.norm[i] = 1
		for _, v := range x.Row(i).Value {
			p.norm[i] += v * v
		}
	}
	return p
}

const (
	// tolerance is the spread of projected gradients at which the descent ends, that of liblinear. Half of it
	// changes no measure.
	tolerance = 0.1
	// maxPasses bounds the passes over the rows.
	maxPasses = 1000
)

// solver finds the weights of classifiers, one after the other.
type solver struct {
	w      []float32 // by feature, then the offset
	alpha  []float64 // by row
	active []int32   // rows that are not shrunk
	rng    *rand.PCG
}

// solve finds the classifier that tells the rows with positive from the others, and leaves it in s.w. Equal seeds
// give equal weights.
func (s *solver) solve(p *problem, positive []bool, tolerance float64, seed uint64) {
	n, features := p.x.Rows(), p.x.Cols
	s.w = append(s.w[:0], make([]float32, features+1)...)
	s.alpha = append(s.alpha[:0], make([]float64, n)...)
	s.active = s.active[:0]
	for i := range n {
		s.active = append(s.active, int32(i))
	}
	s.rng = rand.NewPCG(seed, 0x6c74)
	list := s.active
	limit := math.Inf(1) // a row with alpha 0 and a larger gradient is shrunk
	for range maxPasses {
		high, low, kept := s.pass(p, positive, list, limit)
		list = list[:kept]
		if high-low <= tolerance {
			if len(list) == n {
				return
			}
			list, limit = s.active[:n], math.Inf(1) // all rows once more
			continue
		}
		if limit = high; high <= 0 {
			limit = math.Inf(1)
		}
	}
}

// pass visits the listed rows once, in random order, and moves the shrunk ones to the end. It returns the largest
// and the least projected gradient, and the number of rows that are not shrunk.
func (s *solver) pass(p *problem, positive []bool, list []int32, limit float64) (high, low float64, kept int) {
	high, low = math.Inf(-1), math.Inf(1)
	diagonal := 0.5 / p.cost
	r := rand.New(s.rng)
	kept = len(list)
	for i := 0; i < kept; i++ {
		at := i + int(r.Uint64N(uint64(kept-i)))
		list[i], list[at] = list[at], list[i]
		row := list[i]
		x, y := p.x.Row(int(row)), -1.0
		if positive[row] {
			y = 1
		}
		alpha := s.alpha[row]
		gradient := y*float64(s.margin(x)) - 1 + diagonal*alpha
		projected := gradient
		if alpha == 0 {
			if gradient > limit {
				kept--
				list[i], list[kept] = list[kept], list[i]
				i--
				continue
			}
			projected = min(gradient, 0)
		}
		high, low = max(high, projected), min(low, projected)
		if projected > -1e-12 && projected < 1e-12 {
			continue
		}
		next := max(alpha-gradient/(float64(p.norm[row])+diagonal), 0)
		s.alpha[row] = next
		s.add(x, float32((next-alpha)*y))
	}
	return high, low, kept
}

// margin returns w·x with the offset.
func (s *solver) margin(x vector.Sparse) float32 {
	w, value := s.w, x.Value[:len(x.Index)]
	sum := w[len(w)-1]
	for i, f := range x.Index {
		sum += w[f] * value[i]
	}
	return sum
}

// add adds a row times a factor to the weights.
func (s *solver) add(x vector.Sparse, factor float32) {
	w, value := s.w, x.Value[:len(x.Index)]
	for i, f := range x.Index {
		w[f] += factor * value[i]
	}
	w[len(w)-1] += factor
}
