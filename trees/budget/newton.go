package budget

import "math"

// How a Newton step is solved for: until the residual is this share of the
// gradient, or the conjugate gradient method has taken so many steps.
const (
	newtonResidual = 0.1
	newtonInner    = 60
)

// newton moves the fold's solution by one step of Newton's method over the sets
// whose norms are not zero, and returns the objective there; not ok where the
// step does not lower it. Where no set is zero, F is differentiable and, the
// offset minimised out, its generalised Hessian is
//
//	Σₕₖ ω̂ₕω̂ₖᵀ + (Σₖ‖ωₖ‖/‖ωₕ‖)(I − ω̂ₕω̂ₕᵀ) + Xᵀ(D − D11ᵀD/1ᵀD1)X
//
// with ω̂ₕ = ωₕ/‖ωₕ‖ and D the costs of the rows inside the margin. The system is solved by the
// conjugate gradient method, preconditioned by the diagonal; each of its steps
// is two passes over the active columns, and none over the hinges. m.residual,
// m.gradient and m.norms must be those of the fold's solution.
func (m *master) newton(f *fold, best float64) (objective float64, ok bool) {
	n := m.newtonMemory()
	n.stand(m)
	if n.total == 0 {
		return 0, false
	}
	slope := n.solve(m, f)
	if !(slope < 0) {
		return 0, false
	}
	m.gather(n.step, m.weight)
	m.p.forward(m.weight, n.margin)
	for size := 1.0; size > 1e-3; size /= 2 {
		for k, d := range n.step {
			m.w[k] = f.w[k] + size*d
		}
		for i, d := range n.margin {
			m.margin[i] = f.margin[i] + size*d
		}
		m.b = f.b
		objective = m.evaluate(m.w, m.margin, &m.b)
		if objective <= best+0.01*size*slope {
			return objective, objective < best
		}
	}
	return 0, false
}

// newtonState is the working memory of Newton steps.
type newtonState struct {
	total, inside float64
	norms         []float64 // of each set
	cost          []float64 // of each compact row inside the margin, else 0
	step          []float64 // of each slot
	gradient      []float64
	residual      []float64
	direction     []float64
	product       []float64
	scale         []float64 // the Hessian's diagonal
	margin        []float64 // of each compact row
	column        []float64 // of each active feature
}

func (m *master) newtonMemory() *newtonState {
	if m.second == nil {
		slots, rows := len(m.p.slot), len(m.p.sign)
		m.second = &newtonState{
			norms: make([]float64, len(m.norms)), cost: make([]float64, rows), step: make([]float64, slots),
			gradient: make([]float64, slots), residual: make([]float64, slots), direction: make([]float64, slots),
			product: make([]float64, slots), scale: make([]float64, slots),
			margin: make([]float64, rows), column: make([]float64, len(m.p.features)),
		}
	}
	return m.second
}

// stand takes the point of the master's norms and residuals as the one whose
// Hessian is meant.
func (n *newtonState) stand(m *master) {
	copy(n.norms, m.norms)
	n.total, n.inside = 0, 0
	for _, a := range n.norms {
		n.total += a
	}
	for i, r := range m.residual {
		n.cost[i] = 0
		if r != 0 {
			n.cost[i] = m.cost[i]
		}
		n.inside += n.cost[i]
	}
}

// solve fills in the step and returns the slope of F along it.
func (n *newtonState) solve(m *master, f *fold) (slope float64) {
	for l := range n.column {
		sum := 0.0
		for e := m.p.colPtr[l]; e < m.p.colPtr[l+1]; e++ {
			v := float64(m.p.colVal[e])
			sum += n.cost[m.p.colRow[e]] * v * v
		}
		n.column[l] = sum
	}
	size, least := 0.0, 0.0
	for h, a := range n.norms {
		for k := m.p.setPtr[h]; k < m.p.setPtr[h+1]; k++ {
			n.step[k], n.residual[k], n.direction[k], n.gradient[k] = 0, 0, 0, 0
			if a == 0 {
				continue
			}
			l := m.p.slot[k]
			n.scale[k] = n.total/a + n.column[l]
			n.gradient[k] = n.total/a*f.w[k] - m.gradient[l]
			n.residual[k] = -n.gradient[k]
			n.direction[k] = n.residual[k] / n.scale[k]
			size += n.residual[k] * n.direction[k]
		}
	}
	least = newtonResidual * newtonResidual * size
	for range newtonInner {
		if size <= least || size == 0 {
			break
		}
		n.multiply(m, f)
		curve := 0.0
		for k, d := range n.direction {
			curve += d * n.product[k]
		}
		if !(curve > 0) {
			break
		}
		step, next := size/curve, 0.0
		for k, d := range n.direction {
			n.step[k] += step * d
			n.residual[k] -= step * n.product[k]
			if n.residual[k] != 0 {
				next += n.residual[k] * n.residual[k] / n.scale[k]
			}
		}
		for k, r := range n.residual {
			d := n.direction[k] * next / size
			if r != 0 {
				d += r / n.scale[k]
			}
			n.direction[k] = d
		}
		size = next
	}
	for k, g := range n.gradient {
		slope += g * n.step[k]
	}
	if math.IsNaN(slope) {
		return 0
	}
	return slope
}

// multiply writes the product of the Hessian with the direction.
func (n *newtonState) multiply(m *master, f *fold) {
	m.gather(n.direction, m.weight)
	m.p.forward(m.weight, n.margin)
	middle := 0.0
	if !m.params.NoOffset && n.inside > 0 {
		for i, c := range n.cost {
			middle += c * n.margin[i]
		}
		middle /= n.inside
	}
	for i, c := range n.cost {
		n.margin[i] = c * (n.margin[i] - middle)
	}
	m.p.backward(n.margin, n.column)
	along := 0.0
	for h, a := range n.norms {
		if a > 0 {
			along += n.along(m, f, h)
		}
	}
	for h, a := range n.norms {
		if a == 0 {
			for k := m.p.setPtr[h]; k < m.p.setPtr[h+1]; k++ {
				n.product[k] = 0
			}
			continue
		}
		own := (along - n.total/a*n.along(m, f, h)) / a
		for k := m.p.setPtr[h]; k < m.p.setPtr[h+1]; k++ {
			n.product[k] = own*f.w[k] + n.total/a*n.direction[k] + n.column[m.p.slot[k]]
		}
	}
}

// along is ω̂ₕ·d, the direction's part along a set's weights.
func (n *newtonState) along(m *master, f *fold, h int) float64 {
	sum := 0.0
	for k := m.p.setPtr[h]; k < m.p.setPtr[h+1]; k++ {
		sum += f.w[k] * n.direction[k]
	}
	return sum / n.norms[h]
}
