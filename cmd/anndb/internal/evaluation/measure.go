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

// querySet is queries against a collection.
type querySet struct {
	coll    db.Collection
	queries []db.Query
	k       int
}

// exact answers all queries by flat search.
func (q *querySet) exact(a *command.App) (*recall.Truth, error) {
	t := new(recall.Truth)
	// In slices, so that progress shows and an interrupt is seen.
	const slice = 64
	for lo := 0; lo < len(q.queries); lo += slice {
		hi := min(lo+slice, len(q.queries))
		found, err := q.coll.SearchBatch(a.Ctx, q.queries[lo:hi],
			&db.SearchOptions{K: q.k, Index: db.Flat, Workers: a.Flags.Workers})
		if err != nil {
			return nil, fmt.Errorf("exact search: %w", err)
		}
		for _, r := range found {
			if len(r.Hits) == 0 {
				return nil, fmt.Errorf("collection %q is empty", q.coll.Name())
			}
			rows := make([]uint32, len(r.Hits))
			for j, h := range r.Hits {
				rows[j] = h.Row
			}
			t.Add(rows, r.Hits[len(r.Hits)-1].Distance)
		}
		a.Progress.Update("exact search", hi, len(q.queries))
	}
	return t, nil
}

// measured is what one way of searching finds and costs. Times are µs a query.
type measured struct {
	recall, mean, p50, p95, p99 float64
	perSecond                   float64 // queries a second over all threads
	candidates, exact           float64 // a query
}

// flatQueries is how many queries an exact scan is timed on: it does the same for each.
const flatQueries = 50

// effort is how often every query is asked, and by how many threads.
type effort struct{ rounds, threads int }

// measure asks every query, after one round that warms up and counts.
func (q *querySet) measure(
	ctx context.Context, t *recall.Truth, o *db.SearchOptions, e effort,
) (m measured, err error) {
	queries := q.queries
	if o.Index == db.Flat {
		queries, e.rounds = queries[:min(len(queries), max(flatQueries, e.threads))], 1
	}
	right, n := 0, float64(len(queries))
	with := *o
	with.K, with.Reuse = q.k, make([]db.Hit, 0, q.k)
	for i, v := range queries {
		found, err := q.coll.Search(ctx, v, &with)
		if err != nil {
			return m, fmt.Errorf("query %d: %w", i, err)
		}
		m.candidates += float64(found.Stats.Candidates) / n
		m.exact += float64(found.Stats.Exact) / n
		for _, h := range found.Hits {
			if t.Right(i, h.Row, h.Distance) {
				right++
			}
		}
	}
	if m.recall = 1; o.Index != db.Flat {
		m.recall = t.Recall(right)
	}
	micros := make([]float64, e.rounds*len(queries))
	start := time.Now()
	err = par.Items(ctx, par.Work{N: len(micros), Workers: e.threads}, func() func(i int) error {
		with := *o
		with.K, with.Reuse = q.k, make([]db.Hit, 0, q.k)
		return func(i int) error {
			start := time.Now()
			_, err := q.coll.Search(ctx, queries[i%len(queries)], &with)
			micros[i] = float64(time.Since(start).Nanoseconds()) / 1e3
			return err
		}
	})
	m.perSecond = float64(len(micros)) / time.Since(start).Seconds()
	slices.Sort(micros)
	for _, t := range micros {
		m.mean += t / float64(len(micros))
	}
	at := func(p float64) float64 { return micros[int(p*float64(len(micros)))] }
	m.p50, m.p95, m.p99 = at(0.50), at(0.95), at(0.99)
	return m, err
}
