// Command sparse times the strategies of package postings on real and
// generated sets, one thread, and checks that all answers agree:
//
//	go run ./bench/sparse -data ../shared/data
//
// The arm stored is our own strategy on an index that takes its rows from a
// collection, unweighed, as in a database.
//
// Times are processor time, since other work may share the
// machine. Strategies take turns, each with all queries in a row, and the
// fastest of its rounds counts. A round before these compares the answers: a look
// at the clock takes up to a microsecond, so there is none between queries.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/anndb/anndb/bench/internal/paper"
	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

func main() {
	data := flag.String("data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	only := flag.String("only", "", "sets whose names match")
	queries := flag.Int("queries", 100, "queries a set")
	rounds := flag.Int("rounds", 3, "rounds, of which the fastest counts")
	k := flag.Int("k", 100, "neighbours")
	generated := flag.Int("generated", 0, "rows of the generated set, none if zero")
	ours := flag.Bool("ours", false, "only the default strategy")
	flag.Parse()
	match := regexp.MustCompile(*only)
	runtime.LockOSThread()
	for _, s := range sources {
		if *data == "" {
			fmt.Fprintln(os.Stderr, "SKIPPED real sets: no -data, no ANNDB_DATA")
			break
		}
		if !match.MatchString(s.name) {
			continue
		}
		set, err := s.load(*data)
		if err != nil {
			fmt.Fprintf(os.Stderr, "SKIPPED %s: %v\n", s.name, err)
			continue
		}
		sweep(set, *queries, *rounds, *k, *ours)
	}
	if *generated > 0 {
		sweep(powerLaw(*generated, *queries, 300_000, 60, 1), *queries, *rounds, *k, *ours)
	}
	for _, line := range summary {
		fmt.Println(line)
	}
}

// summary is a line a set: bytes an entry, times a query, and what the default strategy gains.
var summary = []string{
	"| set | rows | bytes an entry | hash TAAT, µs | WAND, µs | anndb, µs | gain | |",
	"|---|---|---|---|---|---|---|---|",
}

// search appends the k best rows for a query to dst.
type search func(ctx context.Context, q vector.Sparse, k int, dst []postings.Hit) ([]postings.Hit,
	postings.Stats, error)

// arm is a strategy on an index, or the paper's baseline.
type arm struct {
	name     string
	ix       *postings.Index
	strategy postings.Strategy
	skip     int // only every skip-th query: for the slow ones
	search   search
	best     time.Duration
	stats    postings.Stats
	n        int
	differ   int
}

// searchIndex searches the arm's index by its strategy.
func (a *arm) searchIndex(s *postings.Searcher) search {
	return func(ctx context.Context, q vector.Sparse, k int, dst []postings.Hit) ([]postings.Hit,
		postings.Stats, error) {
		return s.Search(ctx, a.ix, q, k, postings.SearchParams{Strategy: a.strategy}, dst)
	}
}

// hashArm is the paper's baseline.
func hashArm(rows *vector.CSR) *arm {
	ix, err := paper.Build(rows)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sparse:", err)
		os.Exit(1)
	}
	s := new(paper.Searcher)
	return &arm{name: "hash", skip: 4,
		search: func(ctx context.Context, q vector.Sparse, k int,
			dst []postings.Hit) ([]postings.Hit, postings.Stats, error) {
			return s.Search(ctx, ix, q, k, dst)
		}}
}

// armsOf returns the arms to compare on a set, and the index.
func armsOf(ctx context.Context, s *set, justOurs bool) (arms []*arm, ours *postings.Index) {
	must := func(ix *postings.Index, err error) *postings.Index {
		if err != nil {
			fmt.Fprintln(os.Stderr, "sparse:", err)
			os.Exit(1)
		}
		return ix
	}
	ours = must(postings.Build(ctx, s.rows, nil))
	arms = []*arm{
		{name: "ours", ix: ours, strategy: postings.Auto, skip: 1},
		{name: "stored", ix: must(s.stored(ours)), strategy: postings.Auto, skip: 1},
		{name: "daat", ix: ours, strategy: postings.DAAT, skip: 4},
	}
	if justOurs {
		arms = arms[:2]
	}
	for _, arm := range arms {
		arm.search = arm.searchIndex(postings.NewSearcher())
	}
	if !justOurs {
		arms = append(arms, hashArm(s.rows))
	}
	return arms, ours
}

func sweep(s *set, queries, rounds, k int, justOurs bool) {
	ctx := context.Background()
	start := process.CPU()
	arms, ours := armsOf(ctx, s, justOurs)
	nq := min(queries, s.tests.Rows())
	fmt.Printf("%s: %d rows, %d features, %d entries; %d queries of %.0f; built in %v\n", s.name,
		s.rows.Rows(), s.rows.Cols, len(s.rows.Index),
		nq, float64(s.tests.Ptr[nq])/float64(nq), (process.CPU() - start).Round(time.Millisecond))
	size := float64(ours.Bytes()+8*s.rows.Rows()) / float64(len(s.rows.Index)) // with the lengths of rows
	fmt.Printf("  %.2f bytes an entry, as stored\n", size)
	measure(ctx, arms, s, nq, rounds, k)
	base := micro(arms[0].best)
	for _, arm := range arms {
		m := micro(arm.best)
		if arm.differ > 0 {
			fmt.Printf("  %s DIFFERS on %d queries\n", arm.name, arm.differ)
		}
		fmt.Printf("  %-8s %9.1f µs  %5.2f x  candidates %8d  scored %6d  postings %9d  bytes %9d\n",
			arm.name, m, m/base, arm.stats.Candidates/arm.n, arm.stats.Scored/arm.n,
			arm.stats.Postings/arm.n, arm.stats.Bytes/arm.n)
	}
	if justOurs {
		return
	}
	wand, hash := micro(arms[2].best), micro(arms[3].best)
	summary = append(summary, fmt.Sprintf("| %s | %d | %.2f | %.1f | %.1f | %.1f | %.1f × | %.1f × |",
		s.name, s.rows.Rows(), size, hash, wand, base, hash/base, wand/base))
}

// measure times all arms, in turn, on the first nq queries of a set. A first round that is not timed
// compares their answers with those of the first arm.
func measure(ctx context.Context, arms []*arm, s *set, nq, rounds, k int) {
	want := make([][]postings.Hit, nq)
	var got []postings.Hit
	for round := range rounds + 1 {
		for a, arm := range arms {
			before := process.CPU()
			for q := 0; q < nq; q += arm.skip {
				var err error
				var stats postings.Stats
				got, stats, err = arm.search(ctx, s.tests.Row(q), k, got[:0])
				if err != nil {
					fmt.Fprintln(os.Stderr, "sparse:", err)
					os.Exit(1)
				}
				if round > 0 {
					continue
				}
				arm.stats.Candidates += stats.Candidates
				arm.stats.Scored += stats.Scored
				arm.stats.Postings += stats.Postings
				arm.stats.Bytes += stats.Bytes
				arm.n++
				if a == 0 {
					want[q] = append(want[q][:0], got...)
				} else if !slices.Equal(want[q], got) {
					arm.differ++
				}
			}
			if t := (process.CPU() - before) / time.Duration((nq+arm.skip-1)/arm.skip); round > 0 &&
				(arm.best == 0 || t < arm.best) {
				arm.best = t
			}
		}
	}
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
