// Package queries has the commands that search and predict, and shows the reasons of answers.
package queries

import (
	"fmt"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/rows"
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

// Range finds all rows within a distance.
type Range struct {
	command.InCollection
	Distance float64 `arg:""`
	input.QueryFlags
	command.WhereFlag
	hitFlags
	K int `short:"k" default:"0" want:"0"`
}

func (c *Range) Run(a *command.App) error {
	s := Search{
		InCollection: c.InCollection, QueryFlags: c.QueryFlags, WhereFlag: c.WhereFlag, K: c.K,
		hitFlags: c.hitFlags, Radius: &c.Distance,
	}
	return s.Run(a)
}

func (c *Search) Run(a *command.App) error {
	if c.K < 1 && c.Radius == nil {
		return command.Usagef("-k must be at least 1")
	}
	if err := c.QueryFlags.Verify(); err != nil {
		return err
	}
	filter, err := c.Filter()
	if err != nil {
		return err
	}
	o := &db.SearchOptions{
		K: c.K, Index: c.Index, Recall: c.Recall, Where: filter, Radius: c.Radius, Explain: c.Explain,
	}
	if c.Method != nil {
		p := c.Params(*c.Method)
		o.Params = &p
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		if info.Sparse && (c.Recall > 0 || c.Method != nil || c.Explain) {
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
	h := hitTable{cmd: c, s: s, labels: len(labelled) > 0, people: a.People()}
	if h.out, err = a.Stream(h.columns()...); err != nil {
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
		if err := h.add(q.Key, found.Hits, a.Output); err != nil {
			return h.out.Discard(err)
		}
		a.Progress.Update("search", n, queries.Total)
	}
	a.Progress.End()
	if err := c.Mistaken(&unknown); err != nil {
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

// hitTable is the table of a search.
type hitTable struct {
	cmd    *Search
	s      *db.Snapshot
	out    *table.Stream
	labels bool // some row has labels
	people bool // who need no numbers of rows
}

func (t *hitTable) columns() []string {
	columns := []string{"query", "rank", "key"}
	if !t.people {
		columns = append(columns, "row")
	}
	columns = append(columns, "distance:4")
	if t.labels {
		columns = append(columns, "labels")
	}
	if t.cmd.Payload {
		columns = append(columns, "payload")
	}
	if t.cmd.Values {
		columns = append(columns, "attributes", "expires")
	}
	if t.cmd.Explain {
		columns = append(columns, "explanation")
	}
	return columns
}

// add writes the hits of a query.
func (t *hitTable) add(query string, hits []db.Hit, o table.Output) error {
	for rank, h := range hits {
		values := []any{query, rank + 1, string(h.Key)}
		if !t.people {
			values = append(values, h.Row)
		}
		values = append(values, h.Distance)
		if t.labels || t.cmd.Payload || t.cmd.Values {
			row, err := t.s.Collection(t.cmd.Collection).GetRow(h.Row)
			if err != nil {
				return err
			}
			if t.labels {
				values = append(values, row.Labels)
			}
			if t.cmd.Payload {
				values = append(values, string(row.Payload))
			}
			if t.cmd.Values {
				shown, err := rows.AttributesShown(row.Attributes, o)
				if err != nil {
					return fmt.Errorf("row %q: %w", row.Key, err)
				}
				values = append(values, shown, rows.ExpiryShown(row.ExpiresAt))
			}
		}
		switch {
		case t.cmd.Explain && h.Why == nil:
			values = append(values, nil)
		case t.cmd.Explain && o.InJSON():
			values = append(values, newReasonJSON(h.Why, 0))
		case t.cmd.Explain:
			values = append(values, h.Why.Text)
		}
		t.out.Add(values...)
	}
	return t.out.Err()
}
