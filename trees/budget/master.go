package budget

import (
	"context"
	"math"
	"slices"
)

// How the step size adapts: shrinks of its inverse τ between steps, growth
// when a step is refused.
const (
	tauRelax = 0.9
	tauGrow  = 1.5
)

// solveMaster solves the master problem over the sets chosen so far (problem
// 8, in its primal form with squared hinge loss)
//
//	F(ω, b) = ½(Σₕ‖ωₕ‖)² + ½ Σᵢ Cᵢ max(0, 1 − yᵢ(Σₕ ωₕ·xᵢₕ + b))²
//
// from the fold's last solution, until the relative duality gap is at most the
// tolerance, which rounding allows down to some 1e-6, or the iterations are used
// up, as they may be close to a hard margin (few rows, many features, a cost in
// the hundreds). It makes accelerated proximal gradient steps. The offset is not
// stepped but minimised exactly at every point, so that its scale does not matter.
// The objective never ends above where it began. A step is O(entries of the active
// columns + rows).
//
// Errors: the context's.
func (f *fold) solveMaster(ctx context.Context, p *problem, params BACParams) error {
	f.extend(p)
	m := newMaster(f, p, params)
	m.best = m.evaluate(f.w, f.margin, &f.b)
	m.restart(f)
	for steps := 0; ; steps++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		loss, bound := m.gradientAt()
		m.dual = max(m.dual, bound)
		f.gap = max(0, m.best-m.dual)
		if f.gap <= params.Tolerance*m.best || steps == params.Iterations || !m.advance(f, loss) {
			break
		}
	}
	m.gather(f.w, f.weight)
	f.objective = m.best
	f.residuals(p)
	return nil
}

// restart drops the momentum: the next step starts from the fold's solution.
func (m *master) restart(f *fold) {
	m.momentum, m.fresh = 1, true
	copy(m.v, f.w)
	copy(m.vMargin, f.margin)
	m.vOffset = f.b
}

// advance makes a proximal gradient step from the extrapolated point, whose gradient is known.
// It reports whether there is more to gain than rounding.
func (m *master) advance(f *fold, loss float64) bool {
	next := m.step(f, loss)
	f.steps++
	if !(next < m.best) {
		again := !m.fresh
		m.restart(f)
		return again
	}
	grown := (1 + math.Sqrt(1+4*m.momentum*m.momentum)) / 2
	beta := (m.momentum - 1) / grown
	m.best, m.momentum, m.fresh = next, grown, beta == 0
	extrapolate(m.v, m.w, f.w, beta)
	extrapolate(m.vMargin, m.margin, f.margin, beta)
	m.vOffset, f.b = m.b, m.b
	copy(f.w, m.w)
	copy(f.margin, m.margin)
	return true
}

// extrapolate writes next + beta·(next − last).
func extrapolate(out, next, last []float64, beta float64) {
	for i, v := range next {
		out[i] = v + beta*(v-last[i])
	}
}

// master is the working memory of a master problem.
type master struct {
	p      *problem
	params BACParams
	cost   []float64

	v, vMargin []float64 // the extrapolated point
	vOffset    float64
	w, margin  []float64 // the point tried
	b          float64

	best, dual float64 // the objective of the fold's solution, and a lower bound
	momentum   float64
	fresh      bool // the extrapolated point is the solution

	residual, gradient, weight []float64
	norms, order               []float64

	steepest, trace float64 // bounds of the loss's curvature, from below and above
}

func newMaster(f *fold, p *problem, params BACParams) *master {
	slots, rows, sets := len(p.slot), len(p.sign), len(p.setPtr)-1
	m := &master{
		p: p, params: params, cost: f.cost,
		v: make([]float64, slots), vMargin: make([]float64, rows), vOffset: f.b,
		w: make([]float64, slots), margin: make([]float64, rows),
		residual: make([]float64, rows),
		gradient: make([]float64, len(p.features)), weight: make([]float64, len(p.features)),
		norms: make([]float64, sets), order: make([]float64, sets),
	}
	m.boundCurvature()
	return m
}

// gather sums the slots of every active feature.
func (m *master) gather(w, weight []float64) {
	clear(weight)
	for k, l := range m.p.slot {
		weight[l] += w[k]
	}
}

// evaluate is F at w, whose margins are known; b is moved to its minimiser.
func (m *master) evaluate(w, margin []float64, b *float64) float64 {
	sum := setNorms(w, m.p.setPtr, m.norms)
	loss := 0.0
	if m.params.NoOffset {
		_, _, loss = hinge(m.p.sign, m.cost, margin, *b, m.residual)
	} else {
		*b, loss = offset(m.p.sign, m.cost, margin, *b, m.residual)
	}
	return sum*sum/2 + loss
}

// gradientAt is the loss at the extrapolated point and the dual objective
// there, a lower bound of F everywhere; the gradient, negated, goes to
// m.gradient. The dual point is the residuals' α, scaled to the best length:
// with the exact offset it meets Σ αᵢyᵢ = 0.
func (m *master) gradientAt() (loss, dual float64) {
	m.evaluate(m.v, m.vMargin, &m.vOffset)
	sum, square := 0.0, 0.0
	for i, r := range m.residual {
		if r != 0 {
			sum += math.Abs(r)
			square += r * r / m.cost[i]
		}
	}
	// α² / C is C·max(0, ·)²: its half is the loss.
	loss = square / 2
	m.p.backward(m.residual, m.gradient)
	most := 0.0
	for h := range m.norms {
		norm := 0.0
		for _, l := range m.p.slot[m.p.setPtr[h]:m.p.setPtr[h+1]] {
			norm += m.gradient[l] * m.gradient[l]
		}
		most = max(most, norm)
	}
	if sum > 0 {
		dual = sum * sum / (2 * (square + most))
	}
	return loss, dual
}

// step tries a proximal gradient step from the extrapolated point, with
// backtracking, and returns the objective there. A step as short as the trace of
// the Hessian demands is taken without a test, which rounding could refuse.
func (m *master) step(f *fold, loss float64) float64 {
	if f.tau == 0 {
		f.tau = m.steepest
	}
	f.tau = min(f.tau*tauRelax, m.trace)
	for {
		for k, l := range m.p.slot {
			m.w[k] = m.v[k] + m.gradient[l]/f.tau
		}
		prox(m.w, m.p.setPtr, 1/f.tau, m.norms, m.order)
		m.gather(m.w, m.weight)
		m.p.forward(m.weight, m.margin)
		m.b = m.vOffset
		objective := m.evaluate(m.w, m.margin, &m.b)
		sum := 0.0
		for _, a := range m.norms {
			sum += a
		}
		slope, square := 0.0, 0.0
		for k, l := range m.p.slot {
			d := m.w[k] - m.v[k]
			slope -= m.gradient[l] * d
			square += d * d
		}
		if f.tau == m.trace || objective-sum*sum/2 <= loss+slope+f.tau/2*square+1e-13*loss {
			return objective
		}
		f.tau = min(f.tau*tauGrow, m.trace)
	}
}

// boundCurvature computes the largest diagonal entry and the trace of the Hessian
// that the loss has where all rows are inside the margin: no step needs a τ above
// the trace.
func (m *master) boundCurvature() {
	square := make([]float64, len(m.p.features))
	for l := range square {
		for e := m.p.colPtr[l]; e < m.p.colPtr[l+1]; e++ {
			v := float64(m.p.colVal[e])
			square[l] += m.cost[m.p.colRow[e]] * v * v
		}
	}
	for _, l := range m.p.slot {
		m.trace += square[l]
	}
	m.steepest = max(slices.Max(square), 1e-12)
	m.trace = max(m.trace, m.steepest)
}
