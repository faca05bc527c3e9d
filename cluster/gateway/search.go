package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/internal/wire"
)

// search answers with the rows nearest to a query, or to each of several.
func (c *call) search() error {
	var in wire.Search
	body, err := c.body()
	if err == nil {
		err = wire.UnmarshalQuery(body, &in.Query, &in)
	}
	if err != nil {
		return err
	}
	queries, o, err := in.Get()
	if err != nil {
		return err
	}
	results := make([]*wire.Result, len(queries))
	missing, err := c.grouped(o.Where, func(g *group.Group) error {
		return c.each(len(queries), func(i int) error {
			found, err := g.Search(c.ctx, queries[i], o)
			results[i] = wire.NewResult(&found.Result, in.Stats)
			return err
		})
	})
	if err != nil {
		return err
	}
	if in.Queries == nil {
		return c.answer(http.StatusOK, struct {
			*wire.Result
			Missing []string `json:"missing,omitempty"`
		}{results[0], missing})
	}
	return c.answer(http.StatusOK, struct {
		Results []*wire.Result `json:"results"`
		Missing []string       `json:"missing,omitempty"`
	}{results, missing})
}

// queriesAtOnce is the number of queries of a request that are answered at the same time.
const queriesAtOnce = 8

// each calls f for the queries of a request.
func (c *call) each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	return par.Each(c.ctx, par.Work{N: n, Workers: queriesAtOnce}, f)
}

// missingShard is the error of a shard that cannot answer.
type missingShard struct {
	error
	id string
}

func (e missingShard) Unwrap() error { return e.error }

// grouped calls f with the collection of the request in all shards. If the request takes partial answers,
// shards that cannot answer are left out and returned.
func (c *call) grouped(where *filter.Filter, f func(*group.Group) error) (missing []string, err error) {
	if err := c.checkName(); err != nil {
		return nil, err
	}
	partial := c.r.URL.Query().Get("partial") == "true"
	for {
		var parts []group.Part
		for i := range c.view.Shards {
			s := &c.view.Shards[i]
			if !slices.Contains(missing, s.ID) {
				parts = append(parts, part{c, s, c.name(), where != nil})
			}
		}
		var g *group.Group
		if g, err = group.New(c.ctx, parts...); err == nil {
			err = f(g)
		}
		var lost missingShard
		if !partial || !errors.As(err, &lost) || len(missing)+1 == len(c.view.Shards) {
			return missing, err
		}
		missing = append(missing, lost.id)
		c.w.Header().Set(Missing, strings.Join(missing, ","))
	}
}

// predict answers with the labels of a query, or of each of several.
func (c *call) predict() error {
	var in wire.Predict
	body, err := c.body()
	if err == nil {
		err = wire.UnmarshalQuery(body, &in.Query, &in)
	}
	if err != nil {
		return err
	}
	queries, o, err := in.Get()
	if err != nil {
		return err
	}
	results := make([]*wire.Predictions, len(queries))
	missing, err := c.grouped(o.Where, func(g *group.Group) error {
		return c.each(len(queries), func(i int) error {
			found, err := g.Predict(c.ctx, queries[i], o)
			results[i] = wire.NewPredictions(&found, in.Stats)
			return err
		})
	})
	if err != nil {
		return err
	}
	if in.Queries == nil {
		return c.answer(http.StatusOK, struct {
			*wire.Predictions
			Missing []string `json:"missing,omitempty"`
		}{results[0], missing})
	}
	return c.answer(http.StatusOK, struct {
		Results []*wire.Predictions `json:"results"`
		Missing []string            `json:"missing,omitempty"`
	}{results, missing})
}
