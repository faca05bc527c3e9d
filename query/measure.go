package query

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// QuerySet holds queries, and the nearest rows of each, nearest first, as many as are known.
type QuerySet struct {
	Queries [][]float32
	Truth   [][]uint32
}

// atDepth returns the queries of which k nearest rows are known, at most so many of them, evenly spaced.
func (s QuerySet) atDepth(k, most int) (out QuerySet) {
	for i, truth := range s.Truth {
		if len(truth) >= k {
			out.Queries, out.Truth = append(out.Queries, s.Queries[i]), append(out.Truth, truth)
		}
	}
	n := len(out.Queries)
	if n <= most {
		return out
	}
	for i := range most {
		out.Queries[i], out.Truth[i] = out.Queries[i*n/most], out.Truth[i*n/most]
	}
	return QuerySet{out.Queries[:most], out.Truth[:most]}
}

// split returns every shapeOf-th query, and the others.
func (s QuerySet) split() (some, others QuerySet) {
	for i, q := range s.Queries {
		part := &others
		if i%shapeOf == 0 && len(s.Queries) > 1 {
			part = &some
		}
		part.Queries, part.Truth = append(part.Queries, q), append(part.Truth, s.Truth[i])
	}
	return some, others
}

// meter measures settings on queries with known answers.
type meter struct {
	v     *View
	k     int
	set   QuerySet
	lanes []*lane
}

// lane is what one goroutine of a meter needs.
type lane struct {
	s   *Searcher
	dst []vector.Neighbor
}

// maxLanes bounds the goroutines that measure: more of them compete for memory, which changes the
// ratio of the times of narrow and wide beams.
const maxLanes = 4

// newLanes returns the lanes of so many workers, see par.Workers.
func newLanes(workers int) []*lane {
	out := make([]*lane, min(par.Workers(workers), maxLanes))
	for i := range out {
		out[i] = &lane{s: NewSearcher()}
		out[i].s.trial = true
	}
	return out
}

// clockStep is the number of queries that are timed together, enough to make the clock's cost negligible.
const clockStep = 10

// outcome is what a setting finds.
type outcome struct {
	Point
	found []int32 // how many of its k nearest rows each query finds
}

// run measures a setting on all queries, on as many goroutines as there are lanes.
func (m *meter) run(ctx context.Context, p Params) (outcome, error) {
	n := len(m.set.Queries)
	out := outcome{Point: Point{Params: p}, found: make([]int32, n)}
	p.K = m.k
	var nanos, elected atomic.Int64
	var started atomic.Int32
	work := par.Work{N: n, Grain: clockStep, Workers: len(m.lanes)}
	err := par.Ranges(ctx, work, func() func(lo, hi int) error {
		l := m.lanes[started.Add(1)-1]
		return func(lo, hi int) error {
			runtime.LockOSThread() // whose time is measured
			defer runtime.UnlockOSThread()
			start := clock()
			for i := lo; i < hi; i++ {
				stats, err := l.find(ctx, m, i, &p, out.found)
				if err != nil {
					return err
				}
				elected.Add(int64(stats.Candidates))
			}
			nanos.Add(int64(clock() - start))
			return nil
		}
	})
	queries := float64(max(1, n))
	out.Micros, out.Candidates = float64(nanos.Load())/1e3/queries, float64(elected.Load())/queries
	out.Recall = m.recall(out.found)
	return out, err
}

// find runs a query and records how many of its nearest rows it finds. Rows as near as the k-th one count.
func (l *lane) find(ctx context.Context, m *meter, i int, p *Params, found []int32) (Stats, error) {
	near, stats, err := l.s.Search(ctx, m.v, m.set.Queries[i], p, l.dst[:0])
	if err != nil {
		return stats, err
	}
	last := m.set.Truth[i][m.k-1]
	l.dst = append(near, vector.Neighbor{ID: last, Distance: l.s.exact.distance(last)})
	l.s.shorten(l.dst[len(near):])
	found[i] = 0
	for _, x := range near {
		if x.Distance <= l.dst[len(near)].Distance {
			found[i]++
		}
	}
	return stats, nil
}

// recall returns the share of the nearest rows that were found.
func (m *meter) recall(found []int32) float64 {
	sum := 0.0
	for _, n := range found {
		sum += float64(n)
	}
	return sum / float64(max(1, len(found)*m.k))
}
