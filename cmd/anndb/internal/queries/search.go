// Package queries has the commands that search and predict, and shows the reasons of answers.
package queries

import (
	"fmt"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// Search finds neighbours.
type Search struct {
	command.InCollection
	input.QueryFlags
	command.WhereFlag

	fusionFlags `embed:"" group:"Texts and vectors:"`

	K       int `short:"k" default:"0" want:"0"`
	Radius  *float64
	Index   string
	Payload bool
	Values  bool    `name:"attributes"`
	Recall  float64 `group:"Dense collections:" default:"0" want:"0 1"`
	Explain bool    `group:"Dense collections:"`

	rankingFlags `embed:"" group:"Ranking and pages:"`
	Method       *query.Method `group:"Dense collections:" placeholder:"METHOD" without:"recall"`
	SettingFlags `embed:"" group:"Dense collections, settings of --method:"`
}

// fusionFlags are for collections of texts and vectors.
type fusionFlags struct {
	Embed  string  `placeholder:"COMMAND"`
	Weight float64 `default:"0" want:"0 1"`
	Ranks  bool    `without:"weight"`
}

// usualK is the number of hits without -k and --radius.
const usualK = 10

func (c *Search) Run(a *command.App) error {
	if c.K == 0 && c.Radius == nil {
		c.K = usualK
	}
	if c.K == 0 && c.Page > 1 {
		return command.Usagef("--page goes with -k, the hits of a page")
	}
	o := &db.SearchOptions{
		K: c.K, Index: c.Index, Recall: c.Recall, Where: c.Where.Filter, Radius: c.Radius, Explain: c.Explain,
	}
	if err := c.fill(&o.Rank); err != nil {
		return err
	}
	o.Rank.Weight, o.Rank.Reciprocal = c.Weight, c.Ranks
	if c.Method != nil {
		p := c.Params(*c.Method)
		o.Params = &p
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		if info.Text != nil {
			o.Include = db.Text
		}
		if err := c.suits(info); err != nil {
			return err
		}
		return c.search(a, s, info, o)
	})
}

// suits refuses flags that are not for the collection.
func (c *Search) suits(info db.CollectionInfo) error {
	texts := info.Text != nil
	switch {
	case (c.fusionFlags != fusionFlags{}) && !(texts && info.Dim > 0):
		return command.Usagef("--embed, --weight and --ranks are for collections of texts and vectors; %q is %s",
			info.Name, command.KindOf(info))
	case texts && info.Dim == 0 && (c.Recall > 0 || c.Method != nil):
		return command.Usagef("--recall and --method are for dense collections; "+
			"searches of the texts of %q are exact", info.Name)
	case !texts && info.Sparse && (c.Recall > 0 || c.Method != nil || c.Explain):
		return command.Usagef("--recall, --method and --explain are for dense collections; "+
			"searches of the sparse %q are exact", info.Name)
	}
	return nil
}

// partsSuit refuses flags that are not for the parts of the queries.
func (c *Search) partsSuit(byVector, byText bool) error {
	switch both := byVector && byText; {
	case c.Method != nil && byText:
		return command.Usagef("--method is for queries that are vectors alone, and these have a text")
	case c.Radius != nil && both:
		return command.Usagef("a distance bounds queries by a vector or by a text, and these have both")
	case (c.Weight > 0 || c.Ranks) && !both:
		return command.Usagef(
			"--weight and --ranks are for queries of a text and a vector: add --vector or --embed")
	}
	return nil
}

// search searches for one query after the other and writes all hits as one table, and
// below it what the searches did.
func (c *Search) search(a *command.App, s *db.Snapshot, info db.CollectionInfo, o *db.SearchOptions) error {
	labelled, err := s.Collection(c.Collection).Labels()
	if err != nil {
		return err
	}
	queries, err := c.Ask(a, s, info)
	if err != nil {
		return err
	}
	defer queries.Close()
	if c.Embed != "" {
		e := &input.Embedder{Ctx: a.Ctx, Host: a.Program.Host, Command: c.Embed, Dim: info.Dim}
		queries.Each, queries.Vectors = e.Queries(queries.Each), true
	}
	h := hitTable{coll: s.Collection(c.Collection)}
	h.byVector, h.byText = info.Dim > 0 && queries.Vectors, info.Text != nil && queries.Texts
	if err := c.partsSuit(h.byVector, h.byText); err != nil {
		return err
	}
	if err := h.begin(a, c, info, len(labelled) > 0, queries.Total == 1); err != nil {
		return err
	}
	if c.Radius != nil && h.byText { // of texts the least score
		least := -*c.Radius
		o.Radius = &least
	}
	var unknown input.UnknownFeatures
	n, took, plan := 0, time.Duration(0), ""
	for q, err := range queries.Each {
		if err != nil {
			return err
		}
		start := time.Now()
		found, err := c.page(a.Ctx, h.coll, q.Query, o)
		if err != nil {
			return fmt.Errorf("query %s: %w", q.Key, err)
		}
		n, took, plan = n+1, took+time.Since(start), found.Plan()
		o.Reuse = found.Hits
		unknown.Add(info, q.Query, found.Stats.Unknown)
		h.before = len(o.After)
		if err := h.write(q, input.Terms(q.Query.Text, info), found.Hits); err != nil {
			return err
		}
		a.Progress.Update("search", n, queries.Total)
	}
	a.Progress.End()
	if err := c.Mistaken(&unknown, info); err != nil {
		return err
	}
	unknown.Note(a)
	if err := h.out.Close(); err != nil {
		return err
	}
	if n > 1 {
		a.Summary("queries: %d, %s each; the last one: %s", n, table.Time(took/time.Duration(n)), plan)
	} else {
		a.Summary("queries: 1, %s; %s", table.Time(took), plan)
	}
	return nil
}
