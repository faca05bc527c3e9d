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
	err := eachBlock(ctx, len(out), workers, progress, func() func(lo, hi int) (int, error) {
		p := NewPredictor()
		var found []labels.Ranked
		return func(lo, hi int) (int, error) {
			return p.block(ctx, v, queries, lo, hi, params, scoreFilterFor(params), func(i int) {
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

// PredictRows predicts labels for every row of queries on one goroutine, and calls each with
// the results of Predict, in the order of the rows. A result is valid until each returns;
// during the call Set, AppendSet and NoEvidence refer to that row. PredictRows is much faster than Predict
// row by row, since the rows share reading the index and the feature–label matrix. Errors:
// those of Predict, with the number of the row or, if it is unknown, of an earlier one; each
// may have been called for some of the rows before it.
func (p *Predictor) PredictRows(ctx context.Context, v *View, queries *vector.CSR,
	params *Params, each func(i int, found []labels.Ranked)) (int, error) {
	var found []labels.Ranked
	for lo := 0; lo < queries.Rows(); lo += batchRows {
		hi := min(lo+batchRows, queries.Rows())
		at, err := p.block(ctx, v, queries, lo, hi, params, scoreFilterFor(params), func(i int) {
			found = p.choose(found[:0])
			each(i, found)
		})
		if err != nil {
			return at, err
		}
	}
	return queries.Rows(), nil
}

// ScoreBatch returns the scores of all candidate labels of every query, N × L, by which
// thresholds and rankings are evaluated. Otherwise it is like PredictBatch.
func ScoreBatch(ctx context.Context, v *View, queries *vector.CSR, params *Params,
	workers int, progress func(done, total int)) (*vector.CSR, error) {
	rows := make([]vector.Sparse, queries.Rows())
	err := eachBlock(ctx, len(rows), workers, progress, func() func(lo, hi int) (int, error) {
		p := NewPredictor()
		return func(lo, hi int) (int, error) {
			return p.block(ctx, v, queries, lo, hi, params, allScores, func(i int) {
				rows[i] = vector.Sparse{Index: slices.Clone(p.scores.Index),
					Value: slices.Clone(p.scores.Value)}
			})
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

// stack concatenates rows into a matrix and empties them.
func stack(rows []vector.Sparse, cols int) *vector.CSR {
	n := 0
	for _, r := range rows {
		n += r.Len()
	}
	m := &vector.CSR{Ptr: make([]uint64, 1, len(rows)+1), Index: make([]uint32, 0, n),
		Value: make([]float32, 0, n), Cols: cols}
	for i, r := range rows {
		m.Index = append(m.Index, r.Index...)
		m.Value = append(m.Value, r.Value...)
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
		rows[i] = vector.Sparse{} // free its memory for the next rows
	}
	return m
}

// eachRow is eachBlock for work on single rows.
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

// batchRows is the number of rows in one task of a worker: enough for searches and feature
// scores of many queries at once.
const batchRows = groupQueries

// eachBlock calls a goroutine's function for blocks of rows lo to hi. workers < 1 means all
// processors. prepare returns the function. progress, which may be nil, is called by one
// goroutine at a time with growing done. Errors: that of the first block that fails, with the
// row that the function returns; the context's.
func eachBlock(ctx context.Context, n, workers int, progress func(done, total int),
	prepare func() func(lo, hi int) (int, error)) error {
	// Divide the blocks evenly.
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
		return fmt.Errorf("lcif: %w", err)
	}
	return nil
}
