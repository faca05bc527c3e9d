package labels

import (
	"cmp"
	"fmt"
	"slices"
)

// Isotonic is a curve that never falls, from scores to probabilities: linear between its points, constant
// before the first and after the last. The zero value is 0 everywhere.
type Isotonic struct {
	X []float32 `json:"x"` // scores, ascending
	Y []float32 `json:"y"` // probabilities, from 0 to 1
}

// maxPoints bounds the points of a curve.
const maxPoints = 32

// At returns the probability at a score. O(log points).
func (c *Isotonic) At(score float32) float32 {
	n := len(c.X)
	if n == 0 {
		return 0
	}
	i, found := slices.BinarySearch(c.X, score)
	switch {
	case found:
		return c.Y[i]
	case i == 0:
		return c.Y[0]
	case i == n:
		return c.Y[n-1]
	}
	x, y := c.X[i-1:i+1], c.Y[i-1:i+1]
	share := (float64(score) - float64(x[0])) / (float64(x[1]) - float64(x[0]))
	return y[0] + float32(share)*(y[1]-y[0])
}

// Validate checks that the curve is one. Errors: ErrInput.
func (c *Isotonic) Validate() error {
	if len(c.X) != len(c.Y) || len(c.X) > maxPoints {
		return fmt.Errorf("%w: a curve with %d scores and %d probabilities", ErrInput, len(c.X), len(c.Y))
	}
	for i, x := range c.X {
		y := c.Y[i]
		if x-x != 0 || !(y >= 0 && y <= 1) || i > 0 && (x <= c.X[i-1] || y < c.Y[i-1]) {
			return fmt.Errorf("%w: a curve through %g at %g after %d points", ErrInput, y, x, i)
		}
	}
	return nil
}

// outcome is a score with the number of times that it was given, and of those at which the label was right.
type outcome struct {
	score   float32
	n, hits float64
}

// pool is consecutive scores with one probability: the sums of their outcomes.
type pool struct{ score, n, hits float64 }

func (p *pool) add(q pool) { p.score, p.n, p.hits = p.score+q.score, p.n+q.n, p.hits+q.hits }

// joined returns by how much the squared error grows if two pools get one probability.
func joined(p, q *pool) float64 {
	d := p.hits/p.n - q.hits/q.n
	return p.n * q.n / (p.n + q.n) * d * d
}

// fitIsotonic returns the curve through the pools of the function that never falls with the least squared
// error (pool adjacent violators; Barlow and others 1972), each pool at its mean score. It sorts the
// outcomes. O(n log n).
func fitIsotonic(list []outcome) Isotonic {
	slices.SortFunc(list, func(a, b outcome) int { return cmp.Compare(a.score, b.score) })
	var pools []pool
	for i, o := range list {
		p := pool{float64(o.score) * o.n, o.n, o.hits}
		for equal := i > 0 && o.score == list[i-1].score; len(pools) > 0; equal = false {
			last := &pools[len(pools)-1]
			if !equal && last.hits*p.n < p.hits*last.n {
				break
			}
			p.add(*last)
			pools = pools[:len(pools)-1]
		}
		pools = append(pools, p)
	}
	for len(pools) > maxPoints { // join the two neighbors that adds least to the squared error
		at := 0
		for i := range pools[1:] {
			if joined(&pools[i], &pools[i+1]) < joined(&pools[at], &pools[at+1]) {
				at = i
			}
		}
		pools[at].add(pools[at+1])
		pools = slices.Delete(pools, at+1, at+2)
	}
	var c Isotonic
	for _, p := range pools {
		x, y := float32(p.score/p.n), float32(p.hits/p.n)
		if last := len(c.X) - 1; last >= 0 && x <= c.X[last] { // equal as float32
			c.Y[last] = y
			continue
		}
		c.X, c.Y = append(c.X, x), append(c.Y, y)
	}
	return c
}
