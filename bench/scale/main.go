// Command scale builds one large collection of generated rows and measures searches of its file: the
// memory and the time of each stage of the build, and the recall, time and page reads of queries. The
// file stays for another run, for instance under a limit of memory.
//
//	go run ./bench/scale -set own32-1m -file rows.anndb -build
//	go run ./bench/scale -set own32-1m -file rows.anndb
package main

import (
	"context"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// collection and index are the names in the file.
const collection, index = "rows", "main"

const (
	k = 10
	// tested is the number of queries.
	tested = 500
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	name := flag.String("set", "own32-300k", "generated set")
	file := flag.String("file", "", "database; its queries and true answers are in a file next to it")
	build := flag.Bool("build", false, "build the file first")
	rounds := flag.Int("rounds", 3, "number of times that the queries are asked for each recall")
	flag.Parse()
	law, n, ok := vectors.Generated(*name)
	if !ok || *file == "" {
		return errors.New("name a generated set and a file")
	}
	if *build || !exists(truthOf(*file)) {
		g := vectors.NewGenerator(*law, 1)
		if *build {
			if err := makeFile(ctx, g, n, *file); err != nil {
				return err
			}
		}
		if err := writeTruth(ctx, g, *file); err != nil {
			return err
		}
	}
	return search(ctx, *file, *rounds)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// importRows loads the rows of a set into a new file and reorders them.
func importRows(ctx context.Context, g *vectors.Generator, n int, file string, m *meter) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	d, err := db.Open(ctx, file, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer d.Close()
	rows, err := d.Create(ctx, collection, db.Schema{Dim: g.Dim()})
	if err != nil {
		return err
	}
	m.stage("import")
	if _, err := rows.Load(ctx, generated(g, n), &db.LoadOptions{Run: m.run()}); err != nil {
		return err
	}
	m.stage("reorder")
	if err := d.Compact(ctx, &db.CompactOptions{Reorder: true, Run: m.run()}); err != nil {
		return err
	}
	return d.Close()
}

// makeFile imports and reorders the rows, builds the index and compacts the file.
func makeFile(ctx context.Context, g *vectors.Generator, n int, file string) error {
	start, m := time.Now(), newMeter()
	defer m.close()
	if err := importRows(ctx, g, n, file, m); err != nil {
		return err
	}
	d, err := db.Open(ctx, file, &db.Options{Maintenance: &maintenance.Policy{Manual: true}, MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	run := m.run()
	info, err := d.Collection(collection).Build(ctx, index, nil, &run)
	if err != nil {
		return err
	}
	m.stage("compact")
	if err := d.Compact(ctx, nil); err != nil {
		return err
	}
	m.print()
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%d rows in %.0f s, file %d MB, %.0f bytes a row next to the vector\n", n,
		time.Since(start).Seconds(), st.Size()>>20, float64(st.Size())/float64(n)-4*float64(g.Dim()))
	if near := info.Neighbors; near != nil {
		fmt.Printf("recall of the neighbor lists %.4f, share of rows reached %.4f, bytes %v\n", near.Recall,
			info.Reached, info.Bytes)
	}
	return d.Close()
}

// generated yields the rows, with their numbers as keys.
func generated(g *vectors.Generator, n int) iter.Seq2[db.Row, error] {
	const group = 8192
	return func(yield func(db.Row, error) bool) {
		buf := make([]float32, group*g.Dim())
		for first := 0; first < n; first += group {
			part := buf[:min(group, n-first)*g.Dim()]
			g.Fill(1, first, part)
			for i := range len(part) / g.Dim() {
				key := strconv.AppendInt(nil, int64(first+i), 10)
				if !yield(db.Row{Key: key, Vector: part[i*g.Dim() : (i+1)*g.Dim()]}, nil) {
					return
				}
			}
		}
	}
}

// queries are the test queries of a set.
func queries(g *vectors.Generator) (list []db.Query) {
	all := g.Rows(2, tested)
	for q := range slices.Chunk(all, g.Dim()) {
		list = append(list, db.Query{Vector: q})
	}
	return list
}

// truth is the file next to the database. With the queries in it, searches under a limit of memory do not
// have the generator, which holds the directions of all clusters.
type truth struct {
	Queries  []db.Query
	Farthest []float32 // distance of the farthest true answer of each query
}

func truthOf(file string) string { return file + ".truth" }

// writeTruth stores the queries and their true answers, found by exact scans.
func writeTruth(ctx context.Context, g *vectors.Generator, file string) error {
	d, err := db.Open(ctx, file, &db.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	t := truth{Queries: queries(g)}
	found, err := d.Collection(collection).SearchBatch(ctx, t.Queries, &db.SearchOptions{K: k, Index: db.Flat})
	if err != nil {
		return err
	}
	for _, r := range found {
		t.Farthest = append(t.Farthest, r.Hits[k-1].Distance)
	}
	f, err := os.Create(truthOf(file))
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(t), f.Close())
}

// search asks all queries for several recalls, one by one, and prints what they took.
func search(ctx context.Context, file string, rounds int) error {
	var t truth
	f, err := os.Open(truthOf(file))
	if err != nil {
		return err
	}
	if err := errors.Join(gob.NewDecoder(f).Decode(&t), f.Close()); err != nil {
		return fmt.Errorf("%s (delete it to make it again): %w", truthOf(file), err)
	}
	d, err := db.Open(ctx, file, &db.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Snapshot()
	if err != nil {
		return err
	}
	defer s.Release()
	rows, list := s.Collection(collection), t.Queries
	var hits []db.Hit
	fmt.Println("recall      found   mean µs   p50   p99   sketches  exact   faults  reads")
	for _, recall := range []float64{0.9, 0.95, 0.99} {
		for round := range rounds {
			var times []float64
			right, sketched, exact := 0, 0, 0
			start, before := time.Now(), process.ReadSoFar()
			for i, q := range list {
				at := time.Now()
				res, err := rows.Search(ctx, q, &db.SearchOptions{K: k, Recall: recall, Reuse: hits})
				if err != nil {
					return err
				}
				times = append(times, time.Since(at).Seconds()*1e6)
				hits = res.Hits
				for _, h := range hits {
					if h.Distance <= t.Farthest[i] {
						right++
					}
				}
				sketched, exact = sketched+res.Stats.Sketched, exact+res.Stats.Exact
			}
			mean, after, n := time.Since(start).Seconds()*1e6/tested, process.ReadSoFar(), float64(len(list))
			slices.Sort(times)
			fmt.Printf("%-6g %d    %.4f  %7.1f  %6.1f %6.1f   %7.0f %6.1f %7.2f %7.2f\n", recall, round+1,
				float64(right)/(k*n), mean, times[len(times)/2], times[len(times)*99/100],
				float64(sketched)/n, float64(exact)/n, float64(after.Faults-before.Faults)/n,
				float64(after.Bytes-before.Bytes)/4096/n)
		}
	}
	return batches(ctx, rows, list)
}

// batches compares batches on one and on two threads.
func batches(ctx context.Context, rows db.Collection, list []db.Query) error {
	var seconds [2]float64
	for round := range 5 {
		for i, threads := range []int{1, 2} {
			start := time.Now()
			if _, err := rows.SearchBatch(ctx, list, &db.SearchOptions{K: k, Workers: threads}); err != nil {
				return err
			}
			if t := time.Since(start).Seconds(); round == 0 || t < seconds[i] {
				seconds[i] = t
			}
		}
	}
	fmt.Printf("batches of %d: %.1f µs a query on one thread, %.1f on two, %.2f times as fast\n", len(list),
		seconds[0]*1e6/tested, seconds[1]*1e6/tested, seconds[0]/seconds[1])
	return nil
}
