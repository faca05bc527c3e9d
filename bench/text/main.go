// Command text measures searches of texts by words, by vectors and by both.
//
//	go run ./bench/text -data ../shared/data                 # WordNet: 60,000 definitions, 2,000 examples
//	go run ./bench/text -data ../shared/data -peers          # next to bleve, SQLite and chromem-go
//	go run ./bench/text -data ../shared/data -many 1000000   # short texts by three words
//
// It prints the mean reciprocal rank of the definition that a sentence belongs to among the first 10, the
// share of queries whose definition is among the first 1, 10 and 100, and the median time of a search for
// 10 rows on one goroutine. The weight of the fusion "tuned" is chosen by db.TuneFusion on every second
// query, and measured, like all others, on the rest.
//
// With -peers all answer in turn, each as a process of its own, which bench/peers/build gopeers makes; the
// times are the least of three rounds, or of one if that takes more than ten seconds. A top 10 is right
// if its scores are those of the reference, in float64 from the definition of BM25.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/rank"
)

func main() {
	data := flag.String("data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	analyzer := flag.String("analyzer", "english", "analyzer of the texts")
	withPeers := flag.Bool("peers", false, "measure next to other libraries")
	sets := flag.String("sets", "WordNet,20 Newsgroups,EURLEX57K", "with -peers, sets to measure on")
	queries := flag.Int("queries", 1000, "with -peers, number of queries")
	parts := flag.String("parts", "words,vectors,both", "with -peers, what is searched by")
	driver := flag.String("driver", "bench/peers/bin/gopeers",
		"with -peers, what bench/peers/build gopeers has made")
	rows := flag.Int("many", 0, "measure among so many short texts of words that are drawn")
	serve := flag.Bool("child", false, "answer on standard input, as -peers asks")
	flag.Parse()
	ctx := context.Background()
	var err error
	switch {
	case *serve:
		err = child.ServeTexts(ctx, &engine{analyzer: *analyzer}, os.Stdin, os.Stdout)
	case *data == "":
		fmt.Fprintln(os.Stderr, "text: SKIPPED: no -data, no ANNDB_DATA")
	case *rows > 0:
		err = many(ctx, *data, *analyzer, *rows)
	case *withPeers:
		err = compareAll(*data, strings.Split(*sets, ","), func(s *set) error {
			return s.compare(ctx, peers(*parts), *queries, *analyzer, *driver)
		})
	default:
		err = measureQuality(ctx, *data, *analyzer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "text:", err)
		os.Exit(1)
	}
}

// compareAll calls measure for the sets with the names.
func compareAll(data string, names []string, measure func(*set) error) error {
	for _, name := range names {
		var s *set
		var err error
		if name == "WordNet" {
			s, err = wordnet(data)
		} else {
			s, err = ofCounts(data, name)
		}
		if err == nil {
			err = measure(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measureQuality prints how well WordNet's definitions are found.
func measureQuality(ctx context.Context, data, analyzer string) error {
	s, err := wordnet(data)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "text")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	path := filepath.Join(scratch, "t.anndb")
	start := time.Now()
	built, err := load(ctx, path, schemaOf(s.rows, analyzer), slices.Values(s.rows))
	if err != nil {
		return err
	}
	fmt.Printf("%d rows: stored and indexed in %.1f s, words %.1f MB\n\n", len(s.rows),
		time.Since(start).Seconds(), float64(built[0].Bytes["postings"])/1e6)
	d, err := db.Open(ctx, path, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer d.Close()
	b := bench{d.Collection("docs"), s}
	return b.table(ctx)
}

// bench measures searches.
type bench struct {
	c db.Collection
	*set
}

// way is a way to search for a query.
type way struct {
	name  string
	query func(q child.Document) db.Query
	rank  rank.Options
}

func (b *bench) table(ctx context.Context) error {
	text := func(q child.Document) db.Query { return db.Query{Text: plain(q.Text)} }
	vectors := func(q child.Document) db.Query { return db.Query{Vector: q.Vector} }
	both := func(q child.Document) db.Query { return db.Query{Text: plain(q.Text), Vector: q.Vector} }
	tuned, err := b.tune(ctx, both)
	if err != nil {
		return err
	}
	fmt.Println("| search | MRR@10 | recall@1 | @10 | @100 | µs |\n|---|---:|---:|---:|---:|---:|")
	for _, w := range []way{
		{"words (BM25)", text, rank.Options{}},
		{"vectors", vectors, rank.Options{}},
		{"both, reciprocal ranks", both, rank.Options{Reciprocal: true}},
		{fmt.Sprintf("both, default (%.2g of the vector)", rank.DefaultWeight), both,
			rank.Options{Weight: rank.DefaultWeight}},
		{fmt.Sprintf("both, tuned (%.2g of the vector)", tuned.Weight), both, rank.Options{}},
	} {
		q, err := b.measure(ctx, w)
		if err != nil {
			return err
		}
		micros, err := b.time(ctx, w)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.3f | %.3f | %.3f | %.3f | %.0f |\n", w.name, q.reciprocal, q.recall[0], q.recall[1],
			q.recall[2], micros)
	}
	return nil
}

// plain returns a text without the signs and quotes of queries.
var plain = strings.NewReplacer(`"`, " ", "-", " ", "+", " ").Replace

// quality is how well a search finds the rows that the queries belong to.
type quality struct {
	reciprocal float64
	recall     [3]float64 // among the first 1, 10 and 100
}

// measure searches for every second query.
func (b *bench) measure(ctx context.Context, w way) (out quality, err error) {
	n := 0.0
	for i := 1; i < len(b.queries); i += 2 {
		q, right := b.queries[i], strconv.Itoa(int(b.right[i]))
		n++
		res, err := b.c.Search(ctx, w.query(q), &db.SearchOptions{K: 100, Rank: w.rank})
		if err != nil {
			return out, err
		}
		at := slices.IndexFunc(res.Hits, func(h db.Hit) bool { return string(h.Key) == right })
		for j, k := range []int{1, 10, 100} {
			if at >= 0 && at < k {
				out.recall[j]++
			}
		}
		if at >= 0 && at < 10 {
			out.reciprocal += 1 / float64(at+1)
		}
	}
	out.reciprocal /= n
	for j := range out.recall {
		out.recall[j] /= n
	}
	return out, nil
}

// tune tunes the fusion on the other half of the queries.
func (b *bench) tune(ctx context.Context, query func(child.Document) db.Query) (rank.Tuning, error) {
	var queries []db.Query
	var keys [][]byte
	for i := 0; i < len(b.queries); i += 2 {
		queries = append(queries, query(b.queries[i]))
		keys = append(keys, strconv.AppendInt(nil, int64(b.right[i]), 10))
	}
	start := time.Now()
	t, err := b.c.TuneFusion(ctx, queries, keys, nil, nil)
	if err != nil {
		return t, err
	}
	fmt.Printf("tuned on %d pairs in %.2f s, MRR@10 of words %.3f, vectors %.3f, reciprocal ranks %.3f, "+
		"default %.3f, tuned %.3f; weight %.2f %s\n\n", len(keys), time.Since(start).Seconds(),
		t.Text, t.Vector, t.Ranks, t.Default, t.Tuned, t.Weight, t.Kept)
	return t, nil
}

// time returns the median of the microseconds of a search, the least of three in a row.
func (b *bench) time(ctx context.Context, w way) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []float64
	o := &db.SearchOptions{K: 10, Rank: w.rank}
	for i := 1; i < len(b.queries); i += 2 {
		least := 0.0
		for range 3 {
			start := time.Now()
			res, err := b.c.Search(ctx, w.query(b.queries[i]), o)
			if err != nil {
				return 0, err
			}
			o.Reuse = res.Hits
			if t := time.Since(start).Seconds() * 1e6; least == 0 || t < least {
				least = t
			}
		}
		took = append(took, least)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
