package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// makeXOR is the data of section 8.1.1: two features N(0,1), of which equal
// signs make class 1, and noise features U(0,1).
func makeXOR(n, noise int, seed uint64) (*vector.CSR, []int8) {
	rng := rand.New(rand.NewPCG(seed, uint64(noise)))
	m := noise + 2
	x := &vector.CSR{Ptr: make([]uint64, 1, n+1), Index: make([]uint32, 0, n*m), Value: make([]float32, 0, n*m), Cols: m}
	y := make([]int8, n)
	for i := range n {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		x.Value = append(x.Value, float32(a), float32(b))
		for range noise {
			x.Value = append(x.Value, rng.Float32())
		}
		for j := range m {
			x.Index = append(x.Index, uint32(j))
		}
		x.Ptr = append(x.Ptr, uint64(len(x.Index)))
		y[i] = -1
		if (a > 0) == (b > 0) {
			y[i] = 1
		}
	}
	return x, y
}

// runXOR prints the test errors of liblinear's SVM, of CART and of SBTs
// against the number of noise features. B is chosen
// among 1, 3, 5 and 10 on a fifth of the 10,000 training rows held out (quick:
// it is 1); C is 5, as in the paper.
func runXOR(ctx context.Context, s *settings) error {
	fmt.Println("XOR, 10,000 rows to learn, 2,000 to test. Errors in %. found: both informative features are selected.")
	fmt.Println("noise seed |   svm |  cart nodes |   sbt  B nodes depth features found    s")
	levels := []int{200, 500, 1000, 2000}
	if s.noise > 0 {
		levels = []int{s.noise}
	}
	for _, noise := range levels {
		var sum [3]float64
		found := 0
		for seed := s.first; seed < s.first+s.seeds; seed++ {
			x, y := makeXOR(12000, noise, uint64(seed))
			all := make([]int, 12000)
			for i := range all {
				all[i] = i
			}
			train, test, d := all[:10000], all[10000:], &binaryData{x, y}
			var errors [3]float64
			if s.linear != nil {
				if err := s.linear.Load(x); err != nil {
					return err
				}
				got, err := s.linear.Train(liblinear.Params{Solver: liblinear.PrimalL2, C: 1, Bias: 1}, y, train, test)
				if err != nil {
					return err
				}
				errors[0] = float64(got.Wrong(y, test)) / 20
			}
			wrong, size, err := cart(x, y, train, test)
			if err != nil {
				return err
			}
			errors[1] = float64(wrong) / 20
			start := time.Now()
			params, err := s.chooseXOR(ctx, d, train, budget.Params{Seed: uint64(seed)})
			if err != nil {
				return err
			}
			m, err := d.train(ctx, train, params, s.workers)
			if err != nil {
				return err
			}
			seconds := time.Since(start).Seconds()
			errors[2] = float64(d.wrongByTree(m, test)) / 20
			both := slices.Contains(m.Features, 0) && slices.Contains(m.Features, 1)
			if both {
				found++
			}
			st := m.Stats()
			fmt.Printf("%5d %4d | %5.2f | %5.2f %5d | %5.2f %2d %5d %5d %8d %5v %4.0f\n", noise, seed, errors[0], errors[1], size,
				errors[2], params.BAC.Budget, st.Nodes, st.Depth, st.Features, both, seconds)
			for i, e := range errors {
				sum[i] += e / float64(s.seeds)
			}
		}
		fmt.Printf("%5d mean | %5.2f | %5.2f       | %5.2f found in %d of %d\n", noise, sum[0], sum[1], sum[2], found, s.seeds)
	}
	return nil
}

// chooseXOR chooses B by holding out a fifth of the training rows once.
func (s *settings) chooseXOR(
	ctx context.Context, d *binaryData, train []int, params budget.Params,
) (budget.Params, error) {
	params.BAC.C = 5
	params.BAC.Budget = 1
	if s.quick {
		return params, nil
	}
	least := len(train)
	chosen := params
	for _, b := range []int{1, 3, 5, 10} {
		params.BAC.Budget = b
		m, err := d.train(ctx, train[:8000], params, s.workers)
		if err != nil {
			return params, err
		}
		if wrong := d.wrongByTree(m, train[8000:]); wrong < least {
			least, chosen = wrong, params
		}
	}
	return chosen, nil
}
