package server

import (
	"net/http"

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
	if in.Queries == nil {
		found, err := c.coll.Search(c.ctx, queries[0], o)
		if err != nil {
			return err
		}
		c.answer(http.StatusOK, wire.NewResult(&found, in.Stats))
		return nil
	}
	found, err := c.coll.SearchBatch(c.ctx, queries, o)
	if err != nil {
		return err
	}
	out := wire.Results{Results: make([]wire.Result, len(found))}
	for i := range found {
		out.Results[i] = *wire.NewResult(&found[i], in.Stats)
	}
	c.answer(http.StatusOK, out)
	return nil
}
