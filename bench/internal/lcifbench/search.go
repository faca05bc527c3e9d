package lcifbench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/bench/internal/paper"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// SearchOptions say how searches are measured.
type SearchOptions struct {
	K       int // neighbours; zero means 100
	Queries int // first test rows to ask for; zero means 1,000
	Rounds  int // of which the least time of each query counts; zero means 3
	// Budget ends the rounds of a strategy once it is spent; the first round is
	// always whole. Zero means 5 s.
	Budget   time.Duration
	Progress func(stage string, done, total int)
}

func (o *SearchOptions) fill() {
	if o.K == 0 {
		o.K = 100
	}
	if o.Queries == 0 {
		o.Queries = 1000
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Budget == 0 {
		o.Budget = 5 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
}

// SearchRow is one strategy on one set: a cell of Tables 4 and 5.
type SearchRow struct {
	Set string
	// Strategy is "m = 0" (M-WAND), "hash TAAT" (the paper's INSTANCEKNNSEARCH), or "ours".
	Strategy string
	Rows     int // indexed
	Queries  int
	Length   float64 // mean features of a query
	// Candidates is the mean number of rows evaluated, Share of all rows.
	Candidates, Share float64
	// Micros is the mean of the least times of the queries on one thread. Ratio is how many times
	// as long "hash TAAT" takes.
	Micros, Ratio float64
	// Bytes is the memory of the structure searched, beside the rows.
	Bytes int
	// Wrong counts queries whose neighbours or similarities differ from brute
	// force.
	Wrong int
}

// Search measures all exact strategies on a set: its training rows indexed, its
// first test rows asked for, one thread. Strategies that are compared by time
// take turns, so that a busy moment hits all. Errors: those of package
// postings, the context's.
func Search(ctx context.Context, set *Set, o SearchOptions) ([]SearchRow, error) {
	o.fill()
	all := &lcif.View{Features: set.Train.Rows.Cols}
	rows := lcif.UnitRows(set.Train.Rows, all)
	first := make([]int, min(o.Queries, set.Test.Rows.Rows()))
	for i := range first {
		first[i] = i
	}
	queries := lcif.UnitRows(labels.SelectRows(set.Test.Rows, first), all)
	m := &searchMeter{ctx: ctx, o: o, rows: rows, queries: queries}
	if err := m.bruteForce(); err != nil {
		return nil, err
	}
	ix, err := postings.Build(ctx, rows, nil)
	if err != nil {
		return nil, err
	}
	lists, err := paper.Build(rows)
	if err != nil {
		return nil, err
	}
	contest := []*contender{
		{name: "m = 0", ix: ix, p: postings.SearchParams{Strategy: postings.DAAT}, bytes: ix.Bytes()},
		{name: "hash TAAT", lists: lists, bytes: lists.Bytes()},
		{name: "ours", ix: ix, bytes: ix.Bytes()},
	}
	if err := m.run(contest); err != nil {
		return nil, err
	}
	out := make([]SearchRow, 0, len(contest))
	for _, c := range contest {
		r := SearchRow{
			Set: set.Name, Strategy: c.name, Rows: rows.Rows(), Queries: len(first), Candidates: c.candidates,
			Micros: c.micros(len(first)), Bytes: c.bytes, Wrong: c.wrong,
		}
		r.Length = float64(len(queries.Index)) / float64(max(1, len(first)))
		r.Share = r.Candidates / float64(max(1, r.Rows))
		r.Ratio = contest[1].micros(len(first)) / r.Micros
		out = append(out, r)
	}
	return out, nil
}

// contender is a strategy and what it took.
type contender struct {
	name       string
	ix         *postings.Index
	p          postings.SearchParams
	lists      *paper.Index // in place of ix
	bytes      int
	candidates float64
	wrong      int
	least      []time.Duration // by query
	spent      time.Duration
}

// micros is the mean over the queries of their least times.
func (c *contender) micros(queries int) float64 {
	var sum time.Duration
	for _, d := range c.least {
		sum += d
	}
	return float64(sum.Nanoseconds()) / 1000 / float64(max(1, queries))
}

// searchMeter asks the queries of one set.
type searchMeter struct {
	ctx           context.Context
	o             SearchOptions
	rows, queries *vector.CSR
	truth         [][]postings.Hit
}

// bruteForce finds the true neighbours by all dot products.
func (m *searchMeter) bruteForce() error {
	m.truth = make([][]postings.Hit, m.queries.Rows())
	dense := make([]float32, m.rows.Cols)
	for i := range m.truth {
		if err := m.ctx.Err(); err != nil {
			return fmt.Errorf("lcifbench: %w", err)
		}
		q := m.queries.Row(i)
		for j, f := range q.Index {
			dense[f] = q.Value[j]
		}
		var hits []postings.Hit
		for r := range m.rows.Rows() {
			// In the order of the features, as vector.DotSparse adds.
			sum, row := 0.0, m.rows.Row(r)
			for j, f := range row.Index {
				if w := dense[f]; w != 0 {
					sum += float64(w) * float64(row.Value[j])
				}
			}
			if sum > 0 {
				hits = append(hits, postings.Hit{Row: uint32(r), Score: sum})
			}
		}
		slices.SortStableFunc(hits, func(a, b postings.Hit) int { return cmp.Compare(b.Score, a.Score) })
		m.truth[i] = slices.Clone(hits[:min(m.o.K, len(hits))])
		for _, f := range q.Index {
			dense[f] = 0
		}
		m.o.Progress("brute force", i+1, len(m.truth))
	}
	return nil
}

// run measures contenders, which take turns query by query. The first round
// counts candidates and warms memory; its times do not count.
func (m *searchMeter) run(contest []*contender) error {
	s, hash := postings.NewSearcher(), new(paper.Searcher)
	var hits []postings.Hit
	for _, c := range contest {
		c.least = make([]time.Duration, m.queries.Rows())
	}
	for round := range m.o.Rounds + 1 {
		for i := range m.queries.Rows() {
			for _, c := range contest {
				if round > 1 && c.spent > m.o.Budget {
					continue
				}
				start := time.Now()
				var stats postings.Stats
				var err error
				if c.lists != nil {
					hits, stats, err = hash.Search(m.ctx, c.lists, m.queries.Row(i), m.o.K, hits[:0])
				} else {
					hits, stats, err = s.Search(m.ctx, c.ix, m.queries.Row(i), m.o.K, c.p, hits[:0])
				}
				if err != nil {
					return err
				}
				d := time.Since(start)
				c.spent += d
				if round == 0 {
					c.candidates += float64(stats.Candidates) / float64(m.queries.Rows())
					if !slices.Equal(hits, m.truth[i]) {
						c.wrong++
					}
					c.least[i] = math.MaxInt64
					continue
				}
				c.least[i] = min(c.least[i], d)
			}
		}
		m.o.Progress("searches", round, m.o.Rounds)
	}
	return nil
}
