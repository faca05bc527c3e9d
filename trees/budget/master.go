package budget

import (
	"context"
	"math"
	"slices"
)

// progressEvery is how many steps must bring more than the tolerance.
const progressEvery = 40

// How the step size adapts: shrinks of its inverse τ between steps, growth
// when a step is refused.
const (
	tauRelax = 0.9
	tauGrow  = 1.5
)

// settle is the gradient steps before Newton's, which are given up when one
// brings less than the tolerance divided by newtonGain.
const (
	settle     = 6
	newtonGain = 10
)

// solveMaster solves the master problem over the sets chosen so far (problem
// 8, in its primal form with squared hinge loss)
//
//	F(ω, b) = ½(Σₕ‖ωₕ‖)² + ½ Σᵢ Cᵢ max(0, 1 − yᵢ(Σₕ ωₕ·xᵢₕ + b))²
//
// from the fold's last solution, until the relative duality gap is at most the
// tolerance. It begins with accelerated proximal gradient steps, which find out
// which sets matter; once these have settled, Newton steps over the sets that
// are not zero come far faster to the end (see newton), and where they stall,
// gradient steps go on. Close to a hard margin (few
// rows, many features, a high cost) the dual bound, and with it the gap, lags
// far behind the objective; so steps also end when a good number of them bring
// less than the tolerance. The offset is not stepped but minimised exactly at
// every point, so that its scale does not matter. The objective never ends above
// where it began. A step is O(entries of the active columns + active rows).
//
// Errors: the context's.
func (f *fold) solveMaster(ctx context.Context, p *problem, params BACParams) error {
	f.extend(p)
	m := newMaster(f, p, params)
	best := m.evaluate(f.w, f.margin, &f.b)
	dual, last := 0.0, math.Inf(1)
	momentum, fresh := 1.0, true
	second := true
	copy(m.v, f.w)
	copy(m.vMargin, f.margin)
	for steps := 0; ; steps++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		loss, bound := m.gradientAt()
		dual = max(dual, bound)
		f.gap = max(0, best-dual)
		if f.gap <= params.Tolerance*best || steps == params.Iterations {
			break
		}
		if steps%progressEvery == progressEvery-1 {
			if last-best <= params.Tolerance*best {
				break
			}
			last = best
		}
		if second && steps >= settle {
			if !fresh {
				// Newton steps start from the solution, not ahead of it.
				momentum, fresh = 1, true
				copy(m.v, f.w)
				copy(m.vMargin, f.margin)
				m.vOffset = f.b
				continue
			}
			next, ok := m.newton(f, best)
			second = ok && best-next > params.Tolerance*best/newtonGain
			if ok {
				f.steps++
				best = next
				for _, c := range [][2][]float64{{f.w, m.w}, {m.v, m.w}, {f.margin, m.margin}, {m.vMargin, m.margin}} {
					copy(c[0], c[1])
				}
				f.b, m.vOffset = m.b, m.b
				continue
			}
			loss, _ = m.gradientAt()
		}
		next, ok := m.step(f, loss)
		if !ok {
			break
		}
		f.steps++
		if next > best {
			if fresh {
				break // a plain step gains nothing more than rounding
			}
			momentum, fresh = 1, true
			copy(m.v, f.w)
			copy(m.vMargin, f.margin)
			m.vOffset = f.b
			continue
		}
		best = next
		grown := (1 + math.Sqrt(1+4*momentum*momentum)) / 2
		beta := (momentum - 1) / grown
		momentum, fresh = grown, beta == 0
		extrapolate(m.v, m.w, f.w, beta)
		extrapolate(m.vMargin, m.margin, f.margin, beta)
		copy(f.w, m.w)
		copy(f.margin, m.margin)
		f.b, m.vOffset = m.b, m.b
	}
	m.gather(f.w, f.weight)
	f.objective = best
	f.residuals(p)
	return nil
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

	residual, gradient, weight []float64
	norms, order               []float64

	second *newtonState
}

func newMaster(f *fold, p *problem, params BACParams) *master {
	slots, rows, sets := len(p.slot), len(p.sign), len(p.setPtr)-1
	return &master{
		p: p, params: params, cost: f.cost,
		v: make([]float64, slots), vMargin: make([]float64, rows), vOffset: f.b,
		w: make([]float64, slots), margin: make([]float64, rows),
		residual: make([]float64, rows), gradient: make([]float64, len(p.features)), weight: make([]float64, len(p.features)),
		norms: make([]float64, sets), order: make([]float64, sets),
	}
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
// backtracking, and returns the objective there; not ok when no step is short
// enough to be told from rounding.
func (m *master) step(f *fold, loss float64) (objective float64, ok bool) {
	if f.tau == 0 {
		f.tau = m.curvature()
	}
	f.tau *= tauRelax
	for range 100 {
		for k, l := range m.p.slot {
			m.w[k] = m.v[k] + m.gradient[l]/f.tau
		}
		prox(m.w, m.p.setPtr, 1/f.tau, m.norms, m.order)
		m.gather(m.w, m.weight)
		m.p.forward(m.weight, m.margin)
		m.b = m.vOffset
		objective = m.evaluate(m.w, m.margin, &m.b)
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
		if objective-sum*sum/2 <= loss+slope+f.tau/2*square+1e-13*loss {
			return objective, true
		}
		f.tau *= tauGrow
	}
	return 0, false
}

// curvature is a first guess at the loss's curvature: the largest diagonal
// entry of its Hessian, a lower bound of what is needed.
func (m *master) curvature() float64 {
	square := make([]float64, len(m.p.features))
	for l := range square {
		for e := m.p.colPtr[l]; e < m.p.colPtr[l+1]; e++ {
			v := float64(m.p.colVal[e])
			square[l] += m.cost[m.p.colRow[e]] * v * v
		}
	}
	return max(slices.Max(square), 1e-12)
}
