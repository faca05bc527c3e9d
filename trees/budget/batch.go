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
	err := par.Items(ctx, batchOf(x.Rows(), workers), func() func(int) error {
		p := NewPredictor(index)
		return func(i int) error {
			sets[i] = slices.Clone(p.Set(x.Row(i)))
			return nil
		}
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

// batchOf is the loop over n rows.
func batchOf(n, workers int) par.Work { return par.Work{N: n, Grain: batchRows, Workers: workers} }
