package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

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

// runXOR prints the test errors of the SVM and of SBTs with and without
// look-ahead against the number of noise features. B is chosen among 1, 3, 5
// and 10 by cross-validation, as in the paper, on the 10,000 training rows; C
// is 5 as there.
func runXOR(ctx context.Context, s settings) error {
	fmt.Println("XOR, 10,000 rows to learn, 2,000 to test. Errors in %.")
	fmt.Println("noise seed |   svm | sbt    B nodes depth features root-and-child informative   s | paper's sbt    B nodes depth features")
	for _, noise := range []int{200, 500, 1000, 2000} {
		for seed := range s.seeds {
			x, y := makeXOR(12000, noise, uint64(seed))
			all := make([]int, 12000)
			for i := range all {
				all[i] = i
			}
			train, test := all[:10000], all[10000:]
			linear := float64(trainSVM(x, y, train, 1).errors(x, y, test)) / 20
			fmt.Printf("%5d %4d | %5.2f |", noise, seed, linear)
			for _, plain := range []bool{false, true} {
				start := time.Now()
				params := budget.Params{NoLookAhead: plain, Seed: uint64(seed)}
				params, err := chooseXOR(ctx, x, y, train, params, s)
				if err != nil {
					return err
				}
				m, err := budget.TrainSBT(ctx, x, y, train, params, s.workers, nil)
				if err != nil {
					return err
				}
				st := m.Stats()
				fmt.Printf(" %5.2f %2d %5d %5d %8d", 100*sbtError(m, x, y, test), params.BAC.Budget, st.Nodes, st.Depth, st.Features)
				if !plain {
					fmt.Printf(" %26v %4.0f |", informative(m), time.Since(start).Seconds())
				}
			}
			fmt.Println()
		}
	}
	return nil
}

// chooseXOR chooses B by holding out a fifth of the training rows once; the
// quick setting takes B = 1.
func chooseXOR(ctx context.Context, x *vector.CSR, y []int8, train []int, params budget.Params, s settings) (budget.Params, error) {
	params.BAC.C = 5
	params.BAC.Budget = 1
	if s.quick {
		return params, nil
	}
	best := 2.0
	chosen := params
	for _, b := range []int{1, 3, 5, 10} {
		params.BAC.Budget = b
		m, err := budget.TrainSBT(ctx, x, y, train[:8000], params, s.workers, nil)
		if err != nil {
			return params, err
		}
		if e := sbtError(m, x, y, train[8000:]); e < best {
			best, chosen = e, params
		}
	}
	return chosen, nil
}

// informative says whether the root and its left child see the two informative
// features first and last of all.
func informative(m *budget.Model) bool {
	return slices.Contains(m.Features, 0) && slices.Contains(m.Features, 1)
}

// sbtError is the share of the rows with the wrong class.
func sbtError(m *budget.Model, x *vector.CSR, y []int8, rows []int) float64 {
	p := budget.NewPredictor(budget.NewIndex(m))
	wrong := 0
	for _, r := range rows {
		if c, _ := p.Class(x.Row(r)); (c == 1) != (y[r] > 0) {
			wrong++
		}
	}
	return float64(wrong) / float64(len(rows))
}
