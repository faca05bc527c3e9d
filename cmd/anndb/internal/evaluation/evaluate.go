// Package evaluation has the command evaluate: recall and latency of indexes, and the quality of label
// models.
package evaluation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/recall"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// Evaluate measures recall and latency.
type Evaluate struct {
	command.InCollection

	Queries string `placeholder:"FILE" xor:"queries" required:""`
	Labels  string `placeholder:"PATH"`
	Holdout int    `xor:"queries" required:"" want:"1"`
	Seed    uint64 `default:"0"`

	K                    int `short:"k" default:"10" want:"1"`
	Index                []string
	Recall               []float64 `default:"0.9,0.95,0.99" want:"0.01 1"`
	Method               []query.Method
	Threads              int `default:"1" want:"1"`
	Rounds               int `default:"3" want:"1"`
	NoFlat               bool
	queries.SettingFlags `embed:"" group:"Settings of --method:"`
	input.FileFlags      `embed:"" group:"Files of queries:"`
}

// variant is one way of searching to measure.
type variant struct {
	index   string
	target  any // recall asked for; nil where none
	setting string
	options db.SearchOptions
}

func (c *Evaluate) Run(a *command.App) error {
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		models, err := c.models(s, info)
		if err != nil {
			return err
		}
		if len(models) > 0 {
			return c.labels(a, s, info, models)
		}
		q, err := c.querySet(a, s, info)
		if err != nil {
			return err
		}
		variants, err := c.variants(s)
		if err != nil {
			return err
		}
		t, err := q.exact(a, s, a.Flags.Workers)
		if err != nil {
			return err
		}
		results, err := q.measureAll(a, s, t, variants, effort{c.Rounds, c.Threads})
		if err != nil {
			return err
		}
		a.Title("queries: %d, k: %d, threads: %d; times in µs a query, micros is the mean",
			len(q.queries), c.K, c.Threads)
		return a.Print(results)
	})
}

// querySet reads or draws the queries.
func (c *Evaluate) querySet(a *command.App, s *db.Snapshot, info db.CollectionInfo) (q *querySet, err error) {
	q = &querySet{coll: c.Collection, k: c.K}
	if c.Queries != "" {
		vectors, err := input.ReadVectors(c.Queries, c.FileFlags, input.TargetOf(a, &info))
		q.queries = vectorQueries(vectors)
		return q, err
	}
	if info.Live < 2 {
		return nil, fmt.Errorf("--holdout: collection %q has %d rows, want at least 2",
			c.Collection, info.Live)
	}
	if c.Holdout > info.Live {
		return nil, command.Usagef("--holdout %d: collection %q has %d rows", c.Holdout, c.Collection, info.Live)
	}
	picked := drawRows(info.Rows, c.Seed)
	for _, row := range picked {
		r, err := s.Collection(c.Collection).GetRow(row)
		switch {
		case errors.Is(err, db.ErrNotFound): // deleted
			continue
		case err != nil:
			return nil, err
		}
		q.queries = append(q.queries, db.Query{Vector: r.Vector})
		q.self = append(q.self, row)
		if len(q.queries) == c.Holdout {
			break
		}
	}
	return q, nil
}

// drawRows is all row numbers below n in random order.
func drawRows(n int, seed uint64) []uint32 {
	rows := make([]uint32, n)
	for i := range rows {
		rows[i] = uint32(i)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6576616c))
	rng.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows
}

// variants are all ways of searching to measure.
func (c *Evaluate) variants(s *db.Snapshot) ([]variant, error) {
	list, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return nil, err
	}
	var out []variant
	if !c.NoFlat {
		out = append(out, variant{index: db.Flat, setting: "flat", options: db.SearchOptions{Index: db.Flat}})
	}
	for _, name := range c.Index {
		if !slices.ContainsFunc(list, func(i db.IndexInfo) bool { return i.Name == name }) {
			return nil, fmt.Errorf("collection %q has no index %q", c.Collection, name)
		}
	}
	for _, i := range list {
		if indexes.Predicts(i) || len(c.Index) > 0 && !slices.Contains(c.Index, i.Name) {
			continue
		}
		if len(c.Method) == 0 {
			if o, ok := i.Options.(*db.Forest); i.Curve == nil && ok && o.NoTune {
				return nil, command.Usagef("index %q was built with --no-tune: name methods with --method", i.Name)
			}
			out = append(out, byRecall(i, c.K, c.Recall)...)
			continue
		}
		for _, m := range c.Method {
			p := c.Params(m)
			o := db.SearchOptions{Index: i.Name, Params: &p}
			out = append(out, variant{index: i.Name, setting: indexes.SettingText(p), options: o})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("collection %q has no index", c.Collection)
	}
	return out, nil
}

// byRecall asks a tuned index for target recalls.
func byRecall(i db.IndexInfo, k int, targets []float64) []variant {
	var out []variant
	for _, r := range targets {
		p, ok := i.Curve.Setting(r, k)
		if !ok {
			p = query.Params{Method: query.Flat}
		}
		o := db.SearchOptions{Index: i.Name, Recall: r}
		out = append(out, variant{index: i.Name, target: r, setting: indexes.SettingText(p), options: o})
	}
	return out
}

// measureAll measures one variant after the other; times are µs a query,
// micros their mean.
func (q *querySet) measureAll(a *command.App, s *db.Snapshot, t *recall.Truth,
	variants []variant, e effort) (*table.Table, error) {
	out := table.New("index", "target", "recall:4", "micros:1", "p50:1", "p95:1", "p99:1",
		"per_second:0", "candidates:0", "exact:0", "setting")
	for i, v := range variants {
		a.Progress.Update("measure", i, len(variants))
		var m measured
		var err error
		if v.options.Index == db.Flat {
			m, err = q.measureFlat(a.Ctx, s, &v.options, e.threads)
		} else {
			m, err = q.measure(a.Ctx, s, t, &v.options, e)
		}
		if err != nil {
			return nil, fmt.Errorf("index %s, %s: %w", v.index, v.setting, err)
		}
		out.Add(v.index, v.target, m.Recall, m.Mean, m.P50, m.P95, m.P99,
			m.PerSecond, m.Candidates, m.Exact, v.setting)
	}
	a.Progress.End()
	return out, nil
}
