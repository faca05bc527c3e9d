package evaluation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/internal/recall"
)

// querySet is queries against a collection. Queries that are rows themselves
// ignore their own row.
type querySet struct {
	coll    string
	queries []db.Query
	self    []uint32 // row numbers; nil for queries from elsewhere
	k       int
}

// vectorQueries makes queries of vectors.
func vectorQueries(vectors [][]float32) []db.Query {
	out := make([]db.Query, len(vectors))
	for i, v := range vectors {
		out[i].Vector = v
	}
	return out
}

// ask is how many hits a search must give for k others to remain.
func (q *querySet) ask() int {
	if q.self != nil {
		return q.k + 1
	}
	return q.k
}

// answer drops the query's own row from hits and keeps k.
func (q *querySet) answer(i int, hits []db.Hit) []db.Hit {
	if q.self != nil {
		own := q.self[i]
		hits = slices.DeleteFunc(hits, func(h db.Hit) bool { return h.Row == own })
	}
	return hits[:min(q.k, len(hits))]
}

// exact answers all queries by flat search on the given number of goroutines.
func (q *querySet) exact(a *command.App, s *db.Snapshot, workers int) (*recall.Truth, error) {
	t := new(recall.Truth)
	// In slices, so that progress shows and an interrupt is seen.
	const slice = 64
	for lo := 0; lo < len(q.queries); lo += slice {
		hi := min(lo+slice, len(q.queries))
		found, err := s.Collection(q.coll).SearchBatch(a.Ctx, q.queries[lo:hi],
			&db.SearchOptions{K: q.ask(), Index: db.Flat, Workers: workers})
		if err != nil {
			return nil, fmt.Errorf("exact search: %w", err)
		}
		for i, r := range found {
			hits := q.answer(lo+i, r.Hits)
			if len(hits) == 0 {
				return nil, fmt.Errorf("collection %q is empty", q.coll)
			}
			rows := make([]uint32, len(hits))
			for j, h := range hits {
				rows[j] = h.Row
			}
			t.Add(rows, hits[len(hits)-1].Distance)
		}
		a.Progress.Update("exact search", hi, len(q.queries))
	}
	return t, nil
}

// measured is what one way of searching costs and finds.
type measured struct {
	Recall     float64
	Mean       float64 // µs a query
	P50        float64
	P95        float64
	P99        float64
	PerSecond  float64 // queries a second over all threads
	Candidates float64 // a query
	Exact      float64 // exact distances a query
}

// flatQueries is how many queries an exact scan is timed on: it does the same for each.
const flatQueries = 50

// measureFlat times exact scans, whose answers are right.
func (q *querySet) measureFlat(ctx context.Context, s *db.Snapshot, o *db.SearchOptions, threads int) (
	measured, error) {
	some := *q
	some.queries = q.queries[:min(len(q.queries), max(flatQueries, threads))]
	with := *o
	with.K = q.ask()
	first, err := s.Collection(q.coll).Search(ctx, some.queries[0], &with)
	if err != nil {
		return measured{}, err
	}
	m := measured{Recall: 1, Exact: float64(first.Stats.Exact)}
	micros := make([]float64, len(some.queries))
	start := time.Now()
	if err := some.race(ctx, s, o, micros, threads); err != nil {
		return m, err
	}
	m.PerSecond = float64(len(micros)) / time.Since(start).Seconds()
	m.Mean, m.P50, m.P95, m.P99 = latencies(micros)
	return m, nil
}

// effort is how often every query is asked, and by how many threads.
type effort struct{ rounds, threads int }

// measure asks every query, after one round that warms up and counts.
func (q *querySet) measure(ctx context.Context, s *db.Snapshot, t *recall.Truth,
	o *db.SearchOptions, e effort) (measured, error) {
	var m measured
	right, candidates, exact := 0, 0, 0
	with := *o
	with.K, with.Reuse = q.ask(), make([]db.Hit, 0, q.ask())
	for i, v := range q.queries {
		found, err := s.Collection(q.coll).Search(ctx, v, &with)
		if err != nil {
			return m, fmt.Errorf("query %d: %w", i, err)
		}
		candidates, exact = candidates+found.Stats.Candidates, exact+found.Stats.Exact
		for _, h := range q.answer(i, found.Hits) {
			if t.Right(i, h.Row, h.Distance) {
				right++
			}
		}
	}
	n := float64(len(q.queries))
	m.Recall, m.Candidates, m.Exact = t.Recall(right), float64(candidates)/n, float64(exact)/n
	micros := make([]float64, e.rounds*len(q.queries))
	start := time.Now()
	if err := q.race(ctx, s, o, micros, e.threads); err != nil {
		return m, err
	}
	m.PerSecond = float64(len(micros)) / time.Since(start).Seconds()
	m.Mean, m.P50, m.P95, m.P99 = latencies(micros)
	return m, nil
}

// race asks the queries in turn until every element of micros has the time of
// one.
func (q *querySet) race(ctx context.Context, s *db.Snapshot, o *db.SearchOptions,
	micros []float64, threads int) error {
	return par.Ranges(ctx, par.Work{N: len(micros), Workers: threads}, func() func(i, _ int) error {
		with := *o
		with.K, with.Reuse = q.ask(), make([]db.Hit, 0, q.ask())
		return func(i, _ int) error {
			start := time.Now()
			_, err := s.Collection(q.coll).Search(ctx, q.queries[i%len(q.queries)], &with)
			micros[i] = float64(time.Since(start).Nanoseconds()) / 1e3
			return err
		}
	})
}

// latencies are the mean and percentiles of times; it sorts them.
func latencies(micros []float64) (mean, p50, p95, p99 float64) {
	slices.Sort(micros)
	for _, t := range micros {
		mean += t
	}
	n := len(micros)
	at := func(p float64) float64 { return micros[min(n-1, int(p*float64(n)))] }
	return mean / float64(n), at(0.50), at(0.95), at(0.99)
}
