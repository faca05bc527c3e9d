package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// batchQueries is the largest number of queries that are predicted together.
const batchQueries = 512

// PredictBatch predicts the labels of many queries in one state, in parallel. Element
// i is what Predict returns for queries[i], but for the counts in Stats. Models of kind lcif are
// much faster than in many calls, except for explained queries. Errors name the first query that
// failed.
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
	workers := par.Workers(o.Workers)
	out := make([]Predictions, len(queries))
	rounds := max(1, (len(queries)+workers*batchQueries-1)/(workers*batchQueries))
	size := max(1, (len(queries)+workers*rounds-1)/(workers*rounds))
	work := par.Work{N: len(queries), Grain: size, Workers: workers}
	err = par.Ranges(ctx, work, func() func(lo, hi int) error {
		return func(lo, hi int) error {
			at := lo
			err := s.read(c.name, func(st *state.Collection) (err error) {
				var i int
				i, err = predictBlock(ctx, st, labelQueries{queries[lo:hi], o, rows}, out[lo:hi])
				at += i
				return err
			})
			return atQuery(at, err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return out, nil
}

// labelQueries are queries with the same options. rows holds the rows that may be neighbors, nil for
// all.
type labelQueries struct {
	queries []Query
	options *PredictOptions
	rows    *roaring.Bitmap
}

// predictBlock predicts the labels of queries on this goroutine: together if that is
// possible and none fails, otherwise one by one. If a query fails, it returns its index.
func predictBlock(
	ctx context.Context, st *state.Collection, b labelQueries, out []Predictions,
) (int, error) {
	if len(b.queries) > 1 && !b.options.Explain {
		if done, err := predictShared(ctx, st, b, out); done && err == nil {
			return 0, nil
		}
	}
	for i, q := range b.queries {
		var err error
		if out[i], err = predictLabels(ctx, st, q, b.options, b.rows); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// predictShared predicts the labels of queries together. done is false if the model does
// not support that.
func predictShared(
	ctx context.Context, st *state.Collection, b labelQueries, out []Predictions,
) (done bool, err error) {
	x, err := labelModel(ctx, st, b.options.Index)
	if err != nil {
		return false, err
	}
	all := kind.ManyQueries{N: len(b.queries), Query: func(i int) (vector.Sparse, error) {
		resolved, err := labelQuery(ctx, st, b.queries[i])
		out[i].Stats.Unknown = resolved.unknown
		return resolved.features, err
	}}
	model := x.Opened.(kind.LabelPredictor)
	ask, err := b.options.ask(model, b.rows)
	if err != nil {
		return false, err
	}
	var names []string // of the predicted labels: all queries share one string
	name := func(label uint32) string {
		if names == nil {
			names = make([]string, model.Labels())
		}
		if names[label] == "" {
			names[label] = model.Label(label)
		}
		return names[label]
	}
	var room []Prediction // shared by the predictions of several queries
	done, err = model.PredictMany(ctx, all, &ask, func(i int, a kind.LabelAnswer) {
		out[i].NoEvidence = a.Stats.NoEvidence
		at := len(room)
		room = named(room, name, a.Labels)
		if n := len(room); n > at {
			out[i].Labels = room[at:n:n]
		}
		if cap(room)-len(room) < len(a.Labels) {
			room = make([]Prediction, 0, max(len(b.queries), 4*len(a.Labels)))
		}
	})
	if !done || err != nil || !b.options.Frequent {
		return done, err
	}
	var frequent []Prediction
	for i := range out {
		if !out[i].NoEvidence {
			continue
		}
		if frequent == nil {
			if frequent, err = frequentLabels(st, b.options); err != nil {
				return true, err
			}
		}
		out[i].Labels = slices.Clone(frequent)
	}
	return true, nil
}
