package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// makeText is n unit rows of nnz of m features with power-law frequencies; the
// class is a noisy linear function of features of all frequencies.
func makeText(n, m, nnz int, seed uint64) (*vector.CSR, []int8) {
	rng := rand.New(rand.NewPCG(seed, 2))
	truth := make([]float64, m)
	for j := range truth {
		truth[j] = rng.NormFloat64()
	}
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	y := make([]int8, n)
	length := math.Sqrt(float64(nnz))
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
		score := 0.3 * rng.NormFloat64()
		for _, j := range s.Index {
			s.Value = append(s.Value, float32(1/length))
			score += truth[j] / length
		}
		x.Append(s)
		y[i] = 1
		if score < 0 {
			y[i] = -1
		}
	}
	x.Cols = m
	return x, y
}

// runBAC prints the CPU time that training takes of one classifier of budget 100 on 10,000 ×
// 50,000 generated rows beside that of one L2-SVM of liblinear's, at the same C,
// interleaved: medians of the runs, one thread each.
func runBAC(ctx context.Context, s *settings) error {
	if s.linear == nil {
		return fmt.Errorf("%w bac: no peer", errSkipped)
	}
	fmt.Println("CPU seconds of training on 10,000 × 50,000 rows of 75 features, medians; B = 100; test errors in % on 2,000 more rows.")
	fmt.Println("   C |   bac features error | liblinear dual error | primal error | bac / dual, / primal")
	x, y := makeText(12000, 50000, 75, 1)
	if err := s.linear.Load(x); err != nil {
		return err
	}
	all := make([]int, x.Rows())
	for i := range all {
		all[i] = i
	}
	rows, test := all[:10000], all[10000:]
	for _, c := range []float64{1, 5} {
		var seconds [3][]float64
		var wrong [3]int
		features := 0
		for range s.seeds {
			start := process.CPU()
			b, _, err := budget.TrainBAC(ctx, x, y, rows, budget.BACParams{Budget: 100, C: c})
			if err != nil {
				return err
			}
			seconds[0] = append(seconds[0], (process.CPU() - start).Seconds())
			d := binaryData{x, y}
			features, wrong[0] = len(b.Features), d.wrongByClassifier(b, test)
			for i, solver := range []int{liblinear.DualL2, liblinear.PrimalL2} {
				got, err := s.linear.Train(liblinear.Params{Solver: solver, C: c, Bias: 1}, y, rows, test)
				if err != nil {
					return err
				}
				seconds[i+1] = append(seconds[i+1], got.Train)
				wrong[i+1] = got.Wrong(y, test)
			}
		}
		var mid [3]float64
		for i := range mid {
			mid[i] = median(seconds[i])
		}
		fmt.Printf("%4g | %5.3f %8d %5.2f | %14.3f %5.2f | %6.3f %5.2f | %.2f, %.2f\n", c, mid[0], features, float64(wrong[0])/20,
			mid[1], float64(wrong[1])/20, mid[2], float64(wrong[2])/20, mid[0]/mid[1], mid[0]/mid[2])
	}
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
