package db_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// images reads the first n images of an idx file.
func images(t testing.TB, path string, n int64) [][]float32 {
	t.Helper()
	r, err := dataset.Open(path, dataset.Options{Max: n})
	must(t, err)
	defer r.Close()
	var out [][]float32
	for {
		var rec dataset.Record
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out = append(out, rec.Vector)
	}
}

// TestFashion is the whole way on real images: 10,000 of Fashion-MNIST into
// the default index, and test images, which the index has never seen, as
// queries at a target recall.
func TestFashion(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out the test on Fashion-MNIST")
	}
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "fashion-mnist")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: nothing was tested on real images, since %v; ANNDB_DATA names the folder with the data sets", err)
	}
	rows := images(t, filepath.Join(dir, "train-images-idx3-ubyte.gz"), 10_000)
	queries := images(t, filepath.Join(dir, "t10k-images-idx3-ubyte.gz"), 200)

	b := newBed(t, vector.L2, 28*28)
	start := time.Now()
	for lo := 0; lo < len(rows); lo += 2500 {
		b.put(string(rune('a'+lo/2500)), rows[lo:lo+2500])
	}
	t.Logf("imported in %v", time.Since(start).Round(time.Millisecond))
	start = time.Now()
	info := b.build("main", nil)
	t.Logf("built in %v: %v", time.Since(start).Round(time.Millisecond), info.BuildSeconds)
	b.reopen()

	const k = 10
	for _, target := range []float64{0.95, 0.9} {
		o := &db.SearchOptions{Recall: target}
		found, compared := 0, 0
		for _, q := range queries {
			near, stats := b.search(q, k, o)
			truth, _ := b.search(q, k, &db.SearchOptions{Index: db.Flat})
			compared += stats.Exact
			for _, h := range near {
				// A row as near as the tenth is as good as the tenth.
				if h.Distance <= truth[k-1].Distance {
					found++
				}
			}
		}
		recall := float64(found) / float64(k*len(queries))
		t.Logf("target %.2f: recall %.4f with %d exact distances a query", target, recall, compared/len(queries))
		if recall < target-0.03 {
			t.Errorf("recall %.4f at target %.2f", recall, target)
		}
		if mean := compared / len(queries); mean > len(rows)/20 {
			t.Errorf("%d of %d rows were compared exactly: the index hardly helps", mean, len(rows))
		}
	}
	// The exact scan itself, against distances in double precision.
	for _, q := range queries[:3] {
		hits, _ := b.search(q, k, &db.SearchOptions{Index: db.Flat})
		b.same(q, hits, b.exact(q, nil)[:k], nil)
	}
	b.check()
}
