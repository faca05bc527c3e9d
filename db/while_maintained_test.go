package db_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
)

// BenchmarkQueryWhileMaintained asks one query after the other while 1 % fresh
// rows wait to be folded into a forest over the images of Fashion-MNIST, and
// while the background folds them in, with its default bound on the processor:
// in turn, several times over, each query over a snapshot of its own. It reports
// medians and the 99th of 100, in µs, and how many times as long the median is.
//
// For the figures of the project it is run with -benchtime 8x.
func BenchmarkQueryWhileMaintained(b *testing.B) {
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "fashion-mnist")
	if _, err := os.Stat(dir); err != nil {
		b.Skipf("SKIPPED: %v; ANNDB_DATA names the folder with the data sets", err)
	}
	const fold = 540
	rows := images(b, filepath.Join(dir, "train-images-idx3-ubyte.gz"), 60_000)
	queries := images(b, filepath.Join(dir, "t10k-images-idx3-ubyte.gz"), 1000)
	ctx := context.Background()
	// It looks often, so that the benchmark waits little; how much of a
	// processor it may take is the default.
	d, err := db.Open(ctx, filepath.Join(b.TempDir(), "db"), &db.Options{Maintenance: &db.Maintenance{Every: 10 * time.Millisecond, Share: 0.001}})
	must(b, err)
	defer func() { must(b, d.Close()) }()
	resume := d.PauseMaintenance()
	must(b, create(ctx, d, "c", db.Schema{Dim: 28 * 28}))
	put := func(lo, hi int) {
		must(b, d.Update(ctx, func(batch *db.Tx) error {
			for i := lo; i < hi; i++ {
				if err := batch.Collection("c").Put(db.Row{Key: fmt.Append(nil, i), Vector: rows[i]}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	at := len(rows) - 10*fold // more rounds would have the forest relearned
	put(0, at)
	_, err = d.Collection("c").Build(ctx, "main", nil, nil)
	must(b, err)
	var hits []db.Hit
	i := 0
	o := &db.SearchOptions{Recall: 0.95}
	ask := func() time.Duration {
		start := time.Now()
		must(b, d.View(func(s *db.Snapshot) (err error) {
			hits, _, err = nearestInto(ctx, s.Collection("c"), db.Query{Vector: queries[i%len(queries)]}, 10, o, hits[:0])
			return err
		}))
		i++
		return time.Since(start)
	}
	state := func() (fresh int, working bool) {
		st, err := d.Stats()
		must(b, err)
		return st.Indexes[0].Fresh, st.Maintenance.Working
	}
	for range 5000 {
		ask()
	}
	var alone, beside []time.Duration
	b.ResetTimer()
	for range b.N {
		if at+fold > len(rows) {
			b.Fatalf("at most 10 rounds")
		}
		put(at, at+fold)
		at += fold
		for range 500 {
			ask() // what a new generation costs is not the subject
		}
		for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
			alone = append(alone, ask())
		}
		resume()
		for {
			fresh, working := state()
			if fresh == 0 {
				break
			}
			for range 100 {
				if t := ask(); working {
					beside = append(beside, t)
				}
			}
		}
		d.PauseMaintenance()
	}
	b.StopTimer()
	slices.Sort(alone)
	slices.Sort(beside)
	us := func(of []time.Duration, share float64) float64 {
		return float64(of[int(share*float64(len(of)-1))].Nanoseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us(alone, 0.5), "alone-µs")
	b.ReportMetric(us(beside, 0.5), "beside-µs")
	b.ReportMetric(us(beside, 0.5)/us(alone, 0.5), "times")
	b.ReportMetric(us(alone, 0.99), "alone-p99-µs")
	b.ReportMetric(us(beside, 0.99), "beside-p99-µs")
	b.ReportMetric(float64(len(beside)), "queries-beside")
}
