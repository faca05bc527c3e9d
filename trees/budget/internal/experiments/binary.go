package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// binarySets are the sets of table 5 that are to be had, and stand-ins.
var binarySets = []struct {
	name      string
	normalize func(*vector.CSR)
	paper     string
}{
	{"colon", nil, "svm 20.00, sbt 13.33 (continuous)"},
	{"colon-continuous", standardize, "svm 20.00, sbt 13.33"},
	{"leukemia", nil, ""},
	{"pcmac", unit, "svm 7.47, sbt 7.22"},
	{"basehock", unit, ""},
	{"relathe", unit, ""},
	{"arcene", scale, ""},
	{"madelon", standardize, ""},
}

// loadBinary reads a libsvm file.
func loadBinary(s settings, name string) (*vector.CSR, []int8, error) {
	if s.data == "" {
		return nil, nil, fmt.Errorf("%w: no -data, no ANNDB_DATA", errSkipped)
	}
	r, err := dataset.OpenSparse(filepath.Join(s.data, "binary", name+".libsvm.gz"), dataset.SparseOptions{Format: dataset.FormatLibsvm})
	if err != nil {
		return nil, nil, fmt.Errorf("%w %s: %w", errSkipped, name, err)
	}
	defer r.Close()
	x := &vector.CSR{Ptr: []uint64{0}}
	var y []int8
	var rec dataset.SparseRecord
	for {
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			return x, y, nil
		}
		if err != nil {
			return nil, nil, err
		}
		x.Append(rec.Features)
		c := int8(-1)
		if len(rec.Labels) == 1 && (rec.Labels[0] == "1" || rec.Labels[0] == "+1") {
			c = 1
		}
		y = append(y, c)
	}
}

// unit makes rows of log counts of unit length, as text is usually given to linear
// classifiers.
func unit(x *vector.CSR) {
	for e, v := range x.Value {
		x.Value[e] = float32(math.Log1p(float64(v)))
	}
	for i := range x.Rows() {
		row := x.Row(i)
		if n := row.Norm(); n > 0 {
			for e := range row.Value {
				row.Value[e] = float32(float64(row.Value[e]) / n)
			}
		}
	}
}

// scale divides every feature by its largest magnitude.
func scale(x *vector.CSR) {
	most := make([]float32, x.Cols)
	for e, j := range x.Index {
		most[j] = max(most[j], float32(math.Abs(float64(x.Value[e]))))
	}
	for e, j := range x.Index {
		x.Value[e] /= most[j]
	}
}

// standardize scales each row, then each feature, to mean 0 and variance 1, as
// LIBSVM's file of colon is. It makes the matrix dense.
func standardize(x *vector.CSR) {
	n, m := x.Rows(), x.Cols
	full := make([]float64, n*m)
	for i := range n {
		row := x.Row(i)
		for e, j := range row.Index {
			full[i*m+int(j)] = float64(row.Value[e])
		}
	}
	center := func(start, step, count int) {
		mean, square := 0.0, 0.0
		for k := range count {
			mean += full[start+k*step] / float64(count)
		}
		for k := range count {
			d := full[start+k*step] - mean
			square += d * d / float64(count)
		}
		for k := range count {
			full[start+k*step] -= mean
			if square > 0 {
				full[start+k*step] /= math.Sqrt(square)
			}
		}
	}
	if n < m {
		for i := range n {
			center(i*m, 1, m)
		}
	}
	for j := range m {
		center(j, m, n)
	}
	x.Ptr, x.Index, x.Value = []uint64{0}, nil, nil
	for i := range n {
		for j := range m {
			x.Index = append(x.Index, uint32(j))
			x.Value = append(x.Value, float32(full[i*m+j]))
		}
		x.Ptr = append(x.Ptr, uint64(len(x.Index)))
	}
}

var costs = []float64{0.001, 0.01, 0.1, 1, 5, 10, 20}

// runBinary prints tables 4 and 5: random divisions of 80 and 20 %, parameters
// chosen by five-fold cross-validation on the 80 %.
func runBinary(ctx context.Context, s settings) error {
	fmt.Println("Errors in %, mean of", s.seeds, "random divisions 80/20.")
	fmt.Println("set               rows      m |   svm |   sbt unpruned without look-ahead one classifier | nodes depth features    s | paper")
	for _, set := range binarySets {
		if !s.only.MatchString(set.name) {
			continue
		}
		x, y, err := loadBinary(s, set.name)
		if errors.Is(err, errSkipped) {
			fmt.Println(err)
			continue
		}
		if err != nil {
			return err
		}
		if set.normalize != nil {
			set.normalize(x)
		}
		var sum [9]float64
		for seed := range s.seeds {
			got, err := divide(ctx, s, x, y, uint64(seed))
			if err != nil {
				return fmt.Errorf("%s: %w", set.name, err)
			}
			for i, v := range got {
				sum[i] += v / float64(s.seeds)
			}
		}
		fmt.Printf("%-16s %5d %6d | %5.2f | %5.2f %8.2f %18.2f %14.2f | %5.1f %5.1f %8.1f %4.0f | %s\n", set.name, x.Rows(), x.Cols,
			sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7], sum[8], set.paper)
	}
	return nil
}

// divide is the figures of one random division.
func divide(ctx context.Context, s settings, x *vector.CSR, y []int8, seed uint64) ([]float64, error) {
	fold, err := labels.RandomSplit(x.Rows(), 0.2, seed)
	if err != nil {
		return nil, err
	}
	c, err := chooseSVM(x, y, fold.Train, costs)
	if err != nil {
		return nil, err
	}
	linear := float64(trainSVM(x, y, fold.Train, c).errors(x, y, fold.Test)) / float64(len(fold.Test))
	start := time.Now()
	grid := budget.PaperGrid(x.Cols)
	if s.quick {
		m := x.Cols
		grid.Budgets = []int{max(1, m/100), max(1, 3*m/100), max(1, 9*m/100)}
		grid.Costs = []float64{0.01, 0.1, 5, 20}
	}
	if s.wide {
		grid.Budgets = append(grid.Budgets, 3*x.Cols/10, x.Cols)
	}
	params, _, err := budget.ChooseSBT(ctx, x, y, fold.Train, budget.Params{Seed: seed, BAC: budget.BACParams{Iterations: 200}}, grid, s.workers, nil)
	if err != nil {
		return nil, err
	}
	figures := []float64{100 * linear}
	var first *budget.Model
	for _, change := range []func(*budget.Params){
		func(*budget.Params) {},
		func(p *budget.Params) { p.NoPrune = true },
		func(p *budget.Params) { p.NoLookAhead = true },
		func(p *budget.Params) { p.MaxDepth = 1 },
	} {
		p := params
		change(&p)
		m, err := budget.TrainSBT(ctx, x, y, fold.Train, p, s.workers, nil)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = m
		}
		figures = append(figures, 100*sbtError(m, x, y, fold.Test))
	}
	st := first.Stats()
	return append(figures, float64(st.Nodes), float64(st.Depth), float64(st.Features), time.Since(start).Seconds()), nil
}

// runCurve prints figure 5: errors against the number of selected features.
func runCurve(ctx context.Context, s settings) error {
	for _, set := range binarySets {
		if !s.only.MatchString(set.name) {
			continue
		}
		x, y, err := loadBinary(s, set.name)
		if errors.Is(err, errSkipped) {
			fmt.Println(err)
			continue
		}
		if err != nil {
			return err
		}
		if set.normalize != nil {
			set.normalize(x)
		}
		fmt.Println(set.name, "B: features and error of the tree, of one node")
		for _, b := range []int{2, 5, 10, 20, 50, 100, 200} {
			var sum [4]float64
			for seed := range s.seeds {
				fold, err := labels.RandomSplit(x.Rows(), 0.2, uint64(seed))
				if err != nil {
					return err
				}
				for i, depth := range []int{0, 1} {
					p := budget.Params{BAC: budget.BACParams{Budget: b}, MaxDepth: depth, Seed: uint64(seed)}
					m, err := budget.TrainSBT(ctx, x, y, fold.Train, p, s.workers, nil)
					if err != nil {
						return err
					}
					sum[2*i] += float64(m.Stats().Features) / float64(s.seeds)
					sum[2*i+1] += 100 * sbtError(m, x, y, fold.Test) / float64(s.seeds)
				}
			}
			fmt.Printf("%4d: %7.1f %6.2f  %7.1f %6.2f\n", b, sum[0], sum[1], sum[2], sum[3])
		}
	}
	return nil
}
