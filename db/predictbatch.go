package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// batchQueries is the largest number of queries that are predicted together.
const batchQueries = 512

// PredictBatch predicts the labels of many queries on the given number of goroutines (all
// processors when zero). Element i of the result is what Predict returns for queries[i]. Label
// models of kind lcif read their index and their feature–label similarities once for many
// queries, so one call with many queries is much faster than many calls. Explained predictions
// are computed one by one.
//
// Errors: those of Predict, with the number of the first query that failed.
func (s *Snapshot) PredictBatch(
	ctx context.Context, coll string, queries []SparseQuery, o *PredictOptions, workers int,
) ([][]Prediction, error) {
	if o == nil {
		o = &PredictOptions{}
	}
	workers = par.Workers(workers)
	out := make([][]Prediction, len(queries))
	rounds := max(1, (len(queries)+workers*batchQueries-1)/(workers*batchQueries))
	size := max(1, (len(queries)+workers*rounds-1)/(workers*rounds))
	work := par.Work{N: len(queries), Grain: size, Workers: workers}
	err := par.Ranges(ctx, work, func() func(lo, hi int) error {
		return func(lo, hi int) error {
			i, err := s.predictBlock(ctx, coll, queries[lo:hi], o, out[lo:hi])
			return atQuery(lo+i, err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return out, nil
}

// predictBlock predicts the labels of queries on this goroutine: together if that is
// possible and none fails, otherwise one by one. If a query fails, it returns its index.
func (s *Snapshot) predictBlock(
	ctx context.Context, coll string, queries []SparseQuery, o *PredictOptions, out [][]Prediction,
) (int, error) {
	if len(queries) > 1 && !o.Explain {
		if done, err := s.predictShared(ctx, coll, queries, o, out); done && err == nil {
			return 0, nil
		}
	}
	for i, q := range queries {
		var err error
		if out[i], _, err = s.Predict(ctx, coll, q, o); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// predictShared predicts the labels of queries together. done is false if the model does
// not support that.
func (s *Snapshot) predictShared(
	ctx context.Context, coll string, queries []SparseQuery, o *PredictOptions, out [][]Prediction,
) (done bool, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if err := checkStrategy(o.Strategy); err != nil {
		return false, err
	}
	_, x, err := s.asked(ctx, coll, queries[0], o.Index)
	if err != nil {
		return false, err
	}
	st, err := s.collection(coll)
	if err != nil {
		return false, err
	}
	all := manyQueries{len(queries), func(i int) (vector.Sparse, error) {
		asked, err := st.labelQuery(ctx, queries[i])
		return asked.features, err
	}}
	return x.open.(labelPredictor).predictMany(ctx, all, o, out)
}
