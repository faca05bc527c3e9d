package lcif

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// PredictBatch predicts labels for every row of queries on the given number of goroutines
// (fewer than 1: all processors). Element i is the result of Predict for row i and does not
// depend on the number of goroutines. progress may be nil. Errors: those of Predict for the
// first query that fails, with its number; then there are no predictions.
func PredictBatch(ctx context.Context, v *View, queries *vector.CSR, params *Params,
	workers int, progress func(done, total int)) ([][]labels.Ranked, error) {
	out := make([][]labels.Ranked, queries.Rows())
	err := eachRow(ctx, len(out), workers, progress, func() func(int) error {
		p := NewPredictor()
		return func(i int) (err error) {
			out[i], _, err = p.Predict(ctx, v, row(queries, i), params, nil)
			return err
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ScoreBatch returns the scores of all candidate labels of every query, N × L, by which
// thresholds and rankings are evaluated. Otherwise it is like PredictBatch.
func ScoreBatch(ctx context.Context, v *View, queries *vector.CSR, params *Params,
	workers int, progress func(done, total int)) (*vector.CSR, error) {
	rows := make([]vector.Sparse, queries.Rows())
	err := eachRow(ctx, len(rows), workers, progress, func() func(int) error {
		p := NewPredictor()
		return func(i int) error {
			err := p.run(ctx, v, row(queries, i), params)
			rows[i] = vector.Sparse{Index: slices.Clone(p.scores.Index), Value: slices.Clone(p.scores.Value)}
			return err
		}
	})
	if err != nil {
		return nil, err
	}
	return stack(rows, v.Labels.Labels()), nil
}

// row returns a row of queries; without values every feature has the value one.
func row(m *vector.CSR, i int) vector.Sparse {
	s := m.Row(i)
	if s.Value == nil {
		s.Value = make([]float32, len(s.Index))
		for j := range s.Value {
			s.Value[j] = 1
		}
	}
	return s
}

// stack concatenates rows into a matrix.
func stack(rows []vector.Sparse, cols int) *vector.CSR {
	n := 0
	for _, r := range rows {
		n += r.Len()
	}
	m := &vector.CSR{Ptr: make([]uint64, 1, len(rows)+1), Index: make([]uint32, 0, n),
		Value: make([]float32, 0, n), Cols: cols}
	for _, r := range rows {
		m.Index = append(m.Index, r.Index...)
		m.Value = append(m.Value, r.Value...)
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	}
	return m
}

// taskRows is the largest number of rows in one task of a worker.
const taskRows = 256

// eachRow calls a goroutine's function, which prepare returns, for rows 0 to n−1. workers < 1
// means all processors. progress, which may be nil, is called by one goroutine at a time with
// growing done. Errors: that of the first row that fails, with its number; the context's.
func eachRow(ctx context.Context, n, workers int, progress func(done, total int),
	prepare func() func(i int) error) error {
	workers = par.Workers(workers)
	grain := min(max(1, n/(4*workers)), taskRows)
	work := par.Work{N: n, Grain: grain, Workers: workers, Progress: progress}
	err := par.Ranges(ctx, work, func() func(lo, hi int) error {
		each := prepare()
		return func(lo, hi int) error {
			for i := lo; i < hi; i++ {
				if err := each(i); err != nil {
					return fmt.Errorf("row %d: %w", i, err)
				}
			}
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("lcif: %w", err)
	}
	return nil
}
