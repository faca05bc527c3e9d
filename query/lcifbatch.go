package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/internal/par"
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
	err := eachBlock(ctx, len(out), workers, progress, func() func(lo, hi int) (int, error) {
		p := NewPredictor()
		var found []labels.Ranked
		return func(lo, hi int) (int, error) {
			return p.block(ctx, v, queries, lo, hi, params, wantedFor(params), func(i int) {
				found = p.choose(found[:0])
				out[i] = slices.Clone(found)
			})
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PredictRows predicts labels for every row of queries, one goroutine, and calls
// each with what Predict finds for them, in their order; it holds until each
// returns, and Set and AppendSet are about that row then. Much faster than
// Predict row by row, since the rows share reading the index and the
// feature–label matrix. Errors: those of Predict, with the row or, if it is not
// known, one before it; each was called for some of the rows before.
func (p *Predictor) PredictRows(ctx context.Context, v *LCIFView, queries *vector.CSR, params *LCIFParams, each func(i int, found []labels.Ranked)) (int, error) {
	var found []labels.Ranked
	for lo := 0; lo < queries.Rows(); lo += batchRows {
		hi := min(lo+batchRows, queries.Rows())
		at, err := p.block(ctx, v, queries, lo, hi, params, wantedFor(params), func(i int) {
			found = p.choose(found[:0])
			each(i, found)
		})
		if err != nil {
			return at, err
		}
	}
	return queries.Rows(), nil
}

// ScoreBatch is the scores of all candidate labels of every query, N × L: what
// thresholds and rankings are evaluated on. The rest is as for PredictBatch.
func ScoreBatch(ctx context.Context, v *LCIFView, queries *vector.CSR, params *LCIFParams, workers int, progress func(done, total int)) (*vector.CSR, error) {
	rows := make([]vector.Sparse, queries.Rows())
	err := eachBlock(ctx, len(rows), workers, progress, func() func(lo, hi int) (int, error) {
		p := NewPredictor()
		return func(lo, hi int) (int, error) {
			return p.block(ctx, v, queries, lo, hi, params, everything, func(i int) {
				rows[i] = vector.Sparse{Index: slices.Clone(p.scores.Index), Value: slices.Clone(p.scores.Value)}
			})
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

// stack makes a matrix of rows, which it empties.
func stack(rows []vector.Sparse, cols int) *vector.CSR {
	n := 0
	for _, r := range rows {
		n += r.Len()
	}
	m := &vector.CSR{Ptr: make([]uint64, 1, len(rows)+1), Index: make([]uint32, 0, n), Value: make([]float32, 0, n), Cols: cols}
	for i, r := range rows {
		m.Index = append(m.Index, r.Index...)
		m.Value = append(m.Value, r.Value...)
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
		rows[i] = vector.Sparse{} // its memory may be needed for the next ones
	}
	return m
}

// eachRow is eachBlock for work that looks at rows one by one.
func eachRow(ctx context.Context, n, workers int, prepare func() func(i int)) error {
	return eachBlock(ctx, n, workers, nil, func() func(lo, hi int) (int, error) {
		work := prepare()
		return func(lo, hi int) (int, error) {
			for i := lo; i < hi; i++ {
				work(i)
			}
			return hi, nil
		}
	})
}

// batchRows is how many rows a worker takes at a time: enough for searches and
// feature scores of many queries at once.
const batchRows = groupQueries

// eachBlock calls a goroutine's function for blocks of rows lo to hi, on fewer than
// 1 workers: all processors. prepare makes the function. progress, which may be
// nil, is called by one goroutine at a time with growing done. Errors: that of the
// first block that fails, with the row that the function returns; the context's.
func eachBlock(ctx context.Context, n, workers int, progress func(done, total int), prepare func() func(lo, hi int) (int, error)) error {
	// Blocks are shared evenly.
	workers = par.Workers(workers)
	rounds := max(1, (n+workers*batchRows-1)/(workers*batchRows))
	size := (n + workers*rounds - 1) / (workers * rounds)
	work := par.Work{N: n, Grain: size, Workers: workers, Progress: progress}
	err := par.Ranges(ctx, work, func() func(lo, hi int) error {
		block := prepare()
		return func(lo, hi int) error {
			at, err := block(lo, hi)
			if err != nil {
				err = fmt.Errorf("row %d: %w", at, err)
			}
			return err
		}
	})
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}
