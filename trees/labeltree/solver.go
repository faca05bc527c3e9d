package labeltree

import (
	"context"
	"math/rand/v2"

	"github.com/anndb/anndb/vector"
)

// problem is the rows of a node, which its classifiers share. Its features are renumbered, so that the
// weights of a classifier stay in the cache.
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
	// treeTolerance is that of trees of several levels, which have most classifiers and gain least from the last
	// passes.
	treeTolerance = 0.3
	// maxPasses bounds the passes over the rows.
	maxPasses = 1000
)

// solver finds the weights of classifiers, one after the other.
type solver struct {
	w      []float32 // by feature, then the offset
	alpha  []float64 // by row
	active []int32   // rows, those first that passes visit
	rng    *rand.PCG
}

// solve finds the classifier that tells the rows with positive from the others, and leaves it in s.w. Equal
// seeds give equal weights. It stops when the context ends.
func (s *solver) solve(ctx context.Context, p *problem, positive []bool, tolerance float64, seed uint64) {
	n, features := p.x.Rows(), p.x.Cols
	s.w = append(s.w[:0], make([]float32, features+1)...)
	s.alpha = append(s.alpha[:0], make([]float64, n)...)
	s.active = s.active[:0]
	for i := range n {
		s.active = append(s.active, int32(i))
	}
	s.rng = rand.NewPCG(seed, 0x6c74)
	list := s.active
	for range maxPasses {
		if ctx.Err() != nil { // one classifier of many rows takes long
			return
		}
		all := len(list) == n
		spread, kept := s.pass(p, positive, list)
		switch {
		case spread > tolerance:
			list = list[:kept]
		case all:
			return
		default:
			list = s.active[:n] // rows that were left out may be in error by now
		}
	}
}

// pass visits the listed rows once, in random order, and moves those that are beyond the margin to the end:
// later passes leave them out. It returns the spread of the projected gradients, and the number of the other
// rows.
func (s *solver) pass(p *problem, positive []bool, list []int32) (spread float64, kept int) {
	high, low := 0.0, 0.0
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
		if alpha == 0 && gradient >= 0 {
			kept--
			list[i], list[kept] = list[kept], list[i]
			i--
			continue
		}
		high, low = max(high, gradient), min(low, gradient)
		if gradient > -1e-12 && gradient < 1e-12 {
			continue
		}
		next := max(alpha-gradient/(float64(p.norm[row])+diagonal), 0)
		s.alpha[row] = next
		s.add(x, float32((next-alpha)*y))
	}
	return high - low, kept
}

// margin returns w·x with the offset, in four sums that do not wait for each other.
func (s *solver) margin(x vector.Sparse) float32 {
	w, index := s.w, x.Index
	value := x.Value[:len(index)]
	var a, b, c, d float32
	for len(index) >= 4 && len(value) >= 4 {
		a += w[index[0]] * value[0]
		b += w[index[1]] * value[1]
		c += w[index[2]] * value[2]
		d += w[index[3]] * value[3]
		index, value = index[4:], value[4:]
	}
	for i, f := range index {
		a += w[f] * value[i]
	}
	return (a + b) + (c + d) + w[len(w)-1]
}

// add adds a row times a factor to the weights.
func (s *solver) add(x vector.Sparse, factor float32) {
	w, value := s.w, x.Value[:len(x.Index)]
	for i, f := range x.Index {
		w[f] += factor * value[i]
	}
	w[len(w)-1] += factor
}
