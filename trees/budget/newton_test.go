package budget

import (
	"context"
	"math"
	"testing"
)

// gradientOf is the gradient of F at the fold's weights moved along a
// direction, with the offset that is best there.
func gradientOf(m *master, f *fold, direction []float64, size float64) []float64 {
	for k, d := range direction {
		m.v[k] = f.w[k] + size*d
	}
	m.gather(m.v, m.weight)
	m.p.forward(m.weight, m.vMargin)
	m.vOffset = f.b
	m.gradientAt()
	total := 0.0
	for _, a := range m.norms {
		total += a
	}
	out := make([]float64, len(m.v))
	for h, a := range m.norms {
		for k := m.p.setPtr[h]; k < m.p.setPtr[h+1]; k++ {
			out[k] = total/a*m.v[k] - m.gradient[m.p.slot[k]]
		}
	}
	return out
}

// The product with the Hessian is the derivative of the gradient, with the
// offset free and fixed, and the step that solves with it lowers F.
func TestNewtonHessian(t *testing.T) {
	x, y := sparseText(300, 40, 10, 3)
	rows, err := checkRows(x.Rows(), nil)
	must(t, err)
	for _, fixed := range []bool{false, true} {
		params, err := BACParams{Budget: 5, Iterations: 4, NoOffset: fixed, Rounds: 3}.withDefaults()
		must(t, err)
		p := newProblem(x, rows, y, newScratch(x.Cols))
		f := newFold(p, params, nil)
		if _, err := p.cut(context.Background(), []*fold{f}, params); err != nil {
			t.Fatal(err)
		}
		m := newMaster(f, p, params)
		n := m.newtonMemory()
		direction := make([]float64, len(f.w))
		for k := range direction {
			direction[k] = math.Sin(float64(3*k + 1))
		}
		const small = 1e-6
		up, down := gradientOf(m, f, direction, small), gradientOf(m, f, direction, -small)
		before := gradientOf(m, f, direction, 0)
		if len(m.norms) < 2 || len(before) < 10 {
			t.Fatalf("%d sets of %d features in all", len(m.norms), len(before))
		}
		best := m.evaluate(m.v, m.vMargin, &m.vOffset)
		if _, ok := m.newton(f, best); !ok {
			t.Fatal("no step lowers the objective")
		}
		gradientOf(m, f, direction, 0)
		n.stand(m)
		copy(n.direction, direction)
		n.multiply(m, f)
		for k := range direction {
			want := (up[k] - down[k]) / (2 * small)
			if math.Abs(n.product[k]-want) > 1e-4*(1+math.Abs(want)) {
				t.Fatalf("offset fixed %v: slot %d: product %v, derivative %v", fixed, k, n.product[k], want)
			}
		}
	}
}
