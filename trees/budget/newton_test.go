package budget

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
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

// sparseText makes n unit rows of about nnz of m features with power-law
// frequencies; the class is a noisy linear function of features of all
// frequencies.
func sparseText(n, m, nnz int, seed uint64) (*vector.CSR, []int8) {
	rng := rand.New(rand.NewPCG(seed, 2))
	truth := make([]float64, m)
	for j := range truth {
		truth[j] = rng.NormFloat64()
	}
	x := &vector.CSR{Ptr: []uint64{0}, Cols: m}
	y := make([]int8, n)
	for i := range n {
		seen := map[uint32]bool{}
		for len(seen) < nnz {
			seen[uint32(math.Pow(float64(m), rng.Float64()))-1] = true
		}
		var s vector.Sparse
		for j := range seen {
			s.Index = append(s.Index, j)
		}
		slices.Sort(s.Index)
		score := 0.0
		for _, j := range s.Index {
			s.Value = append(s.Value, float32(1/math.Sqrt(float64(nnz))))
			score += truth[j] / math.Sqrt(float64(nnz))
		}
		x.Append(s)
		x.Cols = m
		y[i] = 1
		if score+0.3*rng.NormFloat64() < 0 {
			y[i] = -1
		}
	}
	return x, y
}
