package budget

import (
	"math"
	"slices"
)

// proxNorms is the proximal operator of σ·½(Σ aₕ)² on the norms a of the sets
// (Martins et al. 2010): the norms that minimise ½‖z − a‖² + σ·½(Σ zₕ)² are
// max(aₕ − θ, 0). It returns θ. order is scratch of a's length. O(t log t).
func proxNorms(a []float64, sigma float64, order []float64) float64 {
	copy(order, a)
	slices.Sort(order)
	slices.Reverse(order)
	sum, theta := 0.0, 0.0
	for h, v := range order {
		sum += v
		t := sigma / (1 + float64(h+1)*sigma) * sum
		if v <= t {
			break
		}
		theta = t
	}
	return theta
}

// prox overwrites the slots' values u by those that minimise
// ½‖w − u‖² + σ·½(Σ ‖wₕ‖)².
func prox(u []float64, setPtr []int, sigma float64, norms, order []float64) {
	setNorms(u, setPtr, norms)
	theta := proxNorms(norms, sigma, order)
	for h, a := range norms {
		scale := 0.0
		if a > theta {
			scale = (a - theta) / a
		}
		for k := setPtr[h]; k < setPtr[h+1]; k++ {
			u[k] *= scale
		}
	}
}

// setNorms writes the Euclidean norm of every set of slots and returns their
// sum.
func setNorms(w []float64, setPtr []int, norms []float64) float64 {
	sum := 0.0
	for h := range norms {
		square := 0.0
		for _, v := range w[setPtr[h]:setPtr[h+1]] {
			square += v * v
		}
		norms[h] = math.Sqrt(square)
		sum += norms[h]
	}
	return sum
}
