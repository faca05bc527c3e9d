package main

import (
	"math"
	"math/rand/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// svm is the linear baseline: L2-regularised squared hinge, offset as a
// regularised constant feature, as liblinear's -s 1 -B 1 has it.
type svm struct {
	w []float64
	b float64
}

// trainSVM is dual coordinate descent (Hsieh et al. 2008) without shrinking,
// to the tolerance that liblinear stops at.
func trainSVM(x *vector.CSR, y []int8, rows []int, cost float64) *svm {
	s := &svm{w: make([]float64, x.Cols)}
	alpha := make([]float64, len(rows))
	square := make([]float64, len(rows))
	order := make([]int, len(rows))
	for k, r := range rows {
		n := x.Row(r).Norm()
		square[k] = n*n + 1 + 0.5/cost
		order[k] = k
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		high, low := math.Inf(-1), math.Inf(1)
		for _, k := range order {
			row := x.Row(rows[k])
			label := float64(y[rows[k]])
			g := label*s.margin(row) - 1 + alpha[k]*0.5/cost
			projected := g
			if alpha[k] == 0 {
				projected = min(g, 0)
			}
			high, low = max(high, projected), min(low, projected)
			next := max(0, alpha[k]-g/square[k])
			d := (next - alpha[k]) * label
			if d == 0 {
				continue
			}
			alpha[k] = next
			for e, j := range row.Index {
				s.w[j] += d * float64(row.Value[e])
			}
			s.b += d
		}
		if high-low <= 0.1 {
			break
		}
	}
	return s
}

func (s *svm) margin(row vector.Sparse) float64 {
	sum := s.b
	for e, j := range row.Index {
		sum += s.w[j] * float64(row.Value[e])
	}
	return sum
}

// errors is how many of the rows have the wrong class.
func (s *svm) errors(x *vector.CSR, y []int8, rows []int) int {
	wrong := 0
	for _, r := range rows {
		if (s.margin(x.Row(r)) > 0) != (y[r] > 0) {
			wrong++
		}
	}
	return wrong
}

// chooseSVM is the cost with the fewest errors in five-fold cross-validation.
func chooseSVM(x *vector.CSR, y []int8, rows []int, costs []float64) (float64, error) {
	folds, err := labels.KFold(len(rows), 5, 0)
	if err != nil {
		return 0, err
	}
	best, least := costs[0], math.MaxInt
	for _, c := range costs {
		wrong := 0
		for _, f := range folds {
			wrong += trainSVM(x, y, pick(rows, f.Train), c).errors(x, y, pick(rows, f.Test))
		}
		if wrong < least {
			best, least = c, wrong
		}
	}
	return best, nil
}

func pick(rows, at []int) []int {
	chosen := make([]int, len(at))
	for i, k := range at {
		chosen[i] = rows[k]
	}
	return chosen
}
