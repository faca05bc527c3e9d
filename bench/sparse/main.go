// Command sparse times the strategies of package postings on real and
// generated sets, one thread, and checks that all answers agree:
//
//	go run ./bench/sparse -data ../shared/data
//
// The arm stored is our own strategy on an index that takes its rows from a
// collection, unweighed, as in a database. With -check it times nothing but
// compares the answers to random queries with brute force.
//
// Times are processor time of the thread, since other work may share the
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
	"runtime/pprof"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/postings/paper"
	"github.com/anndb/anndb/vector"
)

func main() {
	data := flag.String("data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	only := flag.String("only", "", "sets whose names match")
	queries := flag.Int("queries", 100, "queries a set")
	rounds := flag.Int("rounds", 3, "rounds, of which the fastest counts")
	k := flag.Int("k", 100, "neighbours")
	generated := flag.Int("generated", 0, "rows of the generated set, none if zero")
	paper := flag.Bool("paper", false, "also the hash map and all other m of the paper")
	ours := flag.Bool("ours", false, "only our own strategy")
	checked := flag.Int("check", 0, "compare answers to this many random queries with brute force, time nothing")
	held := flag.Bool("train", false, "ask rows held out of the training rows, as for settings chosen by time")
	profile := flag.String("profile", "", "write a processor profile of the sweep")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "sparse:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
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
		set, err := s.load(*data, *held)
		if err != nil {
			fmt.Fprintf(os.Stderr, "SKIPPED %s: %v\n", s.name, err)
			continue
		}
		if *checked > 0 {
			if err := check(set, *checked, *k); err != nil {
				fmt.Fprintln(os.Stderr, "sparse:", err)
				os.Exit(1)
			}
			continue
		}
		sweep(set, *queries, *rounds, *k, *paper, *ours)
	}
	if *generated > 0 {
		sweep(powerLaw(*generated, *queries, 300_000, 60, 1), *queries, *rounds, *k, *paper, *ours)
	}
	if *checked > 0 {
		return
	}
	for _, line := range summary {
		fmt.Println(line)
	}
}

// summary is a line a set: times a query, and what our own strategy gains.
var summary = []string{
	"| set | rows | dense TAAT, µs | ours, µs | gain | M-WAND, µs | gain | batch, µs | gain |",
	"|---|---|---|---|---|---|---|---|---|",
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

// armsOf returns the arms to compare on a set, and the index of our own strategy.
func armsOf(ctx context.Context, s *set, all, justOurs bool) (arms []*arm, ours *postings.Index) {
	must := func(ix *postings.Index, err error) *postings.Index {
		if err != nil {
			fmt.Fprintln(os.Stderr, "sparse:", err)
			os.Exit(1)
		}
		return ix
	}
	part := func(m int) *postings.Index {
		return must(postings.Build(ctx, s.rows, postings.Params{Partition: true, M: m}, nil))
	}
	taat := part(postings.Everything)
	ours = must(postings.Build(ctx, s.rows, postings.Params{Compact: true}, nil))
	arms = []*arm{
		{name: "taat", ix: taat, strategy: postings.Partitioned, skip: 1},
		{name: "ours", ix: ours, strategy: postings.Auto, skip: 1},
		{name: "m=0", ix: part(0), strategy: postings.Partitioned, skip: 4},
		{name: "stored", ix: must(s.stored(ours)), strategy: postings.Auto, skip: 1},
	}
	if justOurs {
		arms = arms[1:2]
	}
	if all {
		rowSets(s.rows)
		arms = append(arms, hashArm(s.rows))
		for _, m := range []int{1, 20, 100, 500, 1000} {
			skip := 1
			if m < 100 {
				skip = 4
			}
			arms = append(arms, &arm{name: fmt.Sprintf("m=%d", m), ix: part(m),
				strategy: postings.Partitioned, skip: skip})
		}
	}
	for _, arm := range arms {
		if arm.search == nil {
			arm.search = arm.searchIndex(postings.NewSearcher())
		}
	}
	return arms, ours
}

func sweep(s *set, queries, rounds, k int, all, justOurs bool) {
	ctx := context.Background()
	start := time.Now()
	arms, ours := armsOf(ctx, s, all, justOurs)
	nq := min(queries, s.tests.Rows())
	fmt.Printf("%s: %d rows, %d features, %d entries; %d queries of %.0f; built in %v\n", s.name,
		s.rows.Rows(), s.rows.Cols, len(s.rows.Index),
		nq, float64(s.tests.Ptr[nq])/float64(nq), time.Since(start).Round(time.Millisecond))
	size := ours.Bytes() + 8*s.rows.Rows() // with the lengths of rows
	fmt.Printf("  compact %.2f bytes an entry, as stored\n", float64(size)/float64(len(s.rows.Index)))
	for _, arm := range arms {
		if arm.strategy == postings.Partitioned {
			p := arm.ix.Partition
			fmt.Printf("  partition %s %.2f bytes an entry\n", arm.name,
				float64(p.Bytes())/float64(len(s.rows.Index)))
		}
	}
	measure(ctx, arms, s, nq, rounds, k)
	base := micro(arms[0].best)
	for _, arm := range arms {
		m := micro(arm.best)
		if arm.differ > 0 {
			fmt.Printf("  %s DIFFERS on %d queries\n", arm.name, arm.differ)
		}
		fmt.Printf("  %-8s %9.1f µs  %5.2f x  candidates %8d  scored %6d  postings %9d  bytes %9d\n",
			arm.name, m, base/m, arm.stats.Candidates/arm.n, arm.stats.Scored/arm.n,
			arm.stats.Postings/arm.n, arm.stats.Bytes/arm.n)
	}
	single, batch := batches(s, "a batch", ours, k, nq, max(rounds, 2))
	if justOurs {
		return
	}
	batches(s, "stored, a batch", arms[3].ix, k, nq, max(rounds, 2))
	dense, own, wand := micro(arms[0].best), micro(arms[1].best), micro(arms[2].best)
	summary = append(summary, fmt.Sprintf("| %s | %d | %.1f | %.1f | %.2f | %.1f | %.1f | %.1f | %.2f |",
		s.name, s.rows.Rows(), dense, own, dense/own, wand, wand/own, batch, single/batch))
}

// measure times all arms, in turn, on the first nq queries of a set. A first round that is not timed
// compares their answers with those of the first arm.
func measure(ctx context.Context, arms []*arm, s *set, nq, rounds, k int) {
	want := make([][]postings.Hit, nq)
	var got []postings.Hit
	for round := range rounds + 1 {
		for a, arm := range arms {
			before := threadTime()
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
			if t := (threadTime() - before) / time.Duration((nq+arm.skip-1)/arm.skip); round > 0 &&
				(arm.best == 0 || t < arm.best) {
				arm.best = t
			}
		}
	}
}

// rowSets compares the row numbers of all lists as 32-bit numbers with roaring
// bitmaps, in size and in the time to go through them.
func rowSets(rows *vector.CSR) {
	byFeature := rows.Transpose()
	var sets []*roaring.Bitmap
	size := 0
	for j := range byFeature.Rows() {
		if list := byFeature.Row(j).Index; len(list) > 0 {
			b := roaring.BitmapOf(list...)
			b.RunOptimize()
			size += int(b.GetSerializedSizeInBytes())
			sets = append(sets, b)
		}
	}
	sum := uint32(0)
	before := threadTime()
	for _, r := range byFeature.Index {
		sum += r
	}
	plain := threadTime() - before
	before = threadTime()
	buffer := make([]uint32, 256)
	for _, b := range sets {
		it := b.ManyIterator()
		for n := it.NextMany(buffer); n > 0; n = it.NextMany(buffer) {
			for _, r := range buffer[:n] {
				sum -= r
			}
		}
	}
	n := float64(len(byFeature.Index))
	fmt.Printf("  row sets: 4 bytes and %.2f ns a posting plain, "+
		"%.2f bytes and %.2f ns in roaring bitmaps (check %d)\n",
		float64(plain.Nanoseconds())/n, float64(size)/n,
		float64((threadTime()-before).Nanoseconds())/n, sum)
}

// batches times SearchBatch on an index against one by one, and compares the answers. It
// returns the times of a query in microseconds.
func batches(s *set, name string, ix *postings.Index, k, nq, rounds int) (one, together float64) {
	ctx := context.Background()
	n := min(max(nq, 256), s.tests.Rows())
	queries := &vector.CSR{Ptr: s.tests.Ptr[:n+1], Index: s.tests.Index[:s.tests.Ptr[n]],
		Value: s.tests.Value[:s.tests.Ptr[n]], Cols: s.tests.Cols}
	searcher := postings.NewSearcher()
	single, batch, byRows := time.Duration(1<<62), time.Duration(1<<62), time.Duration(1<<62)
	want := make([][]postings.Hit, n)
	differ := 0
	strategies := map[postings.Strategy]int{}
	for range rounds {
		before := threadTime()
		for q := range n {
			var err error
			if want[q], _, err = searcher.Search(ctx, ix, queries.Row(q), k,
				postings.SearchParams{}, want[q][:0]); err != nil {
				panic(err)
			}
		}
		single = min(single, threadTime()-before)
		for always, best := range map[bool]*time.Duration{false: &batch, true: &byRows} {
			before = threadTime()
			err := searcher.SearchBatch(ctx, ix, queries, k, postings.SearchParams{ByRows: always},
				func(q int, hits []postings.Hit, stats postings.Stats) error {
					if !slices.Equal(want[q], hits) {
						differ++
					}
					if !always {
						strategies[stats.Strategy]++
					}
					return nil
				})
			if err != nil {
				panic(err)
			}
			*best = min(*best, threadTime()-before)
		}
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	fmt.Printf("  %s of %d: %.1f µs a query, one by one %.1f: %.2f x, %d differ, %v; by rows %.1f\n",
		name, n, each(batch), each(single),
		float64(single)/float64(batch), differ, strategies, each(byRows))
	return each(single), each(batch)
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
