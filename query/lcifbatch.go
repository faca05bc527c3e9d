package query

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// PredictBatch predicts labels for every row of queries on the given number of
// goroutines (fewer than 1: all processors). Element i is what Predict finds
// for row i and does not depend on the number of goroutines. progress may be
// nil. Errors: those of Predict for the first query that fails, with its
// number; then there are no predictions.
func PredictBatch(ctx context.Context, v *LCIFView, queries *vector.CSR, params *LCIFParams, workers int, progress func(done, total int)) ([][]labels.Ranked, error) {
	out := make([][]labels.Ranked, queries.Rows())
	err := eachRow(ctx, len(out), workers, progress, func() func(i int) error {
		p := NewPredictor()
		var found []labels.Ranked
		return func(i int) (err error) {
			if found, _, err = p.Predict(ctx, v, row(queries, i), params, found[:0]); err == nil {
				out[i] = append([]labels.Ranked(nil), found...)
			}
			return err
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ScoreBatch is the scores of all candidate labels of every query, N × L: what
// thresholds and rankings are evaluated on. The rest is as for PredictBatch.
func ScoreBatch(ctx context.Context, v *LCIFView, queries *vector.CSR, params *LCIFParams, workers int, progress func(done, total int)) (*vector.CSR, error) {
	rows := make([]vector.Sparse, queries.Rows())
	err := eachRow(ctx, len(rows), workers, progress, func() func(i int) error {
		p := NewPredictor()
		return func(i int) error {
			s, _, err := p.Scores(ctx, v, row(queries, i), params)
			rows[i] = vector.Sparse{Index: append([]uint32(nil), s.Index...), Value: append([]float32(nil), s.Value...)}
			return err
		}
	})
	if err != nil {
		return nil, err
	}
	return stack(rows, v.Labels.Labels()), nil
}

// row is a row of queries; without values every feature is one.
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

// stack makes a matrix of rows.
func stack(rows []vector.Sparse, cols int) *vector.CSR {
	n := 0
	for _, r := range rows {
		n += r.Len()
	}
	m := &vector.CSR{Ptr: make([]uint64, 1, len(rows)+1), Index: make([]uint32, 0, n), Value: make([]float32, 0, n), Cols: cols}
	for _, r := range rows {
		m.Index = append(m.Index, r.Index...)
		m.Value = append(m.Value, r.Value...)
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	}
	return m
}

// eachRow calls a worker's function for every row on some goroutines (fewer
// than 1: all processors). make prepares a worker. progress, which may be nil,
// is called by one goroutine at a time with growing done. Errors: that of the
// first row that fails, with its number.
func eachRow(ctx context.Context, n, workers int, progress func(done, total int), prepare func() func(i int) error) error {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		next   atomic.Int64
		mu     sync.Mutex
		failed = n // the first row that failed
		cause  error
		done   int
		wg     sync.WaitGroup
	)
	stop := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return cause != nil
	}
	const block = 16
	for range min(workers, (n+block-1)/block) {
		wg.Go(func() {
			work := prepare()
			for !stop() {
				lo := int(next.Add(block)) - block
				if lo >= n {
					return
				}
				hi := min(lo+block, n)
				for i := lo; i < hi; i++ {
					err := ctx.Err()
					if err == nil {
						err = work(i)
					}
					if err != nil {
						mu.Lock()
						if i < failed {
							failed, cause = i, err
						}
						mu.Unlock()
						return
					}
				}
				mu.Lock()
				done += hi - lo
				if progress != nil {
					progress(done, n)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if cause != nil {
		return fmt.Errorf("query: row %d: %w", failed, cause)
	}
	return nil
}
