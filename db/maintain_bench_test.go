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
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// BenchmarkMaintainLabels gives one row in a hundred of a label model's the
// content of another row, folds the change in, and learns the model rebuilt: the
// share of the time that folding takes is the figure to look at. The model is
// learned with given parameters, which no tuner looked for; that of a build as
// it is by default is timed once. A commit of one small row is what the disk
// asks for whatever is in it.
func BenchmarkMaintainLabels(b *testing.B) {
	for _, file := range []string{"bibtex/bibtex-train.arff.gz", "delicious/delicious-train.arff.gz", "eurlex57k/eurlex57k-train.txt.gz"} {
		b.Run(filepath.Dir(file), func(b *testing.B) {
			rows := readLabelled(b, file)
			d, err := db.Open(b.Context(), filepath.Join(b.TempDir(), "a.anndb"), nil)
			must(b, err)
			defer d.Close()
			ctx := b.Context()
			put := func(coll string, from, to, shift int) {
				err := d.Update(ctx, func(batch *db.Tx) error {
					for i := from; i < to; i++ {
						row := rows[(i+shift)%len(rows)]
						row.Key = rows[i%len(rows)].Key
						if err := batch.Collection(coll).Put(row); err != nil {
							return err
						}
					}
					return nil
				})
				must(b, err)
			}
			timed := func(f func()) time.Duration {
				start := time.Now()
				f()
				return time.Since(start)
			}
			build := func(name string, o db.LCIF) func() {
				return func() {
					if _, err := d.Collection("c").Build(ctx, name, &o, nil); err != nil {
						b.Fatal(err)
					}
				}
			}
			for _, name := range []string{"c", "small"} {
				if _, err := d.Create(ctx, name, db.Schema{Sparse: true}); err != nil {
					b.Fatal(err)
				}
			}
			put("c", 0, len(rows), 0)
			tuned := timed(build("rebuilt", db.LCIF{}))
			given := db.LCIF{Params: &lcif.Params{K: 20, Lambda: 0.5}}
			build("x", given)()
			must(b, d.Collection("c").DropIndex(ctx, "rebuilt"))
			var commit, fold, rebuilt time.Duration
			n := len(rows) / 100
			at := 0
			for b.Loop() {
				put("c", at, at+n, len(rows)/2)
				commit += timed(func() { put("small", at, at+1, 0) })
				at += n
				fold += timed(func() {
					if _, err := d.Maintain(ctx, 0, nil); err != nil {
						b.Fatal(err)
					}
				})
				rebuilt += timed(build("rebuilt", given))
				must(b, d.Collection("c").DropIndex(ctx, "rebuilt"))
			}
			per := func(t time.Duration) float64 { return t.Seconds() * 1000 / float64(b.N) }
			b.ReportMetric(per(commit), "ms/commit")
			b.ReportMetric(per(fold), "ms/fold")
			b.ReportMetric(per(rebuilt), "ms/build")
			b.ReportMetric(tuned.Seconds()*1000, "ms/tuned-build")
			b.ReportMetric(100*per(fold)/per(rebuilt), "%")
			b.ReportMetric(100*per(fold)/(tuned.Seconds()*1000), "%-of-tuned")
		})
	}
}

// Read reads the labelled rows of a data set.
func readLabelled(b *testing.B, file string) (rows []db.Row) {
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	path := filepath.Join(dir, filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil {
		b.Skipf("SKIPPED: %s was not read, since %v; ANNDB_DATA names the folder with the data sets", file, err)
	}
	r, err := dataset.Open(path, dataset.Options{Kind: dataset.Sparse})
	must(b, err)
	defer r.Close()
	var rec dataset.Record
	for {
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			return rows
		}
		must(b, err)
		row := db.Row{Key: fmt.Append(nil, len(rows)), Labels: append([]string(nil), rec.Labels...)}
		row.Sparse = vector.Sparse{Index: append([]uint32(nil), rec.Features.Index...), Value: append([]float32(nil), rec.Features.Value...)}
		rows = append(rows, row)
	}
}
