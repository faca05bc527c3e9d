// Package dbtest has what tests that use the public API of db share: databases, calls that return
// several values, comparisons with exhaustive computations, and damage to files.
package dbtest

import (
	"context"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/trace"
)

// TB is a test, or a run of a property by rapid.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Must ends a test that has got an error.
func Must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Create is DB.Create without the handle.
func Create(ctx context.Context, d *db.DB, name string, s db.Schema) error {
	_, err := d.Create(ctx, name, s)
	return err
}

// Builds makes an index.
func Builds(t TB, d *db.DB, coll, name string, o index.Options) {
	t.Helper()
	_, err := d.Collection(coll).Build(context.Background(), name, o, nil)
	Must(t, err)
}

// Nearest is Collection.Search for k rows.
func Nearest(
	ctx context.Context, c db.Collection, q db.Query, k int, o *db.SearchOptions,
) ([]db.Hit, trace.SearchStats, error) {
	var with db.SearchOptions
	if o != nil {
		with = *o
	}
	with.K = k
	res, err := c.Search(ctx, q, &with)
	return res.Hits, res.Stats, err
}

// NearestBatch is Collection.SearchBatch with vectors.
func NearestBatch(
	ctx context.Context, c db.Collection, vectors [][]float32, k int, o *db.SearchOptions, workers int,
) ([][]db.Hit, error) {
	var with db.SearchOptions
	if o != nil {
		with = *o
	}
	with.K, with.Workers = k, workers
	queries := make([]db.Query, len(vectors))
	for i, v := range vectors {
		queries[i].Vector = v
	}
	found, err := c.SearchBatch(ctx, queries, &with)
	if err != nil {
		return nil, err
	}
	hits := make([][]db.Hit, len(found))
	for i, r := range found {
		hits[i] = r.Hits
	}
	return hits, nil
}

// Predict is Collection.Predict.
func Predict(
	ctx context.Context, c db.Collection, q db.Query, o *db.PredictOptions,
) ([]db.Prediction, trace.PredictStats, error) {
	out, err := c.Predict(ctx, q, o)
	return out.Labels, out.Stats, err
}

// PredictBatch is Collection.PredictBatch.
func PredictBatch(
	ctx context.Context, c db.Collection, queries []db.Query, o *db.PredictOptions, workers int,
) ([][]db.Prediction, error) {
	var with db.PredictOptions
	if o != nil {
		with = *o
	}
	with.Workers = workers
	found, err := c.PredictBatch(ctx, queries, &with)
	if err != nil {
		return nil, err
	}
	out := make([][]db.Prediction, len(found))
	for i, p := range found {
		out[i] = p.Labels
	}
	return out, nil
}

// TreePath is the explanation of a prediction by a budgeted tree.
func TreePath(ctx context.Context, c db.Collection, q db.Query, index string) (*explain.Reason, error) {
	out, err := c.Predict(ctx, q, &db.PredictOptions{Index: index, Explain: true})
	return out.Why, err
}

// Evidence returns the rows and the features of a reason.
func Evidence(why *explain.Reason) (rows, features []explain.Reason) {
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

// Progress is a report of a long call.
type Progress struct {
	Stage       string
	Done, Total int
}

// Reporting is a db.Run with reports as structs.
func Reporting(f func(Progress)) *db.Run {
	return &db.Run{Progress: func(stage string, done, total int) { f(Progress{stage, done, total}) }}
}
