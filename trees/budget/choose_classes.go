package budget

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// ChooseMulticlass finds the budget and the cost with which trees one against
// the rest have the fewest errors in cross-validation. class has that of each
// row of x, below n. A class with rows in the test part of a fold only is never
// predicted there. See ChooseSBT, which is for two classes.
//
// Errors: those of TrainMulticlass and ChooseSBT.
func ChooseMulticlass(ctx context.Context, x *vector.CSR, class []uint32, n int, rows []int, params Params, grid Grid, workers int, progress func(done, total int)) (Params, []Trial, error) {
	if err := checkMatrix(x); err != nil {
		return params, nil, err
	}
	if len(class) != x.Rows() {
		return params, nil, fmt.Errorf("%w: %d classes for %d rows", ErrInput, len(class), x.Rows())
	}
	chosen, err := checkRows(x.Rows(), rows)
	if err != nil {
		return params, nil, err
	}
	for _, r := range chosen {
		if int(class[r]) >= n {
			return params, nil, fmt.Errorf("%w: class %d of %d in row %d", ErrInput, class[r], n, r)
		}
	}
	fit := func(p Params, fold labels.Fold, _ []float32) ([]float64, error) {
		m, known, err := trainClasses(ctx, x, class, n, fold.Train, p, workers)
		if err != nil {
			return nil, err
		}
		pred := NewPredictor(NewIndex(m))
		right := 0
		for _, r := range fold.Test {
			if c, _ := pred.Class(x.Row(r)); known[c] == class[r] {
				right++
			}
		}
		return []float64{float64(right) / float64(len(fold.Test))}, nil
	}
	grid.Thresholds, grid.Positives = nil, nil
	return grid.run(ctx, chosen, params, progress, fit)
}

// trainClasses trains trees for those classes that the rows have; known lists
// them by their number in the model.
func trainClasses(ctx context.Context, x *vector.CSR, class []uint32, n int, rows []int, p Params, workers int) (m *Model, known []uint32, err error) {
	count := make([]int, n)
	for _, r := range rows {
		count[class[r]]++
	}
	number := make([]uint32, n)
	for c := range count {
		if count[c] > 0 {
			number[c] = uint32(len(known))
			known = append(known, uint32(c))
		}
	}
	compact := make([]uint32, len(class))
	sign := make([]int8, len(class))
	for _, r := range rows {
		compact[r] = number[class[r]]
		sign[r] = int8(2*int(compact[r]) - 1) // with two classes
	}
	switch len(known) {
	case 1:
		return nil, nil, ErrOneClass
	case 2:
		m, err = TrainSBT(ctx, x, sign, rows, p, workers, nil)
	default:
		m, err = TrainMulticlass(ctx, x, compact, len(known), rows, p, workers, nil)
	}
	return m, known, err
}
