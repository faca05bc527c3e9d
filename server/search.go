package server

import (
	"net/http"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// search answers with the rows nearest to a query, or to each of several.
func search(c *call) error {
	var in wire.Search
	if err := c.decodeQuery(&in.Query, &in); err != nil {
		return err
	}
	queries, o, err := in.Get()
	if err != nil {
		return err
	}
	return answerQueries(c, in.Queries != nil,
		func() (db.Result, error) { return c.coll.Search(c.ctx, queries[0], o) },
		func() ([]db.Result, error) { return c.coll.SearchBatch(c.ctx, queries, o) },
		func(r *db.Result) *wire.Result { return wire.NewResult(r, in.Stats) })
}

// predict answers with the labels of a query, or of each of several.
func predict(c *call) error {
	var in wire.Predict
	if err := c.decodeQuery(&in.Query, &in); err != nil {
		return err
	}
	queries, o, err := in.Get()
	if err != nil {
		return err
	}
	return answerQueries(c, in.Queries != nil,
		func() (db.Predictions, error) { return c.coll.Predict(c.ctx, queries[0], o) },
		func() ([]db.Predictions, error) { return c.coll.PredictBatch(c.ctx, queries, o) },
		func(p *db.Predictions) *wire.Predictions { return wire.NewPredictions(p, in.Stats) })
}

// answerQueries answers with the result of the only query, or with those of a batch.
func answerQueries[Result, Form any](
	c *call, batch bool, one func() (Result, error), all func() ([]Result, error), form func(*Result) *Form,
) error {
	if !batch {
		found, err := one()
		if err != nil {
			return err
		}
		c.answer(http.StatusOK, form(&found))
		return nil
	}
	found, err := all()
	if err != nil {
		return err
	}
	out := wire.Batch[Form]{Results: make([]Form, len(found))}
	for i := range found {
		out.Results[i] = *form(&found[i])
	}
	c.answer(http.StatusOK, out)
	return nil
}
