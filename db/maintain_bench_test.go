package db_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
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
			d, err := db.Open(filepath.Join(b.TempDir(), "a.anndb"), nil)
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
					if _, err := d.Collection("c").Build(ctx, name, &o); err != nil {
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
					if _, err := d.Maintain(ctx, 0); err != nil {
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

// BenchmarkMaintainTrees replaces one row in a hundred of a budgeted tree's by
// rows that it has not seen, lets the tree follow them, and builds it again. A step
// should take at most a second or a tenth of a build. The unseen rows are 5 % of the
// data set, drawn at random.
func BenchmarkMaintainTrees(b *testing.B) {
	for _, c := range []struct {
		file, kind string
		o          db.IndexOptions
	}{
		{"bibtex/bibtex-train.arff.gz", "at", &db.AT{Weight: "tfidf"}},
		{"bibtex/bibtex-train.arff.gz", "pt", &db.PT{Weight: "tfidf"}},
		{"delicious/delicious-train.arff.gz", "at", &db.AT{Weight: "tfidf"}},
		{"delicious/delicious-train.arff.gz", "pt", &db.PT{Weight: "tfidf"}},
		{"eurlex57k/eurlex57k-train.txt.gz", "at", &db.AT{Weight: "tfidf"}},
		{"eurlex57k/eurlex57k-train.txt.gz", "pt", &db.PT{Weight: "tfidf"}},
		{"news20-bydate/news20-bydate-train.txt.gz", "sbt", &db.SBT{
			Budget: 2000, Params: budget.Params{BAC: budget.BACParams{C: 1}}, Weight: "tfidf",
		}},
	} {
		b.Run(fmt.Sprintf("%s/%s", filepath.Dir(c.file), c.kind), func(b *testing.B) {
			rows := readLabelled(b, c.file)
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			n := len(rows) - len(rows)/20
			d, err := db.Open(filepath.Join(b.TempDir(), "a.anndb"), nil)
			must(b, err)
			defer d.Close()
			ctx := b.Context()
			keys := rand.New(rand.NewPCG(3, 4)).Perm(n)
			put := func(from, to int) {
				err := d.Update(ctx, func(batch *db.Tx) error {
					for i := from; i < to; i++ {
						r := rows[i%len(rows)]
						r.Key = fmt.Append(nil, i)
						if i >= n {
							r = rows[n+(i-n)%(len(rows)-n)]
							r.Key = fmt.Append(nil, keys[(i-n)%n])
						}
						if err := batch.Collection("c").Put(r); err != nil {
							return err
						}
					}
					return nil
				})
				must(b, err)
			}
			if _, err := d.Create(ctx, "c", db.Schema{Sparse: true}); err != nil {
				b.Fatal(err)
			}
			put(0, n)
			if _, err := d.Collection("c").Build(ctx, "x", c.o); err != nil {
				b.Fatal(err)
			}
			var follow, build time.Duration
			at, read := n, 0
			for b.Loop() {
				put(at, at+n/100)
				at += n / 100
				start := time.Now()
				steps, err := d.Maintain(ctx, 0)
				follow += time.Since(start)
				if err != nil || len(steps) != 1 || steps[0].Action == "relearn" {
					b.Fatal(steps, err)
				}
				read += steps[0].Rows
				start = time.Now()
				if _, err := d.Collection("c").Build(ctx, "x", c.o); err != nil {
					b.Fatal(err)
				}
				build += time.Since(start)
			}
			b.ReportMetric(follow.Seconds()*1000/float64(b.N), "ms/follow")
			b.ReportMetric(build.Seconds()*1000/float64(b.N), "ms/build")
			b.ReportMetric(100*follow.Seconds()/build.Seconds(), "%")
			b.ReportMetric(float64(read)/float64(b.N), "rows-read")
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
