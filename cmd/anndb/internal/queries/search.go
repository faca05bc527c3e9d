// Package queries has the commands that search and predict, and shows the reasons of answers.
package queries

import (
	"fmt"
	"strings"
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
	command.InFile
	Collection string `arg:""`

	input.QueryFlags
	command.WhereFlag

	K      int `short:"k" default:"10"`
	Radius *float64
	hitFlags
	Method       string `group:"Dense collections:" placeholder:"METHOD"`
	SettingFlags `embed:"" group:"Dense collections, settings of --method:"`
}

// hitFlags say how to search and what to show of the rows found.
type hitFlags struct {
	Index   string
	Payload bool
	Values  bool    `name:"attributes"`
	Recall  float64 `group:"Dense collections:" default:"0"`
	Explain bool    `group:"Dense collections:"`
}

// Range finds all rows within a distance.
type Range struct {
	command.InFile
	Collection string  `arg:""`
	Distance   float64 `arg:""`
	input.QueryFlags
	command.WhereFlag
	hitFlags
	K int `short:"k" default:"0"`
}

func (c *Range) Run(a *command.App) error {
	s := Search{
		InFile: c.InFile, Collection: c.Collection, QueryFlags: c.QueryFlags, WhereFlag: c.WhereFlag, K: c.K,
		hitFlags: c.hitFlags, Radius: &c.Distance, SettingFlags: DefaultSettings,
	}
	return s.Run(a)
}

// check refuses flags that make no sense.
func (c *Search) check() error {
	switch {
	case c.K < 1 && c.Radius == nil:
		return command.Usagef("-k must be at least 1")
	case c.K < 0:
		return command.Usagef("-k must not be negative")
	case !(c.Recall >= 0 && c.Recall <= 1):
		return command.Usagef("--recall %g (want 0 to 1)", c.Recall)
	case c.Recall > 0 && c.Method != "":
		return command.Usagef("--recall and --method exclude each other")
	case c.Method == "" && c.SettingFlags != DefaultSettings:
		return ErrSettings
	}
	return c.QueryFlags.Verify()
}

// suits refuses flags that a kind of collection does not have.
func (c *Search) suits(info db.CollectionInfo) error {
	switch {
	case !info.Sparse && c.Features != "":
		return command.Usagef("--features is for sparse collections; %q is dense", info.Name)
	case info.Sparse && c.Vector != "":
		return command.Usagef("--vector is for dense collections; %q is sparse: give --features", info.Name)
	case info.Sparse && (c.Recall > 0 || c.Method != "" || c.Explain):
		return command.Usagef("--recall, --method and --explain are for dense collections; "+
			"searches of the sparse %q are exact", info.Name)
	}
	return nil
}

// tuned refuses a forest that was not tuned where no settings are given.
func (c *Search) tuned(s *db.Snapshot, info db.CollectionInfo) error {
	if info.Sparse || c.Method != "" || c.Index == db.Flat {
		return nil
	}
	indexes, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return err
	}
	for _, i := range indexes {
		if o, ok := i.Options.(*db.Forest); ok && o.NoTune && (c.Index == i.Name || c.Index == "" && i.Default) {
			return command.Usagef("index %q was built with --no-tune: say --method, or --index flat for an exact scan", i.Name)
		}
	}
	return nil
}

// options are the flags as package db takes them.
func (c *Search) options() (*db.SearchOptions, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	filter, err := c.Filter()
	if err != nil {
		return nil, err
	}
	o := &db.SearchOptions{
		K: c.K, Index: c.Index, Recall: c.Recall, Where: filter, Radius: c.Radius, Explain: c.Explain,
	}
	if c.Method == "" {
		return o, nil
	}
	m, err := Choice("--method", c.Method, Methods)
	if err != nil {
		return nil, err
	}
	p, err := c.Params(m)
	o.Params = &p
	return o, err
}

func (c *Search) Run(a *command.App) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.WithCollection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		if err := c.suits(info); err != nil {
			return err
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
	if err := c.tuned(s, info); err != nil {
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
	var work searchWork
	var unknown input.UnknownFeatures
	for q, err := range queries.Each {
		if err != nil {
			return h.out.Discard(err)
		}
		start := time.Now()
		found, err := s.Collection(c.Collection).Search(a.Ctx, q.Query, o)
		if err != nil {
			return h.out.Discard(fmt.Errorf("query %s: %w", q.Key, err))
		}
		work.add(&found, time.Since(start))
		o.Reuse = found.Hits
		unknown.Add(info, q.Query, found.Stats.Unknown)
		if err := h.add(q.Key, found.Hits, a.Output); err != nil {
			return h.out.Discard(err)
		}
		a.Progress.Update("search", work.queries, queries.Total)
	}
	a.Progress.End()
	if err := c.Mistaken(&unknown); err != nil {
		return h.out.Discard(err)
	}
	unknown.Note(a)
	if err := h.out.Close(); err != nil {
		return err
	}
	a.Summary("%s", work.describe(info.Sparse))
	return nil
}

// searchWork is what searches did.
type searchWork struct {
	queries int
	took    time.Duration
	sum     db.SearchStats
	listed  int // queries answered by an inverted index
	ways    [query.ByScan + 1]int
	plan    string // of the last query
}

func (w *searchWork) add(r *db.Result, took time.Duration) {
	s := r.Stats
	w.queries++
	w.took += took
	w.sum = AddStats(w.sum, s)
	if r.Index != db.Flat {
		w.listed++
	}
	w.ways[s.Way]++
	w.plan = r.Plan()
}

// describe is the work on one line, of a single query by its plan.
func (w *searchWork) describe(sparse bool) string {
	n := float64(w.queries)
	if w.queries == 1 {
		return fmt.Sprintf("queries: 1, %s; %s", table.Time(w.took), w.plan)
	}
	ways, work := w.dense()
	if sparse {
		ways, work = w.sparse()
	}
	line := fmt.Sprintf("queries: %d (%s), %s each", w.queries, strings.Join(ways, ", "),
		table.Time(w.took/time.Duration(w.queries)))
	var parts []string
	for _, x := range work {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %s", float64(x.n)/n, x.what))
		}
	}
	if len(parts) > 0 {
		line += "; a query: " + strings.Join(parts, ", ")
	}
	return line
}

// counted is how much of a kind of work searches did.
type counted struct {
	n    int
	what string
}

// dense is the work of searches of a dense collection, and by which ways it went.
func (w *searchWork) dense() (ways []string, work []counted) {
	for way, count := range w.ways {
		if count > 0 {
			ways = append(ways, fmt.Sprintf("%v %d", query.Way(way), count))
		}
	}
	s := w.sum
	return ways, []counted{
		{s.Leaves, "leaves"}, {s.Candidates, "candidates"}, {s.Sketched, "sketches"}, {s.Exact, "exact distances"},
		{s.Hopped, "rows by hops"}, {s.Fresh, "fresh rows"},
	}
}

// sparse is the work of searches of a sparse collection, and by which ways it went.
func (w *searchWork) sparse() (ways []string, work []counted) {
	if w.listed > 0 {
		ways = append(ways, fmt.Sprintf("inverted index %d", w.listed))
	}
	if scanned := w.queries - w.listed; scanned > 0 {
		ways = append(ways, fmt.Sprintf("row by row %d", scanned))
	}
	p := w.sum.Postings
	return ways, []counted{
		{int(p.Candidates), "candidates"}, {int(p.Scored), "rows scored"}, {int(p.Postings), "list entries"},
		{int(p.Bytes), "bytes read"}, {w.sum.Fresh, "fresh rows"},
	}
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

// AddStats sums the work of searches.
func AddStats(a, b db.SearchStats) db.SearchStats {
	a.Leaves += b.Leaves
	a.Labels += b.Labels
	a.Candidates += b.Candidates
	a.Sketched += b.Sketched
	a.Filtered += b.Filtered
	a.Exact += b.Exact
	a.Hopped += b.Hopped
	a.Fresh += b.Fresh
	a.Widened += b.Widened
	a.Postings.Candidates += b.Postings.Candidates
	a.Postings.Scored += b.Postings.Scored
	a.Postings.Postings += b.Postings.Postings
	a.Postings.Bytes += b.Postings.Bytes
	return a
}
