package db_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// BenchmarkMaintainLabels writes one row in a hundred of a label model's again,
// folds them in, and learns the model anew: the share of the time that folding
// takes is the figure to look at.
func BenchmarkMaintainLabels(b *testing.B) {
	for _, file := range []string{"bibtex/bibtex-train.arff.gz", "delicious/delicious-train.arff.gz", "eurlex57k/eurlex57k-train.txt.gz"} {
		b.Run(filepath.Dir(file), func(b *testing.B) {
			rows := readLabelled(b, file)
			d, err := db.Open(filepath.Join(b.TempDir(), "a.anndb"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			ctx := b.Context()
			put := func(from, to int) {
				err := d.Update(ctx, func(batch *db.Batch) error {
					for i := from; i < to; i++ {
						if err := batch.Put("c", rows[i%len(rows)]); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			if err := d.CreateSparse(ctx, "c", db.SparseOptions{}); err != nil {
				b.Fatal(err)
			}
			put(0, len(rows))
			o := db.BuildOptions{Kind: db.KindLCIF, LCIF: db.LCIFOptions{Params: &query.LCIFParams{K: 20, Lambda: 0.5}}}
			if _, err := d.Build(ctx, "c", "x", o, nil); err != nil {
				b.Fatal(err)
			}
			var fold, build time.Duration
			n := len(rows) / 100
			at := 0
			for b.Loop() {
				put(at, at+n)
				at += n
				start := time.Now()
				if _, err := d.Maintain(ctx, db.MaintainOptions{}); err != nil {
					b.Fatal(err)
				}
				fold += time.Since(start)
				start = time.Now()
				if _, err := d.Build(ctx, "c", "anew", o, nil); err != nil {
					b.Fatal(err)
				}
				build += time.Since(start)
				if err := d.DropIndex(ctx, "c", "anew"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(fold.Seconds()*1000/float64(b.N), "ms/fold")
			b.ReportMetric(build.Seconds()*1000/float64(b.N), "ms/build")
			b.ReportMetric(100*fold.Seconds()/build.Seconds(), "%")
		})
	}
}

// readLabelled reads the labelled rows of a data set.
func readLabelled(b *testing.B, file string) (rows []db.Row) {
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	path := filepath.Join(dir, filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil {
		b.Skipf("SKIPPED: %s was not read, since %v; ANNDB_DATA names the folder with the data sets", file, err)
	}
	r, err := dataset.OpenSparse(path, dataset.SparseOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var rec dataset.SparseRecord
	for {
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			b.Fatal(err)
		}
		row := db.Row{Key: fmt.Append(nil, len(rows)), Labels: append([]string(nil), rec.Labels...)}
		row.Sparse = vector.Sparse{Index: append([]uint32(nil), rec.Features.Index...), Value: append([]float32(nil), rec.Features.Value...)}
		rows = append(rows, row)
	}
}
