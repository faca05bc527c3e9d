package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/wire"
)

// Collection is a handle of a collection, by name. It sees the latest state at each call, and costs nothing.
type Collection struct {
	f    File
	name string
	path string
}

// Name returns the collection's name.
func (c Collection) Name() string { return c.name }

// Info describes the collection.
func (c Collection) Info(ctx context.Context) (out db.CollectionInfo, err error) {
	err = c.f.c.call(ctx, get(c.path), &out)
	return out, err
}

// Labels returns the number of live rows of each label, as db.Collection.Labels does.
func (c Collection) Labels(ctx context.Context) (map[string]int, error) {
	var out wire.Collection
	err := c.f.c.call(ctx, get(c.path), &out)
	return out.Labels, err
}

// Count returns the number of rows that a filter selects; nil selects all.
func (c Collection) Count(ctx context.Context, f *filter.Filter) (int, error) {
	var out wire.Counted
	err := c.f.c.call(ctx, ask(c.path+"/count", wire.Count{Where: text(f)}), &out)
	return out.Rows, err
}

// text returns the text of a filter, "" of nil.
func text(f *filter.Filter) string {
	if f == nil {
		return ""
	}
	return f.String()
}

// Search finds the rows nearest to the query, as db.Collection.Search does; nil options are the defaults.
func (c Collection) Search(ctx context.Context, q db.Query, o *db.SearchOptions) (db.Result, error) {
	in := wire.NewSearch(cmp.Or(o, &db.SearchOptions{}))
	in.Query = wire.NewQuery(q)
	return fetch(ctx, c.f.c, ask(c.path+"/search", in), (*wire.Result).Get)
}

// SearchBatch searches for many queries in one state. Element i is what Search returns for queries[i].
func (c Collection) SearchBatch(
	ctx context.Context, queries []db.Query, o *db.SearchOptions,
) ([]db.Result, error) {
	in := wire.NewSearch(cmp.Or(o, &db.SearchOptions{}))
	in.Queries = forms(queries)
	return fetch(ctx, c.f.c, ask(c.path+"/search", in), func(out *wire.Results) ([]db.Result, error) {
		return wire.All(out.Results, (*wire.Result).Get)
	})
}

// forms returns the forms of queries.
func forms(queries []db.Query) []wire.Query {
	out := make([]wire.Query, len(queries))
	for i, q := range queries {
		out[i] = wire.NewQuery(q)
	}
	return out
}

// Predict predicts the labels of a query, as db.Collection.Predict does; nil options are the defaults.
func (c Collection) Predict(ctx context.Context, q db.Query, o *db.PredictOptions) (db.Predictions, error) {
	in := wire.NewPredict(cmp.Or(o, &db.PredictOptions{}))
	in.Query = wire.NewQuery(q)
	return fetch(ctx, c.f.c, ask(c.path+"/predict", in), predicted)
}

// PredictBatch predicts the labels of many queries in one state. Element i is what Predict returns for
// queries[i].
func (c Collection) PredictBatch(
	ctx context.Context, queries []db.Query, o *db.PredictOptions,
) ([]db.Predictions, error) {
	in := wire.NewPredict(cmp.Or(o, &db.PredictOptions{}))
	in.Queries = forms(queries)
	list := func(out *wire.PredictionsList) ([]db.Predictions, error) { return wire.All(out.Results, predicted) }
	return fetch(ctx, c.f.c, ask(c.path+"/predict", in), list)
}

// predicted returns predictions as package db does: nil where there are no labels.
func predicted(p *db.Predictions) (db.Predictions, error) {
	if len(p.Labels) == 0 {
		p.Labels = nil
	}
	return *p, nil
}

// SetSchema changes the schema of the collection, as db.Collection.SetSchema does.
func (c Collection) SetSchema(ctx context.Context, schema db.Schema) error {
	in := wire.CollectionChange{Schema: &schema}
	return c.f.c.call(ctx, &request{method: http.MethodPatch, path: c.path, in: in, long: true}, nil)
}

// Indexes describes the indexes of the collection, by name.
func (c Collection) Indexes(ctx context.Context) ([]index.Info, error) {
	var out wire.Indexes
	err := c.f.c.call(ctx, get(c.path+"/indexes"), &out)
	return out.Indexes, err
}

// Build learns an index over the rows of the latest state, as db.Collection.Build does; with nil options the
// collection decides on the kind. Queries for training (index.Forest.TrainingQueries) do not travel. If the
// context ends or the connection breaks, the build is cancelled.
func (c Collection) Build(ctx context.Context, name string, o index.Options) (out index.Info, err error) {
	var in wire.Build
	if o != nil {
		raw, err := json.Marshal(o)
		if err != nil {
			return out, fmt.Errorf("%w: %w", db.ErrInvalid, err)
		}
		in = wire.Build{Kind: o.Name(), Options: raw}
	}
	r := &request{method: http.MethodPost, path: c.indexPath(name), in: in, long: true}
	err = c.f.c.call(ctx, r, &out)
	return out, err
}

// SetDefault makes an index the default one of its purpose, as db.Collection.SetDefault does.
func (c Collection) SetDefault(ctx context.Context, name string) error {
	in := wire.IndexChange{Default: true}
	return c.f.c.call(ctx, &request{method: http.MethodPatch, path: c.indexPath(name), in: in}, nil)
}

// DropIndex removes an index.
func (c Collection) DropIndex(ctx context.Context, name string) error {
	return c.f.c.call(ctx, &request{method: http.MethodDelete, path: c.indexPath(name)}, nil)
}

func (c Collection) indexPath(name string) string {
	return c.path + "/indexes/" + wire.PathKey([]byte(name))
}
