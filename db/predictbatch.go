package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// batchQueries is the most queries that are predicted together.
const batchQueries = 512

// PredictBatch predicts the labels of many queries on the given number of
// goroutines (all processors when zero). Element i is what Predict finds for
// queries[i]. Label models of kind lcif read their index and their feature–label
// similarities once for many queries, so one call with many is much faster than
// many calls; explained predictions are made one by one.
//
// Errors: those of Predict, with the number of the first query that failed.
func (s *Snapshot) PredictBatch(ctx context.Context, coll string, queries []SparseQuery, o *PredictOptions, workers int) ([][]Prediction, error) {
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

// predictBlock predicts the labels of queries on this goroutine: together if that
// is possible and none fails, else one by one. It returns the number of the query
// that failed.
func (s *Snapshot) predictBlock(ctx context.Context, coll string, queries []SparseQuery, o *PredictOptions, out [][]Prediction) (int, error) {
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

// predictShared predicts the labels of queries together; false if the model is
// of no such kind.
func (s *Snapshot) predictShared(ctx context.Context, coll string, queries []SparseQuery, o *PredictOptions, out [][]Prediction) (done bool, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if err := checkStrategy(o.Strategy); err != nil {
		return false, err
	}
	st, _, state, err := s.asked(ctx, coll, queries[0], o.Index)
	if err != nil || state.tree != nil || o.Strategy != postings.Auto && !st.c.Sparse {
		return false, err
	}
	m := state.model
	sc := predictors.Get().(*predictScratch) // not given back if there is an error
	sc.p.SetStrategy(o.Strategy)
	rows := &sc.rows
	rows.Ptr, rows.Index, rows.Value, rows.Cols = append(rows.Ptr[:0], 0), rows.Index[:0], append(rows.Value[:0], 0)[:0], 0
	for _, q := range queries {
		asked, err := st.labelQuery(ctx, q)
		if err != nil {
			return true, err
		}
		at := len(rows.Index)
		if m.scale != nil {
			asked.features = m.prepare(asked.features)
		}
		rows.Append(asked.features)
		if m.idf != nil {
			weigh(vector.Sparse{Index: rows.Index[at:], Value: rows.Value[at:]}, m.idf)
		}
	}
	p := m.asked(o)
	names := make([]string, m.view.Labels.Labels()) // of the labels predicted: each is one string
	name := func(label uint32) string {
		if names[label] == "" {
			names[label] = m.name(label)
		}
		return names[label]
	}
	var room []Prediction // for those of several queries
	_, err = sc.p.PredictRows(ctx, m.view, rows, &p, func(i int, found []labels.Ranked) {
		sc.found = append(sc.found[:0], found...)
		at := len(room)
		room = sc.predictions(room, name, &p, o)
		if n := len(room); n > at {
			out[i] = room[at:n:n]
		}
		if cap(room)-len(room) < len(found) {
			room = make([]Prediction, 0, max(len(queries), 4*len(found)))
		}
	})
	if err != nil {
		return true, err
	}
	predictors.Put(sc)
	return true, nil
}
