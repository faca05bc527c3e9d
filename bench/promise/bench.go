package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// bench measures one data set.
type bench struct {
	set     *vectors.Set
	path    string
	only    *regexp.Regexp
	queries int
	d       *db.DB
	rows    db.Collection
	asked   [][]float32
	short   int
}

// run builds the database and measures all scenarios. It returns the number of short cells.
func (b *bench) run(ctx context.Context) (short int, err error) {
	b.ask()
	if err := b.open(ctx); err != nil {
		return 0, err
	}
	defer func() {
		if e := b.d.Close(); err == nil {
			err = e
		}
	}()
	b.head()
	for _, s := range b.scenarios() {
		if !b.only.MatchString(s.name) {
			continue
		}
		if err := b.measure(ctx, s); err != nil {
			return b.short, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.short, b.shrink(ctx)
}

// ask takes the queries.
func (b *bench) ask() {
	for _, rows := range [][]float32{b.set.Test, b.set.Valid} {
		for i := 0; i < len(rows) && len(b.asked) < b.queries; i += b.set.Dim {
			b.asked = append(b.asked, rows[i:i+b.set.Dim])
		}
	}
}

// head prints the head of the table.
func (b *bench) head() {
	fmt.Printf("\n%s: %d rows of %d coordinates, %d queries; delivered recall and median µs for each asked one\n",
		b.set.Name, b.set.Rows(), b.set.Dim, len(b.asked))
	fmt.Printf("%-26s %4s", "rows", "k")
	for _, r := range recalls {
		fmt.Printf("  %14.2f", r)
	}
	fmt.Println()
}

func manual() *db.Options { return &db.Options{Maintenance: &maintenance.Policy{Manual: true}} }

// open opens the database of the set, and builds it if there is none.
func (b *bench) open(ctx context.Context) (err error) {
	_, err = os.Stat(b.path)
	exists := err == nil
	if b.d, err = db.Open(ctx, b.path, manual()); err != nil {
		return err
	}
	b.rows = b.d.Collection("rows")
	if exists {
		return nil
	}
	return b.build(ctx, b.each())
}

// build loads rows into a new collection and builds its index.
func (b *bench) build(ctx context.Context, rows iter.Seq2[db.Row, error]) (err error) {
	if b.rows, err = b.d.Create(ctx, "rows", db.Schema{Dim: b.set.Dim, Metric: b.set.Metric}); err != nil {
		return err
	}
	if _, err = b.rows.Load(ctx, rows, nil); err != nil {
		return err
	}
	_, err = b.rows.Build(ctx, "main", nil, nil)
	return err
}

// classes is the number of labels, which divide the rows by the nearest of as many of them.
const classes = 10

// each returns the rows of the set with their labels.
func (b *bench) each() iter.Seq2[db.Row, error] {
	labels := make([]string, b.set.Rows())
	_ = par.Each(context.Background(), par.Work{N: len(labels), Grain: 256}, func(i int) error {
		labels[i] = className(b.class(b.row(i)))
		return nil
	})
	return func(yield func(db.Row, error) bool) {
		for i := range b.set.Rows() {
			row := db.Row{
				Key: fmt.Append(nil, i), Vector: b.row(i), Labels: labels[i : i+1],
				Attributes: map[string]any{"price": price(i)},
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// price is an attribute from 0 to 100 that is unrelated to the vector of row i.
func price(i int) float64 { return float64(i*7919%10007) * 100 / 10007 }

func (b *bench) row(i int) []float32 { return b.set.Base[i*b.set.Dim : (i+1)*b.set.Dim] }

// class returns the number of the class of a vector.
func (b *bench) class(x []float32) int {
	best, least := 0, float32(0)
	for c := range classes {
		d := vector.L2Squared(x, b.row(c*b.set.Rows()/classes))
		if c == 0 || d < least {
			best, least = c, d
		}
	}
	return best
}

func className(c int) string { return fmt.Sprintf("class%d", c) }

// measure prints the lines of a scenario.
func (b *bench) measure(ctx context.Context, s scenario) error {
	// Filters and exact answers of all queries.
	options := make([]db.SearchOptions, len(b.asked))
	truth := make([][]db.Hit, len(b.asked))
	top := slices.Max(ks)
	err := par.Each(ctx, par.Work{N: len(b.asked)}, func(i int) (err error) {
		if err = s.restrict(b.asked[i], &options[i]); err != nil {
			return err
		}
		o := options[i]
		o.Index, o.K = db.Flat, top
		res, err := b.rows.Search(ctx, db.Query{Vector: b.asked[i]}, &o)
		truth[i] = res.Hits
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range ks {
		fmt.Printf("%-26s %4d", s.name, k)
		for _, asked := range recalls {
			got, micros, err := b.cell(ctx, options, truth, k, asked)
			if err != nil {
				return err
			}
			mark := " "
			if got < asked-slack {
				mark = "!"
				b.short++
			}
			fmt.Printf("  %s%.3f %7.0f", mark, got, micros)
		}
		fmt.Println()
	}
	return nil
}

// cell returns the mean recall of all queries and their median time in microseconds.
func (b *bench) cell(
	ctx context.Context, options []db.SearchOptions, truth [][]db.Hit, k int, asked float64,
) (recall, micros float64, err error) {
	times := make([]float64, 0, len(b.asked))
	counted := 0
	var reuse []db.Hit
	for i, q := range b.asked {
		want := truth[i][:min(k, len(truth[i]))]
		if len(want) == 0 {
			continue
		}
		o := options[i]
		o.K, o.Recall, o.Index, o.Reuse = k, asked, "main", reuse
		start := time.Now()
		res, err := b.rows.Search(ctx, db.Query{Vector: q}, &o)
		times = append(times, float64(time.Since(start))/1e3)
		if err != nil {
			return 0, 0, err
		}
		found := 0
		for _, h := range res.Hits {
			if h.Distance <= want[len(want)-1].Distance {
				found++
			}
		}
		recall += float64(min(found, len(want))) / float64(len(want))
		counted++
		reuse = res.Hits
	}
	slices.Sort(times)
	if counted == 0 {
		return 1, 0, nil
	}
	return recall / float64(counted), times[len(times)/2], nil
}
