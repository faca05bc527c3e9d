package db

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/internal/par"
)

// batchQueries is the largest number of queries that a goroutine takes at a time.
const batchQueries = 512

// PredictBatch predicts the labels of many queries in one state, in parallel. Element
// i is what Predict returns for queries[i]. Errors name the first query that failed.
func (c Collection) PredictBatch(
	ctx context.Context, queries []Query, o *PredictOptions,
) ([]Predictions, error) {
	if o == nil {
		o = &PredictOptions{}
	}
	s, err := c.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer c.letGo(s)
	var rows *roaring.Bitmap
	err = s.read(c.name, func(st *state.Collection) (err error) {
		rows, err = decidedRows(ctx, st, o.Where)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Predictions, len(queries))
	workers := par.Workers(o.Workers)
	work := par.Work{N: len(queries), Grain: min(max(1, len(queries)/(4*workers)), batchQueries),
		Workers: workers}
	err = par.Ranges(ctx, work, func() func(lo, hi int) error {
		return func(lo, hi int) error {
			return s.read(c.name, func(st *state.Collection) error {
				for i := lo; i < hi; i++ {
					var err error
					if out[i], err = predictLabels(ctx, st, queries[i], o, rows); err != nil {
						return atQuery(i, err)
					}
				}
				return nil
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return out, nil
}
