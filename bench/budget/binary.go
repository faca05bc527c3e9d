package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// binarySteps bounds the steps of a master problem in table 5, below the default of
// 1,000, for the sake of its many cross-validations.
const binarySteps = 200

// costs are what C is chosen among, for both sides.
var costs = []float64{0.001, 0.01, 0.1, 1, 10}

// grid is what B and C of trees are chosen among: from the paper's shares of the
// features that the training rows have up to all of them.
func (s *settings) grid(x *vector.CSR, rows []int) budget.Grid {
	seen := make([]bool, x.Cols)
	m := 0
	for _, r := range rows {
		for _, j := range x.Index[x.Ptr[r]:x.Ptr[r+1]] {
			if !seen[j] {
				seen[j] = true
				m++
			}
		}
	}
	g := budget.Grid{Costs: costs, Folds: s.inner}
	shares := []int{1, 3, 9, 30, 100}
	if s.quick {
		shares, g.Costs = []int{3, 30, 100}, costs[1:4]
		if x.Cols > 10000 {
			g.Costs = costs[2:]
		}
	}
	for _, share := range shares {
		g.Budgets = append(g.Budgets, max(1, share*m/100))
	}
	return g
}

// runBinary prints tables 4 and 5: random divisions of 80 and 20 %, parameters
// chosen by cross-validation on the 80 %, on both sides.
func runBinary(ctx context.Context, s *settings) error {
	how := fmt.Sprintf("C (and B) by %d-fold cross-validation on the 80 %%", s.inner)
	if s.inner < 2 {
		how = "C = 0.1 (and B 3 % of the features), not chosen"
	}
	fmt.Printf("Errors in %%, means of %d random divisions 80/20; %s. At most %d steps a master problem.\n", s.seeds, how, binarySteps)
	fmt.Println("set               rows       m |   svm  cart |   sbt unpruned one node | nodes depth features     s | paper: svm, sbt")
	return s.eachBinary(func(set *binarySet, d *binaryData) error {
		if s.linear != nil {
			if err := s.linear.Load(d.x); err != nil {
				return err
			}
		}
		var sum [9]float64
		for seed := s.first; seed < s.first+s.seeds; seed++ {
			got, err := divide(ctx, s, d, uint64(seed))
			if err != nil {
				return err
			}
			for i, v := range got {
				sum[i] += v / float64(s.seeds)
			}
		}
		fmt.Printf("%-16s %5d %7d | %5.2f %5.2f | %5.2f %8.2f %8.2f | %5.1f %5.1f %8.1f %5.1f | %s\n",
			set.name, d.x.Rows(), d.x.Cols,
			sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7], sum[8], set.paper)
		return nil
	})
}

// cartCells bounds the matrices that CART is tried on, which it takes dense.
const cartCells = 30 << 20

// divide is the figures of one random division.
func divide(ctx context.Context, s *settings, d *binaryData, seed uint64) ([]float64, error) {
	x, y := d.x, d.y
	fold, err := randomSplit(x.Rows(), 5, seed)
	if err != nil {
		return nil, err
	}
	percent := 100 / float64(len(fold.Test))
	figures := []float64{math.NaN(), math.NaN()}
	if s.linear != nil {
		p := liblinear.Params{Solver: liblinear.DualL2, C: 0.1, Bias: 1}
		if s.inner > 1 {
			if p, err = choose(s.linear, p, y, fold.Train, costs, s.inner); err != nil {
				return nil, err
			}
		}
		got, err := s.linear.Train(p, y, fold.Train, fold.Test)
		if err != nil {
			return nil, err
		}
		figures[0] = percent * float64(got.Wrong(y, fold.Test))
	}
	if x.Rows()*x.Cols <= cartCells {
		wrong, _, err := cart(x, y, fold.Train, fold.Test)
		if err != nil {
			return nil, err
		}
		figures[1] = percent * float64(wrong)
	}
	start := time.Now()
	params := budget.Params{Seed: seed, BAC: budget.BACParams{Budget: max(1, 3*x.Cols/100), C: 0.1, Iterations: binarySteps, Exact: s.exact}}
	if s.inner > 1 {
		params, _, err = budget.Choose(ctx, budget.SBT, d.job(fold.Train, params, s.workers), s.grid(x, fold.Train))
		if err != nil {
			return nil, err
		}
	}
	var first *budget.Model
	var seconds float64
	for _, change := range []func(*budget.Params){
		func(*budget.Params) {},
		func(p *budget.Params) { p.NoPrune = true },
		func(p *budget.Params) { p.MaxDepth = 1 },
	} {
		p := params
		change(&p)
		m, err := d.train(ctx, fold.Train, p, s.workers)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first, seconds = m, time.Since(start).Seconds()
		}
		figures = append(figures, percent*float64(d.wrongByTree(m, fold.Test)))
	}
	st := first.Stats()
	return append(figures, float64(st.Nodes), float64(st.Depth), float64(st.Features), seconds), nil
}

// choose is the cost with the fewest errors in cross-validation; ties go to
// the smaller.
func choose(l *liblinear.Driver, p liblinear.Params, y []int8, rows []int, costs []float64, folds int) (liblinear.Params, error) {
	parts, err := labels.KFoldOf(rows, folds, 0)
	if err != nil {
		return p, err
	}
	best, least := p, len(rows)+1
	for _, c := range costs {
		p.C = c
		wrong := 0
		for _, f := range parts {
			got, err := l.Train(p, y, f.Train, f.Test)
			if err != nil {
				return p, err
			}
			wrong += got.Wrong(y, f.Test)
		}
		if wrong < least {
			best, least = p, wrong
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
