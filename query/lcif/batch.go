package lcif

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

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

// taskRows is the largest number of rows in one task of a worker.
const taskRows = 256

// eachRow calls a goroutine's function, which prepare returns, for rows 0 to n−1. workers < 1
// means all processors. progress, which may be nil, is called by one goroutine at a time with
// growing done. Errors: that of the first row that fails, and the context's.
func eachRow(ctx context.Context, n, workers int, progress func(done, total int),
	prepare func() func(i int) error) error {
	workers = par.Workers(workers)
	grain := min(max(1, n/(4*workers)), taskRows)
	work := par.Work{N: n, Grain: grain, Workers: workers, Progress: progress}
	if err := par.Items(ctx, work, prepare); err != nil {
		return fmt.Errorf("lcif: %w", err)
	}
	return nil
}
