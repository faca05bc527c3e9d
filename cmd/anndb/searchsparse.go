package main

import (
	"fmt"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/postings"
)

// strategies are the ways to search an inverted index by name.
var strategies = []postings.Strategy{postings.Auto, postings.HashTAAT, postings.DenseTAAT, postings.Partitioned, postings.Compact, postings.Union}

func parseStrategy(name string) (postings.Strategy, error) {
	names := make([]string, len(strategies))
	for i, s := range strategies {
		if names[i] = s.String(); names[i] == name {
			return s, nil
		}
	}
	return 0, usagef("--strategy %q (want one of %s)", name, strings.Join(names, ", "))
}

// sparse searches a sparse collection.
func (c *searchCmd) sparse(a *app, s *db.Snapshot, info db.CollectionInfo) error {
	switch {
	case c.Vector != "":
		return usagef("--vector is for dense collections; %q is sparse: give --features", info.Name)
	case c.Recall > 0 || c.Method != "" || c.Radius > 0 || c.Explain:
		return usagef("--recall, --method, --radius and --explain are for dense collections; searches of the sparse %q are exact", info.Name)
	}
	strategy, err := parseStrategy(c.Strategy)
	if err != nil {
		return err
	}
	o := &db.SparseSearchOptions{Index: c.Index, Strategy: strategy, Labels: c.HasLabel, KeyPrefix: []byte(c.KeyPrefix)}
	q, err := askFlags{c.Query, c.OfKey, c.Features}.read(a, s, info, c.fileFlags, c.sparseFlags)
	if err != nil {
		return err
	}
	if err := noteUnknown(a, s, info, q.queries); err != nil {
		return err
	}
	var work db.SparseStats
	used := map[postings.Strategy]int{}
	took, err := c.search(a, s, q.keys, func(i int, hits []db.Hit) ([]db.Hit, error) {
		hits, stats, err := s.SearchSparse(a.ctx, c.Collection, q.queries[i], c.K, o, hits)
		work.Candidates += stats.Candidates
		work.Scored += stats.Scored
		work.Postings += stats.Postings
		work.Bytes += stats.Bytes
		work.Fresh += stats.Fresh
		used[stats.Strategy]++
		return hits, err
	})
	if err != nil {
		return err
	}
	n := float64(len(q.keys))
	var ways []string
	for _, s := range strategies {
		if k := used[s]; k > 0 && s != postings.Auto {
			ways = append(ways, fmt.Sprintf("%s %d", s, k))
		}
	}
	if len(ways) == 0 {
		ways = []string{"row by row"}
	}
	a.title("\nqueries: %d (%s), %.1f µs each, a cold file included; a query: %.0f candidates, %.0f rows scored, %.0f list entries, %s read, %.0f fresh rows",
		len(q.keys), strings.Join(ways, ", "), took.Seconds()*1e6/n, float64(work.Candidates)/n, float64(work.Scored)/n,
		float64(work.Postings)/n, size(int64(float64(work.Bytes)/n)), float64(work.Fresh)/n)
	return nil
}
