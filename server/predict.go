package server

import (
	"net/http"

	"github.com/anndb/anndb/internal/wire"
)

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
	if in.Queries == nil {
		found, err := c.coll.Predict(c.ctx, queries[0], o)
		if err != nil {
			return err
		}
		c.answer(http.StatusOK, wire.NewPredictions(&found, in.Stats))
		return nil
	}
	found, err := c.coll.PredictBatch(c.ctx, queries, o)
	if err != nil {
		return err
	}
	out := wire.PredictionsList{Results: make([]wire.Predictions, len(found))}
	for i := range found {
		out.Results[i] = *wire.NewPredictions(&found[i], in.Stats)
	}
	c.answer(http.StatusOK, out)
	return nil
}
