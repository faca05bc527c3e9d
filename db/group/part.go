package group

import (
	"context"
	"errors"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/grouped"
)

// Part is one of the collections of a Group, in one state. All questions and answers are plain data,
// except for functions of filters (filter.Func, db.Collection.RowFilter), so that a part may be
// elsewhere. Calls come from several goroutines at once.
type Part interface {
	// Info describes the collection.
	Info(ctx context.Context) (db.CollectionInfo, error)
	// Terms counts the rows that have the terms of a query, in a collection of texts. Only ask.Stored is
	// set.
	Terms(ctx context.Context, q db.Query, ask *Ask) (Terms, error)
	// Search finds the best o.K rows by each part of a query, all within the radius if K is zero, in any
	// order. The query has no key, and the options no After.
	Search(ctx context.Context, q db.Query, o *db.SearchOptions, ask *Ask) (Answer, error)
	// Model describes a label model, the default one without a name. Sums returns what a version of it knows
	// of features, and Evidence what that of the options says of a query besides: the options have Params,
	// the query has no key.
	Model(ctx context.Context, index string) (Model, error)
	Sums(ctx context.Context, index string, version uint64, features []Feature) ([]Sums, error)
	Evidence(ctx context.Context, q db.Query, o *db.PredictOptions, ask *Ask) (Evidence, error)
	// Predict predicts by a model alone (Model.Alone).
	Predict(ctx context.Context, q db.Query, o *db.PredictOptions, ask *Ask) (db.Predictions, error)
	// Rows returns the rows that have the keys, without the others.
	Rows(ctx context.Context, keys [][]byte) ([]db.Row, error)
	// Count and Labels are those of db.Collection.
	Count(ctx context.Context, f *filter.Filter) (int, error)
	Labels(ctx context.Context) (map[string]int, error)
}

// Ask is what a search asks of a part besides the query and the options, Terms the statistics of the
// terms of a query, Found what orders a hit among those of other parts. The others are those of label
// models of kind lcif. They have the names of their fields in JSON.
type (
	Ask      = grouped.Ask
	Terms    = grouped.Terms
	Found    = grouped.Found
	Model    = grouped.Model
	Evidence = grouped.Evidence
	Feature  = grouped.Feature
	Sums     = grouped.Sums
)

// Answer is the answer of a part to a search.
type Answer struct {
	db.Result
	Found []Found // of each hit
	// Full is set if the hits have what the options include. Otherwise the group reads the rows of those
	// that it returns.
	Full bool
}

// Of returns a collection as a part of a group, in the state that the handle sees: make it from a
// snapshot.
func Of(c db.Collection) Part { return local{c} }

// local is a collection of this process.
type local struct{ db.Collection }

func (l local) Info(context.Context) (db.CollectionInfo, error) { return l.Collection.Info() }

func (l local) Terms(ctx context.Context, q db.Query, ask *Ask) (Terms, error) {
	return grouped.CountTerms(ctx, l.Collection, q, ask)
}

func (l local) Search(ctx context.Context, q db.Query, o *db.SearchOptions, ask *Ask) (a Answer, err error) {
	bare := *o
	bare.Include, bare.Reuse = 0, nil
	a.Found, err = grouped.Search(ctx, l.Collection, q, &bare, ask, &a.Result)
	a.Full = o.Include == 0
	return a, err
}

func (l local) Model(ctx context.Context, index string) (Model, error) {
	return grouped.OpenModel(ctx, l.Collection, index)
}

func (l local) Sums(ctx context.Context, index string, version uint64, features []Feature) ([]Sums, error) {
	return grouped.FindSums(ctx, l.Collection, index, version, features)
}

func (l local) Evidence(
	ctx context.Context, q db.Query, o *db.PredictOptions, ask *Ask,
) (Evidence, error) {
	return grouped.FindEvidence(ctx, l.Collection, q, o, ask)
}

func (l local) Predict(
	ctx context.Context, q db.Query, o *db.PredictOptions, ask *Ask,
) (out db.Predictions, err error) {
	return out, grouped.Predict(ctx, l.Collection, q, o, ask, &out)
}

func (l local) Rows(ctx context.Context, keys [][]byte) (rows []db.Row, err error) {
	for _, key := range keys {
		r, err := l.Get(key)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, db.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (l local) Labels(context.Context) (map[string]int, error) { return l.Collection.Labels() }
