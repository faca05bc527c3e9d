package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/vector"
)

// pruneSets are the sets of table 4's stand-ins: text as wide as rcv, and, for
// epsilon, sets whose rows no linear classifier parts. Of those with label sets
// the label that nearest half of the rows have is told from the rest; rows bounds
// how many are read.
var pruneSets = []struct {
	name, files string
	rows        int
	normalize   func(*vector.CSR)
}{
	{"rcv1sub1", "", 0, nil},
	{"pcmac", "", 0, unit},
	{"yeast", "yeast/yeast-*.arff.gz", 0, standardize},
	{"tmc2007-500", "tmc2007-500/*-train.arff.gz", 6000, nil},
	{"imdb", "imdb/*.arff.*", 3000, nil},
}

// runPrune prints table 4: the errors and sizes of trees as they grew and
// pruned, both of the same parameters, means of random divisions. They are given
// for each budget at the paper's C, and for what cross-validation of the pruned
// tree on the training rows chooses among the paper's values.
func runPrune(ctx context.Context, s *settings) error {
	fmt.Printf("Errors in %%, means of %d random divisions 80/20; chosen: by %d-fold cross-validation.\n", s.seeds, s.inner)
	fmt.Println("set              B C         | unpruned nodes depth features |  pruned nodes depth features | better worse")
	for _, set := range pruneSets {
		if !s.only.MatchString(set.name) {
			continue
		}
		x, y, err := loadPrune(s, set.name, set.files, set.rows)
		if ok, err := usable(x, set.normalize, err); !ok {
			if err != nil {
				return err
			}
			continue
		}
		budgets, costs := s.paperGrid(x.Cols)
		for _, b := range budgets {
			if err := s.prunedRow(ctx, &binaryData{x, y}, set.name, []int{b}, []float64{5}); err != nil {
				return err
			}
		}
		if s.inner > 1 {
			if err := s.prunedRow(ctx, &binaryData{x, y}, set.name, budgets, costs); err != nil {
				return err
			}
		}
	}
	return nil
}

// paperGrid is that of section 8.1 for m features: for the very wide sets B of 2 to 400 and C of 0.001
// to 10, which has another meaning there (see package budget), else B of 1 % to 9 % of m and C of 5. With
// -quick, every third of the budgets and the three largest costs.
func (s *settings) paperGrid(m int) (budgets []int, costs []float64) {
	all, costs := []int{2, 5, 10, 20, 50, 100, 150, 200, 250, 400}, []float64{0.001, 0.01, 0.1, 5, 10}
	if m <= 10000 {
		all, costs = nil, []float64{5}
		for share := 1; share <= 9; share++ {
			all = append(all, max(1, share*m/100))
		}
		all = slices.Compact(all)
	}
	if !s.quick {
		return all, costs
	}
	for i := 0; i < len(all); i += 3 {
		budgets = append(budgets, all[i])
	}
	return budgets, costs[max(0, len(costs)-3):]
}

// loadPrune reads a set of two classes, or one of label sets as two.
func loadPrune(s *settings, name, files string, rows int) (*vector.CSR, []int8, error) {
	if files == "" {
		return loadBinary(s, name)
	}
	x, sets, err := loadSets(s, files, rows)
	if err != nil {
		return nil, nil, err
	}
	best, least := 0, x.Rows()+1
	for label := range sets.Labels() {
		d := 2*len(sets.Column(label)) - x.Rows()
		if d = max(d, -d); d < least {
			best, least = label, d
		}
	}
	y := make([]int8, x.Rows())
	for i := range y {
		y[i] = -1
	}
	for _, r := range sets.Column(best) {
		y[r] = 1
	}
	return x, y, nil
}

// prunedRow prints one row of the table.
func (s *settings) prunedRow(
	ctx context.Context, d *binaryData, name string, budgets []int, costs []float64,
) error {
	var sum [2][4]float64
	var better, worse int
	b, c := budgets[0], costs[0]
	for seed := s.first; seed < s.first+s.seeds; seed++ {
		fold, err := randomSplit(d.x.Rows(), 5, uint64(seed))
		if err != nil {
			return err
		}
		if len(budgets)*len(costs) > 1 {
			if b, c, err = s.crossValidate(ctx, trial{d: d, f: fold, seed: uint64(seed)}, budgets, costs, s.treeOf(false)); err != nil {
				return err
			}
		}
		var wrong [2]int
		for i, grown := range []bool{true, false} {
			got, err := s.treeOf(grown)(ctx, trial{d, fold, b, c, uint64(seed)})
			if err != nil {
				return err
			}
			wrong[i] = got.wrong
			for k, v := range []float64{100 * float64(got.wrong) / float64(len(fold.Test)), float64(got.nodes), float64(got.depth), float64(got.features)} {
				sum[i][k] += v / float64(s.seeds)
			}
		}
		if wrong[1] < wrong[0] {
			better++
		} else if wrong[1] > wrong[0] {
			worse++
		}
	}
	how := fmt.Sprintf("%d %g", b, c)
	if len(budgets)*len(costs) > 1 {
		how = "chosen, " + how
	}
	fmt.Printf("%-12s %15s | %8.2f %5.1f %5.1f %8.1f | %7.2f %5.1f %5.1f %8.1f | %6d %5d\n", name, how,
		sum[0][0], sum[0][1], sum[0][2], sum[0][3], sum[1][0], sum[1][1], sum[1][2], sum[1][3], better, worse)
	return nil
}
