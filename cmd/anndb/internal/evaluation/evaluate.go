// Package evaluation has the command evaluate: recall and latency of indexes, and the quality of label
// models.
package evaluation

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// Evaluate measures recall and latency.
type Evaluate struct {
	command.InCollection

	Queries string `placeholder:"FILE" required:"" type:"path"`
	Labels  string `placeholder:"PATH" type:"path"`

	K           int `short:"k" default:"10" want:"1"`
	Index       []string
	Recall      []float64 `want:"0.01 1"`
	Method      []query.Method
	Threads     int `default:"1" want:"1"`
	Rounds      int `default:"3" want:"1"`
	NoFlat      bool
	AllMeasures bool
	Reliability string `placeholder:"FILE" type:"path"`
	command.ForceFlag
	queries.SettingFlags `embed:"" group:"Settings of --method:"`
	input.FileFlags      `embed:"" group:"Files of queries:"`
}

// variant is one way of searching to measure.
type variant struct {
	target  any // recall asked for; nil where none
	setting string
	options db.SearchOptions
}

func (c *Evaluate) Run(a *command.App) error {
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		coll := s.Collection(c.Collection)
		list, err := coll.Indexes()
		if err != nil {
			return err
		}
		models, err := c.models(list, info)
		if err != nil {
			return err
		}
		switch {
		case len(models) > 0:
			return c.labels(a, s, info, models)
		case c.Reliability != "":
			return command.Usagef("--reliability is for label models")
		}
		q, err := c.querySet(a, coll, info)
		if err != nil {
			return err
		}
		variants, err := c.variants(list)
		if err != nil {
			return err
		}
		t, err := q.exact(a)
		if err != nil {
			return err
		}
		results := table.New("index", "target", "recall:4", "micros:1", "p50:1", "p95:1", "p99:1",
			"per_second:0", "candidates:0", "exact:0", "setting")
		for i, v := range variants {
			a.Progress.Update("measure", i, len(variants))
			m, err := q.measure(a.Ctx, t, &v.options, effort{c.Rounds, c.Threads})
			if err != nil {
				return fmt.Errorf("index %s, %s: %w", v.options.Index, v.setting, err)
			}
			results.Add(v.options.Index, v.target, m.recall, m.mean, m.p50, m.p95, m.p99,
				m.perSecond, m.candidates, m.exact, v.setting)
		}
		a.Progress.End()
		a.Title("queries: %d, k: %d, threads: %d; times in µs a query, micros is the mean",
			len(q.queries), c.K, c.Threads)
		return a.Print(results)
	})
}

// querySet reads the queries.
func (c *Evaluate) querySet(a *command.App, coll db.Collection, info db.CollectionInfo) (*querySet, error) {
	q := &querySet{coll: coll, k: c.K}
	vectors, err := input.ReadVectors(c.Queries, c.FileFlags, input.TargetOf(a, &info))
	for _, v := range vectors {
		if v != nil {
			q.queries = append(q.queries, db.Query{Vector: v})
		}
	}
	if err == nil && len(q.queries) == 0 {
		err = command.BadInput("%s has no vectors", c.Queries)
	}
	return q, err
}

// variants are all ways of searching to measure.
func (c *Evaluate) variants(list []index.Info) (out []variant, err error) {
	if !c.NoFlat {
		out = append(out, variant{setting: "flat", options: db.SearchOptions{Index: db.Flat}})
	}
	for _, name := range c.Index {
		if !slices.ContainsFunc(list, func(i index.Info) bool { return i.Name == name }) {
			return nil, fmt.Errorf("collection %q has no index %q", c.Collection, name)
		}
	}
	for _, i := range list {
		if i.Predicts || len(c.Index) > 0 && !slices.Contains(c.Index, i.Name) {
			continue
		}
		if _, ok := i.Options.(*index.Forest); !ok {
			continue // exact, by features
		}
		for _, m := range c.Method {
			p := c.Params(m)
			o := db.SearchOptions{Index: i.Name, Params: &p}
			out = append(out, variant{setting: indexes.SettingText(p), options: o})
		}
		if len(c.Method) > 0 {
			continue
		}
		if o, ok := i.Options.(*index.Forest); i.Curve == nil && ok && o.NoTune {
			return nil, command.Usagef("index %q was built with --no-tune: name methods with --method", i.Name)
		}
		targets := c.Recall
		if len(targets) == 0 {
			targets = []float64{0.9, 0.95, 0.99}
		}
		for _, recall := range targets {
			p, ok := i.Curve.Setting(recall, c.K)
			if !ok {
				p = query.Params{Method: query.Flat}
			}
			o := db.SearchOptions{Index: i.Name, Recall: recall}
			out = append(out, variant{recall, indexes.SettingText(p), o})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("collection %q has no index", c.Collection)
	}
	return out, nil
}
