package db

import (
	"context"

	"pgregory.net/rapid"
)

// The functions below call the API and return several values in place of a struct, which reads
// better in tests.

// create is DB.Create without the handle.
func create(ctx context.Context, d *DB, name string, s Schema) error {
	_, err := d.Create(ctx, name, s)
	return err
}

// nearest is Collection.Search for k rows.
func nearest(ctx context.Context, c Collection, q Query, k int, o *SearchOptions) ([]Hit, SearchStats, error) {
	return nearestInto(ctx, c, q, k, o, nil)
}

// nearestInto is nearest in the memory of earlier hits.
func nearestInto(
	ctx context.Context, c Collection, q Query, k int, o *SearchOptions, reuse []Hit,
) ([]Hit, SearchStats, error) {
	var with SearchOptions
	if o != nil {
		with = *o
	}
	with.K, with.Reuse = k, reuse
	res, err := c.Search(ctx, q, &with)
	return res.Hits, res.Stats, err
}

// predict is Collection.Predict.
func predict(ctx context.Context, c Collection, q Query, o *PredictOptions) ([]Prediction, PredictStats, error) {
	out, err := c.Predict(ctx, q, o)
	return out.Labels, out.Stats, err
}

// predictBatch is Collection.PredictBatch.
func predictBatch(
	ctx context.Context, c Collection, queries []Query, o *PredictOptions, workers int,
) ([][]Prediction, error) {
	var with PredictOptions
	if o != nil {
		with = *o
	}
	with.Workers = workers
	found, err := c.PredictBatch(ctx, queries, &with)
	if err != nil {
		return nil, err
	}
	out := make([][]Prediction, len(found))
	for i, p := range found {
		out[i] = p.Labels
	}
	return out, nil
}

// evidence returns the rows and the features of a reason.
func evidence(why *Reason) (rows, features []Reason) {
	for _, part := range why.Parts {
		for _, r := range part.Parts {
			if r.Key != nil {
				rows = append(rows, r)
			} else {
				features = append(features, r)
			}
		}
	}
	return rows, features
}

// progress is a report of a long call.
type progress struct {
	Stage       string
	Done, Total int
}

// reporting is a Run with reports as structs.
func reporting(f func(progress)) *Run {
	return &Run{Progress: func(stage string, done, total int) { f(progress{stage, done, total}) }}
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorsOf runs steps until one fails.
func errorsOf(steps ...func() error) error {
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
