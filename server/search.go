package server

import (
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// search answers with the rows nearest to a query, or to each of several.
func search(c *call) (any, error) {
	var in wire.Search
	if err := c.decodeQuery(&in.Query, &in); err != nil {
		return nil, err
	}
	queries, o, err := in.Get()
	if err != nil {
		return nil, err
	}
	form := func(r *db.Result) *wire.Result { return wire.NewResult(r, in.Stats) }
	if in.Queries != nil {
		found, err := c.coll.SearchBatch(c.ctx, queries, o)
		return wire.NewBatch(found, form), err
	}
	found, err := c.coll.Search(c.ctx, queries[0], o)
	return form(&found), err
}

// predict answers with the labels of a query, or of each of several.
func predict(c *call) (any, error) {
	var in wire.Predict
	if err := c.decodeQuery(&in.Query, &in); err != nil {
		return nil, err
	}
	queries, o, err := in.Get()
	if err != nil {
		return nil, err
	}
	form := func(p *db.Predictions) *db.Predictions { return wire.NewPredictions(p, in.Stats) }
	if in.Queries != nil {
		found, err := c.coll.PredictBatch(c.ctx, queries, o)
		return wire.NewBatch(found, form), err
	}
	found, err := c.coll.Predict(c.ctx, queries[0], o)
	return form(&found), err
}
