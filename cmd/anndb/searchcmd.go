package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/postings"
)

// searchCmd finds neighbours.
type searchCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`

	askFlags
	Vector string `help:"The query itself, to a dense collection: numbers with commas between." placeholder:"1,2,3" xor:"query" required:""`

	K         int      `short:"k" help:"Neighbours wanted." default:"10"`
	Index     string   `help:"Index to ask; flat for an exact scan; the only one if not given."`
	Recall    float64  `help:"Target recall that the tuner's curve turns into a setting; 0 for 0.95." default:"0"`
	Method    string   `help:"Select candidates by natural, natural-zero, voting, lookup or flat, with the settings below, instead of a target recall." placeholder:"METHOD"`
	HasLabel  []string `name:"label" help:"Only rows with one of these labels."`
	KeyPrefix string   `help:"Only rows whose key begins so."`
	Radius    float64  `help:"All rows within this distance, nearest -k at most, instead of the nearest." default:"0"`
	Explain   bool     `help:"Say how each hit was found."`
	Payload   bool     `help:"Show payloads."`
	Strategy  string   `help:"How to search the inverted index of a sparse collection: auto, hash-taat, dense-taat, partitioned, compact or union. All find the same." default:"auto" placeholder:"STRATEGY"`
	settingFlags
	fileFlags
	sparseFlags
}

// options are the flags as package db takes them.
func (c *searchCmd) options() (*db.SearchOptions, error) {
	switch {
	case c.K < 1:
		return nil, usagef("-k must be at least 1")
	case !(c.Recall >= 0 && c.Recall <= 1):
		return nil, usagef("--recall %g (want 0 to 1)", c.Recall)
	case c.Recall > 0 && c.Method != "":
		return nil, usagef("--recall and --method exclude each other")
	case !(c.Radius >= 0):
		return nil, usagef("--radius must not be negative")
	}
	o := &db.SearchOptions{
		Index: c.Index, Recall: c.Recall, Labels: c.HasLabel, KeyPrefix: []byte(c.KeyPrefix),
		Radius: c.Radius, Explain: c.Explain,
	}
	if c.Method == "" {
		if c.settingFlags != defaultSettings {
			return nil, usagef("--trees, --tau, --votes, --extra, --sketch, --hops, --hop-from, --hop-width and --rerank go with --method")
		}
		return o, nil
	}
	m, err := parseMethod("--method", c.Method)
	if err != nil {
		return nil, err
	}
	p, err := c.params(m)
	if err != nil {
		return nil, err
	}
	o.Params = &p
	return o, nil
}

// Run executes the command.
func (c *searchCmd) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.collection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		if info.Sparse {
			return c.sparse(a, s, info)
		}
		return c.dense(a, s, info, o)
	})
}

// dense searches a dense collection.
func (c *searchCmd) dense(a *app, s *db.Snapshot, info db.CollectionInfo, o *db.SearchOptions) error {
	if c.askFlags.Features != "" || c.Strategy != postings.Auto.String() || c.sparseFlags.givenBesideBase() {
		return usagef("--features, --strategy and flags of sparse files are for sparse collections; %q is dense", info.Name)
	}
	names, queries, err := c.queries(a, s, info)
	if err != nil {
		return err
	}
	var work db.SearchStats
	took, err := c.search(a, s, names, func(i int, hits []db.Hit) ([]db.Hit, error) {
		hits, stats, err := s.Search(a.ctx, c.Collection, queries[i], c.K, o, hits)
		work = addStats(work, stats)
		return hits, err
	})
	if err != nil {
		return err
	}
	n := float64(len(queries))
	a.title("\nqueries: %d, %.1f µs each, a cold file and explanations included; a query: %.1f leaves, %.0f candidates, %.0f sketches, %.0f exact distances, %.0f rows by hops, %.0f fresh rows",
		len(queries), took.Seconds()*1e6/n, float64(work.Leaves)/n, float64(work.Candidates)/n, float64(work.Sketched)/n,
		float64(work.Exact)/n, float64(work.Hopped)/n, float64(work.Fresh)/n)
	return nil
}

// queries are the vectors to search for and what to call them.
func (c *searchCmd) queries(a *app, s *db.Snapshot, info db.CollectionInfo) (names []string, vectors [][]float32, err error) {
	switch {
	case c.Query != "":
		return readQueries(c.Query, c.fileFlags, c.sparseFlags.Base, targetOf(a, info))
	case c.OfKey != "":
		row, err := s.Get(c.Collection, []byte(c.OfKey))
		if err != nil {
			return nil, nil, fmt.Errorf("--key: %w", err)
		}
		return []string{c.OfKey}, [][]float32{row.Vector}, nil
	}
	v, err := parseVector(c.Vector)
	if err != nil {
		return nil, nil, err
	}
	if len(v) != info.Dim {
		return nil, nil, usagef("--vector has %d numbers, collection %q has %d", len(v), c.Collection, info.Dim)
	}
	return []string{"vector"}, [][]float32{v}, nil
}

// parseVector reads numbers with commas or blanks between.
func parseVector(text string) ([]float32, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	v := make([]float32, len(words))
	for i, w := range words {
		f, err := strconv.ParseFloat(w, 32)
		if errors.Is(err, strconv.ErrRange) {
			return nil, usagef("--vector: %s is out of the range of float32", w)
		}
		if err != nil {
			return nil, usagef("--vector: %q is not a number", w)
		}
		v[i] = float32(f)
	}
	return v, nil
}

// search asks one query after the other, writes all hits as one table and says
// how long the searches took.
func (c *searchCmd) search(a *app, s *db.Snapshot, names []string, ask func(i int, hits []db.Hit) ([]db.Hit, error)) (took time.Duration, err error) {
	labelled, err := s.Labels(c.Collection)
	if err != nil {
		return 0, err
	}
	columns := []string{"query", "rank", "key", "row", "distance:4"}
	if len(labelled) > 0 {
		columns = append(columns, "labels")
	}
	if c.Payload {
		columns = append(columns, "payload")
	}
	if c.Explain {
		columns = append(columns, "explanation")
	}
	t := table.New(columns...)
	var hits []db.Hit
	for i, name := range names {
		start := time.Now()
		hits, err = ask(i, hits[:0])
		took += time.Since(start)
		if err != nil {
			return took, fmt.Errorf("query %s: %w", name, err)
		}
		for rank, h := range hits {
			values := []any{name, rank + 1, string(h.Key), h.Row, h.Distance}
			if len(labelled) > 0 || c.Payload {
				row, err := s.GetRow(c.Collection, h.Row)
				if err != nil {
					return took, err
				}
				if len(labelled) > 0 {
					values = append(values, strings.Join(row.Labels, "|"))
				}
				if c.Payload {
					values = append(values, string(row.Payload))
				}
			}
			if c.Explain {
				e, err := explanation(h, a.format)
				if err != nil {
					return took, err
				}
				values = append(values, e)
			}
			t.Add(values...)
		}
		a.progress.update("search", i+1, len(names))
	}
	a.progress.end()
	return took, a.table(t)
}

// addStats sums the work of searches.
func addStats(a, b db.SearchStats) db.SearchStats {
	a.Leaves += b.Leaves
	a.Labels += b.Labels
	a.Candidates += b.Candidates
	a.Sketched += b.Sketched
	a.Filtered += b.Filtered
	a.Exact += b.Exact
	a.Hopped += b.Hopped
	a.Fresh += b.Fresh
	a.Widened += b.Widened
	return a
}

// explanation is how a hit was found: all that is known as a JSON value, or a
// sentence for people.
func explanation(h db.Hit, f table.Format) (any, error) {
	e := h.Explanation
	switch {
	case e == nil:
		return nil, nil
	case f == table.JSON:
		b, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("explanation of row %d: %w", h.Row, err)
		}
		return json.RawMessage(b), nil
	}
	s := e.Source
	if e.From != nil {
		s += fmt.Sprintf(" %d from row %d", e.Hop, *e.From)
	}
	if e.Leaves == 0 {
		return s, nil
	}
	compare := "above"
	if !e.Elected {
		compare = "not above"
	}
	return s + fmt.Sprintf(": votes %d in %d of %d leaves, estimate %.3g %s %.3g", e.Sum, len(e.Votes), e.Leaves, e.Estimate, compare, e.Threshold), nil
}
