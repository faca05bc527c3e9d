// Command text measures searches of texts by words, by vectors and by both, on WordNet: 60,000 definitions,
// and 2,000 example sentences that each belong to one of them.
//
//	go run ./bench/text -data ../shared/data
//
// It prints the mean reciprocal rank of that definition among the first 10, the share of queries whose
// definition is among the first 1, 10 and 100, and the median time of a search for 10 rows on one
// goroutine. The weight of the fusion "tuned" is chosen by db.TuneFusion on every second query, and measured,
// like all others, on the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/vector"
)

func main() {
	data := flag.String("data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	analyzer := flag.String("analyzer", "english", "analyzer of the texts")
	flag.Parse()
	if *data == "" {
		fmt.Fprintln(os.Stderr, "text: SKIPPED: no -data, no ANNDB_DATA")
		return
	}
	if err := run(context.Background(), filepath.Join(*data, "wordnet"), *analyzer); err != nil {
		fmt.Fprintln(os.Stderr, "text:", err)
		os.Exit(1)
	}
}

// document is a row or a query.
type document struct {
	key    string
	text   string
	vector []float32
}

// read reads texts and their vectors.
func read(folder, name string) (out []document, err error) {
	texts, err := dataset.Open(filepath.Join(folder, name+".jsonl.gz"), dataset.Options{
		Kind: dataset.Text, IgnoreColumns: []string{"words", "labels"},
	})
	if err != nil {
		return nil, err
	}
	defer texts.Close()
	vectors, err := dataset.Open(filepath.Join(folder, name+".f16.npy.gz"), dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer vectors.Close()
	for {
		var t, v dataset.Record
		if err := texts.Read(&t); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if err := vectors.Read(&v); err != nil {
			return nil, err
		}
		out = append(out, document{string(t.Key), t.Text, v.Vector})
	}
}

func run(ctx context.Context, folder, analyzer string) error {
	rows, err := read(folder, "rows")
	if err != nil {
		return err
	}
	queries, err := read(folder, "queries")
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "text")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	d, err := db.Open(ctx, filepath.Join(scratch, "t.anndb"), &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := load(ctx, d, rows, analyzer)
	if err != nil {
		return err
	}
	b := bench{c: c, queries: queries}
	return b.table(ctx)
}

// load stores and indexes the rows.
func load(ctx context.Context, d *db.DB, rows []document, analyzer string) (c db.Collection, err error) {
	c, err = d.Create(ctx, "docs", db.Schema{
		Dim: len(rows[0].vector), Metric: vector.Cosine, Text: &db.TextSchema{Analyzer: analyzer},
	})
	if err != nil {
		return c, err
	}
	start := time.Now()
	_, err = c.Load(ctx, func(yield func(db.Row, error) bool) {
		for _, r := range rows {
			if !yield(db.Row{Key: []byte(r.key), Text: r.text, Vector: r.vector}, nil) {
				return
			}
		}
	}, nil)
	if err != nil {
		return c, err
	}
	stored := time.Since(start)
	words, err := c.Build(ctx, "words", &index.Postings{}, nil)
	if err != nil {
		return c, err
	}
	indexed := time.Since(start) - stored
	_, err = c.Build(ctx, "vectors", &index.Forest{}, nil)
	if err != nil {
		return c, err
	}
	fmt.Printf("%d rows: stored in %.1f s, words indexed in %.1f s (%.1f MB), vectors in %.1f s\n\n", len(rows),
		stored.Seconds(), indexed.Seconds(), float64(words.Bytes["postings"])/1e6,
		(time.Since(start) - stored - indexed).Seconds())
	return c, nil
}

// bench measures searches.
type bench struct {
	c       db.Collection
	queries []document
}

// way is a way to search for a query.
type way struct {
	name   string
	query  func(q document) db.Query
	fusion *db.Fusion
}

func (b *bench) table(ctx context.Context) error {
	text := func(q document) db.Query { return db.Query{Text: plain(q.text)} }
	vectors := func(q document) db.Query { return db.Query{Vector: q.vector} }
	both := func(q document) db.Query { return db.Query{Text: plain(q.text), Vector: q.vector} }
	tuned, err := b.tune(ctx, both)
	if err != nil {
		return err
	}
	fmt.Println("| search | MRR@10 | recall@1 | @10 | @100 | µs |\n|---|---:|---:|---:|---:|---:|")
	for _, w := range []way{
		{"words (BM25)", text, nil},
		{"vectors", vectors, nil},
		{"both, reciprocal ranks", both, &db.Fusion{Ranks: true}},
		{fmt.Sprintf("both, default (%.2g of the vector)", db.DefaultWeight), both, &db.Fusion{Weight: db.DefaultWeight}},
		{fmt.Sprintf("both, tuned (%.2g of the vector)", tuned.Weight), both, nil},
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
func plain(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c == '"' || c == '-' || c == '+' {
			out[i] = ' '
		}
	}
	return string(out)
}

// quality is how well a search finds the rows that the queries belong to.
type quality struct {
	reciprocal float64
	recall     [3]float64 // among the first 1, 10 and 100
}

// measure searches for every second query.
func (b *bench) measure(ctx context.Context, w way) (out quality, err error) {
	n := 0.0
	for i := 1; i < len(b.queries); i += 2 {
		q := b.queries[i]
		n++
		res, err := b.c.Search(ctx, w.query(q), &db.SearchOptions{K: 100, Fusion: w.fusion})
		if err != nil {
			return out, err
		}
		at := slices.IndexFunc(res.Hits, func(h db.Hit) bool { return string(h.Key) == q.key })
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
func (b *bench) tune(ctx context.Context, query func(document) db.Query) (db.FusionTuning, error) {
	var queries []db.Query
	var keys [][]byte
	for i := 0; i < len(b.queries); i += 2 {
		queries, keys = append(queries, query(b.queries[i])), append(keys, []byte(b.queries[i].key))
	}
	start := time.Now()
	t, err := b.c.TuneFusion(ctx, queries, keys, nil)
	if err != nil {
		return t, err
	}
	fmt.Printf("tuned on %d pairs in %.2f s, MRR@10 of words %.3f, vectors %.3f, reciprocal ranks %.3f, default %.3f, "+
		"tuned %.3f; weight %.2f %s\n\n", len(keys), time.Since(start).Seconds(), t.Text, t.Vector, t.Ranks, t.Default,
		t.Tuned, t.Weight, t.Kept)
	return t, nil
}

// time returns the median of the microseconds of a search, the fastest of three rounds.
func (b *bench) time(ctx context.Context, w way) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []float64
	o := &db.SearchOptions{K: 10, Fusion: w.fusion}
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
