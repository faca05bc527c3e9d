package gateway

import (
	"errors"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/internal/wire"
)

// search answers with the rows nearest to a query, or to each of several.
func (c *call) search() (any, error) {
	var in wire.Search
	if err := c.decodeQuery(&in.Query, &in); err != nil {
		return nil, err
	}
	queries, o, err := in.Get()
	if err != nil {
		return nil, err
	}
	find := func(g *group.Group, q db.Query) (*wire.Result, error) {
		found, err := g.Search(c.ctx, q, o)
		return wire.NewResult(&found.Result, in.Stats), err
	}
	return answerEach(c, queries, in.Queries != nil, o.Where, find)
}

// predict answers with the labels of a query, or of each of several.
func (c *call) predict() (any, error) {
	var in wire.Predict
	if err := c.decodeQuery(&in.Query, &in); err != nil {
		return nil, err
	}
	queries, o, err := in.Get()
	if err != nil {
		return nil, err
	}
	find := func(g *group.Group, q db.Query) (*db.Predictions, error) {
		found, err := g.Predict(c.ctx, q, o)
		return wire.NewPredictions(&found, in.Stats), err
	}
	return answerEach(c, queries, in.Queries != nil, o.Where, find)
}

// decodeQuery decodes a body with a query.
func (c *call) decodeQuery(query *wire.Query, into any) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	return wire.UnmarshalQuery(body, query, into)
}

// answerEach answers with what f finds for each query, as a list if there may be several.
func answerEach[Form any](
	c *call, queries []db.Query, list bool, where *filter.Filter, f func(*group.Group, db.Query) (*Form, error),
) (any, error) {
	out := wire.Batch[*Form]{Results: make([]*Form, len(queries))}
	err := c.grouped(where, func(g *group.Group) error {
		work := par.Work{N: len(queries), Workers: queriesAtOnce}
		return par.Each(c.ctx, work, func(i int) (err error) {
			out.Results[i], err = f(g, queries[i])
			return err
		})
	})
	if !list {
		return out.Results[0], err
	}
	return out, err
}

// queriesAtOnce is the number of queries of a request that are answered at the same time.
const queriesAtOnce = 8

// missingShard is the error of a shard that cannot answer.
type missingShard struct {
	error
	id string
}

func (e missingShard) Unwrap() error { return e.error }

// grouped calls f with the collection of the request in all shards. If the request takes partial answers,
// shards that cannot answer are left out, and the answer's header Missing has them.
func (c *call) grouped(where *filter.Filter, f func(*group.Group) error) error {
	partial, err := c.flag("partial")
	if err != nil {
		return err
	}
	var missing []string
	for {
		var parts []group.Part
		for i := range c.view.Shards {
			s := &c.view.Shards[i]
			if !slices.Contains(missing, s.ID) {
				parts = append(parts, part{c, s, c.name(), where != nil})
			}
		}
		g, err := group.New(c.ctx, parts...)
		if err == nil {
			g.Share(&c.g.models)
			err = f(g)
		}
		var lost missingShard
		if !partial || !errors.As(err, &lost) || len(missing)+1 == len(c.view.Shards) {
			return err
		}
		missing = append(missing, lost.id)
		c.w.Header().Set(Missing, strings.Join(missing, ","))
	}
}
