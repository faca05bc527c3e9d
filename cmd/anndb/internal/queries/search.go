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

	K      int `short:"k" default:"10" want:"0"`
	Radius *float64
	hitFlags
	Method       *query.Method `group:"Dense collections:" placeholder:"METHOD" without:"recall"`
	SettingFlags `embed:"" group:"Dense collections, settings of --method:"`
}

// hitFlags say how to search and what to show of the rows found.
type hitFlags struct {
	Index   string
	Payload bool
	Values  bool    `name:"attributes"`
	Recall  float64 `group:"Dense collections:" default:"0" want:"0 1"`
	Explain bool    `group:"Dense collections:"`
}

func (c *Search) Run(a *command.App) error {
	if c.K < 1 && c.Radius == nil {
		return command.Usagef("-k must be at least 1")
	}
	o := &db.SearchOptions{
		K: c.K, Index: c.Index, Recall: c.Recall, Where: c.Where.Filter, Radius: c.Radius, Explain: c.Explain,
	}
	if c.Method != nil {
		p := c.Params(*c.Method)
		o.Params = &p
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		if info.Text != nil {
			o.Include = db.Text
			if c.Radius != nil { // of texts the least score
				least := -*c.Radius
				o.Radius = &least
			}
		}
		switch {
		case info.Text != nil && (c.Recall > 0 || c.Method != nil):
			return command.Usagef("--recall and --method are for dense collections; "+
				"searches of the texts of %q are exact", info.Name)
		case info.Text != nil:
		case info.Sparse && (c.Recall > 0 || c.Method != nil || c.Explain):
			return command.Usagef("--recall, --method and --explain are for dense collections; "+
				"searches of the sparse %q are exact", info.Name)
		}
		return c.search(a, s, info, o)
	})
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
	h := hitTable{cmd: c, s: s, info: info, labels: len(labelled) > 0, people: a.People()}
	h.alone = info.Text != nil && h.people && queries.Total == 1
	if h.out, err = a.Bold().Stream(h.columns()...); err != nil {
		return err
	}
	var unknown input.UnknownFeatures
	n, took, plan := 0, time.Duration(0), ""
	for q, err := range queries.Each {
		if err != nil {
			return h.out.Discard(err)
		}
		start := time.Now()
		found, err := s.Collection(c.Collection).Search(a.Ctx, q.Query, o)
		if err != nil {
			return h.out.Discard(fmt.Errorf("query %s: %w", q.Key, err))
		}
		n, took, plan = n+1, took+time.Since(start), found.Plan()
		o.Reuse = found.Hits
		unknown.Add(info, q.Query, found.Stats.Unknown)
		if err := h.add(q, found.Hits, a.Output); err != nil {
			return h.out.Discard(err)
		}
		a.Progress.Update("search", n, queries.Total)
	}
	a.Progress.End()
	if err := c.Mistaken(&unknown, info); err != nil {
		return h.out.Discard(err)
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
