// Command cluster compares the answers of a cluster with those of one file behind a server, on the data
// sets of the benchmarks, and prints the median times of both. Exact answers are equal, or the exit code
// is 1.
//
//	anndb-cluster up FOLDER
//	go run ./bench/cluster -data ../shared/data -queries 200
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/server"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// bench is a run.
type bench struct {
	ctx           context.Context
	data          string // the folder of the data sets
	rows, queries int    // at most of each set, 0 for all
}

func main() {
	b := &bench{ctx: context.Background()}
	flag.StringVar(&b.data, "data", os.Getenv("ANNDB_DATA"), "folder of the data sets")
	flag.IntVar(&b.rows, "rows", 0, "at most so many of each set; 0 for all")
	flag.IntVar(&b.queries, "queries", 100, "of each kind of search")
	url := flag.String("gateway", "http://127.0.0.1:7700", "of the cluster")
	name := flag.String("cluster", "main", "its name")
	token := flag.String("token", "", "that the gateway wants")
	only := flag.String("sets", "", "names of data sets, with commas; all without it")
	flag.Parse()
	c, err := client.New(*url, &client.Options{Token: *token})
	for _, s := range sets {
		if err != nil || *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		if err = b.compare(c.File(*name), &s); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// set is a data set.
type set struct {
	name          string
	schema        db.Schema
	rows, queries string // files
	read          dataset.Options
	vectors       [2]string // of both
	build         index.Options
	searches      []search
}

// search is a kind of search: with the parts of the query that it has.
type search struct {
	name         string
	vector, rest bool
	index        string
	recall       bool         // is shown, and hits are not compared
	model        *lcif.Params // of a prediction in place of a search
}

var sets = []set{
	{
		name: "fashion-mnist", schema: db.Schema{Dim: 784},
		rows: "fashion-mnist/train-images-idx3-ubyte.gz", queries: "fashion-mnist/t10k-images-idx3-ubyte.gz",
		build: &index.Forest{Seed: 1},
		searches: []search{
			{name: "exact", vector: true, rest: true, index: db.Flat},
			{name: "at 0.95", vector: true, rest: true, recall: true},
		},
	},
	{
		name: "eurlex57k", schema: db.Schema{Sparse: true},
		rows: "eurlex57k/eurlex57k-train.txt.gz", queries: "eurlex57k/eurlex57k-test.txt.gz",
		build: &index.Postings{},
		searches: []search{
			{name: "sparse", vector: true, rest: true},
			// With given parameters labels are in the order of their scores, and not of probabilities, which several
			// models do not have.
			{name: "labels", vector: true, rest: true, model: &lcif.Params{K: 20, Alpha: 1, Beta: 1, Lambda: 0.5}},
		},
	},
	{
		name: "wordnet", schema: db.Schema{Text: &text.Schema{}, Dim: 512, Metric: vector.Cosine},
		rows: "wordnet/rows.jsonl.gz", queries: "wordnet/queries.jsonl.gz",
		vectors: [2]string{"wordnet/rows.f16.npy.gz", "wordnet/queries.f16.npy.gz"},
		read:    dataset.Options{Kind: dataset.Text, IgnoreColumns: []string{"words"}},
		build:   &index.Postings{},
		searches: []search{
			{name: "text", rest: true}, {name: "vector", vector: true, index: db.Flat},
			{name: "both", vector: true, rest: true, index: db.Flat},
		},
	},
}

// compare compares a set.
func (b *bench) compare(cluster client.File, s *set) (err error) {
	folder, err := os.MkdirTemp("", "anndb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	file, end, err := serveFile(b.ctx, filepath.Join(folder, "one.anndb"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	queries, err := b.questions(s)
	if err != nil {
		return err
	}
	var colls []client.Collection
	for i, f := range []client.File{file, cluster} {
		coll, err := f.Create(b.ctx, s.name, s.schema)
		if err != nil {
			return err
		}
		begin := time.Now()
		n, err := coll.Load(b.ctx, b.read(s, s.rows, s.vectors[0], b.rows), nil)
		if err != nil {
			return err
		}
		loaded := time.Since(begin)
		_, err = coll.Build(b.ctx, "main", s.build)
		for _, how := range s.searches {
			if err == nil && how.model != nil {
				_, err = coll.Build(b.ctx, how.name, &index.LCIF{Weight: "none", Params: how.model})
			}
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s, %s: %d rows in %.1f s, built in %.1f s\n", s.name, []string{"file", "cluster"}[i], n,
			loaded.Seconds(), (time.Since(begin) - loaded).Seconds())
		colls = append(colls, coll)
	}
	for _, how := range s.searches {
		if err := how.compare(b.ctx, s, colls, queries); err != nil {
			return fmt.Errorf("%s: %w", how.name, err)
		}
	}
	return nil
}

// serveFile serves a new file at an address of its own.
func serveFile(ctx context.Context, path string) (f client.File, end func() error, err error) {
	d, err := db.Open(ctx, path, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return f, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return f, nil, errors.Join(err, d.Close())
	}
	s := server.New(map[string]*db.DB{"one": d}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("server of the file", "error", err)
		}
	}()
	c, err := client.New("http://"+l.Addr().String(), nil)
	return c.File("one"), func() error {
		c.Close()
		return errors.Join(s.Shutdown(context.WithoutCancel(ctx)), d.Close())
	}, err
}

// read returns the first rows of a file of the set.
func (b *bench) read(s *set, path, vectors string, most int) iter.Seq2[db.Row, error] {
	o := s.read
	o.Context = b.ctx
	if vectors != "" {
		o.VectorsPath = filepath.Join(b.data, vectors)
	}
	return func(yield func(db.Row, error) bool) {
		n := 0
		for row, err := range rows.File(filepath.Join(b.data, path), o) {
			if most > 0 && n == most || !yield(row, err) {
				return
			}
			n++
		}
	}
}

// questions returns the queries of a set.
func (b *bench) questions(s *set) (out []db.Query, err error) {
	for row, err := range b.read(s, s.queries, s.vectors[1], b.queries) {
		if err != nil {
			return nil, err
		}
		q := db.Query{Vector: slices.Clone(row.Vector), Text: text.Plain(row.Text)} // the reader reuses its memory
		q.Sparse = vector.Sparse{Index: slices.Clone(row.Sparse.Index), Value: slices.Clone(row.Sparse.Value)}
		out = append(out, q)
	}
	return out, nil
}

// depth is how many rows each part of a query by both finds: of rows with equal scores at the end a file
// and a cluster, which number rows differently, find different ones, so that is where they are far from
// the hits.
const depth = 5000

// compare asks the file and the cluster in turn, and prints their median times.
func (how *search) compare(ctx context.Context, s *set, colls []client.Collection, queries []db.Query) error {
	o := &db.SearchOptions{Index: how.index}
	if how.vector && how.rest && s.schema.Text != nil {
		o.Rank.Depth = depth
	}
	predict := &db.PredictOptions{Index: how.name, Top: 5, Params: how.model}
	var times [2][]time.Duration
	var found [2]int // of all that are right
	all := 0
	for i, q := range queries {
		if !how.vector {
			q.Vector = nil
		}
		if !how.rest {
			q.Text = ""
		}
		var results [2]db.Result
		var labels [2]db.Predictions
		for of, coll := range colls {
			begin := time.Now()
			var err error
			if how.model != nil {
				labels[of], err = coll.Predict(ctx, q, predict)
			} else {
				results[of], err = coll.Search(ctx, q, o)
			}
			if err != nil {
				return err
			}
			times[of] = append(times[of], time.Since(begin))
		}
		if how.recall {
			right, err := colls[0].Search(ctx, q, &db.SearchOptions{Index: db.Flat})
			if err != nil {
				return err
			}
			all += len(right.Hits)
			for of := range results {
				found[of] += near(results[of].Hits, right.Hits)
			}
			continue
		}
		err := equal(results[0].Hits, results[1].Hits)
		if !slices.Equal(labels[0].Labels, labels[1].Labels) {
			err = fmt.Errorf("%v, want %v", labels[1].Labels, labels[0].Labels)
		}
		if err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
	}
	what := "equal bit for bit"
	if how.recall {
		what = fmt.Sprintf("recall %.3f of the file, %.3f of the cluster", float64(found[0])/float64(all),
			float64(found[1])/float64(all))
	}
	fmt.Printf("%s, %s: %d queries, %s; median %v of the file, %v of the cluster\n", s.name, how.name,
		len(queries), what, median(times[0]), median(times[1]))
	return nil
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2].Round(time.Microsecond)
}

// near counts the hits that are as near as the right ones.
func near(hits, right []db.Hit) (n int) {
	for _, h := range hits {
		if h.Distance <= right[len(right)-1].Distance {
			n++
		}
	}
	return n
}

// equal compares hits: distances bit for bit, and keys but for the order of those with equal distances, of
// which the last ones may be others.
func equal(want, got []db.Hit) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d hits, want %d", len(got), len(want))
	}
	keys := func(hits []db.Hit) (out []string) {
		for _, h := range hits {
			if h.Distance != want[len(want)-1].Distance {
				out = append(out, fmt.Sprintf("%x %s", math.Float64bits(float64(h.Distance)), h.Key))
			}
		}
		slices.Sort(out)
		return out
	}
	for i := range want {
		if got[i].Distance != want[i].Distance {
			return fmt.Errorf("hit %d: %s at %v, want %s at %v", i, got[i].Key, got[i].Distance, want[i].Key,
				want[i].Distance)
		}
	}
	if x, w := keys(got), keys(want); !slices.Equal(x, w) {
		return fmt.Errorf("hits %q, want %q", x, w)
	}
	return nil
}
