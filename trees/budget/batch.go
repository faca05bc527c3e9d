package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// batchRows is how many rows a worker takes at a time.
const batchRows = 256

// PredictSets is the label sets that a PT or AT answers for all rows of x, in
// their order, with workers goroutines; less than 1 means all processors.
//
// Errors: ErrParams for an SBT, and the context's.
func PredictSets(ctx context.Context, m *Model, x *vector.CSR, workers int) (*labels.Matrix, error) {
	if m.Kind == SBT {
		return nil, fmt.Errorf("%w: an SBT has no label sets", ErrParams)
	}
	index := NewIndex(m)
	sets := make([][]uint32, x.Rows())
	err := forRows(ctx, x.Rows(), workers, func() func(int) {
		p := NewPredictor(index)
		return func(i int) { sets[i] = slices.Clone(p.Set(x.Row(i))) }
	})
	if err != nil {
		return nil, fmt.Errorf("budget: predict: %w", err)
	}
	rows := vector.CSR{Ptr: make([]uint64, 1, len(sets)+1), Cols: m.Labels}
	for _, s := range sets {
		rows.Append(vector.Sparse{Index: s})
	}
	return labels.NewMatrix(rows)
}

// forRows calls a function for every row number below n. Every goroutine calls start once and
// then the function that start returns.
func forRows(ctx context.Context, n, workers int, start func() func(int)) error {
	work := par.Work{N: n, Grain: batchRows, Workers: workers}
	return par.Ranges(ctx, work, func() func(lo, hi int) error {
		f := start()
		return func(lo, hi int) error {
			for i := lo; i < hi; i++ {
				f(i)
			}
			return nil
		}
	})
}
