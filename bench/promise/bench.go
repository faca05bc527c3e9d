package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"regexp"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// bench measures one data set.
type bench struct {
	set     *vectors.Set
	texts   [2][]string // of rows and queries, if there are any
	path    string
	only    *regexp.Regexp
	queries int
	d       *db.DB
	rows    db.Collection
	asked   [][]float32
	// short and slow are numbers of cells.
	short, slow int
}

// run builds the database and measures all scenarios.
func (b *bench) run(ctx context.Context) (err error) {
	b.ask()
	if err := b.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.d.Close()) }()
	b.head()
	if b.unlikeRows() {
		return b.unlike(ctx)
	}
	for _, s := range b.scenarios() {
		if !b.only.MatchString(s.name) {
			continue
		}
		if err := b.measure(ctx, s, 0); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.shrink(ctx)
}

// ask takes the queries.
func (b *bench) ask() {
	for _, rows := range [][]float32{b.set.Test, b.set.Valid} {
		for i := 0; i < len(rows) && len(b.asked) < b.queries; i += b.set.Dim {
			b.asked = append(b.asked, rows[i:i+b.set.Dim])
		}
	}
}

// manual leaves maintenance to calls, and keeps none of the measured queries.
func manual() *db.Options {
	return &db.Options{Maintenance: &maintenance.Policy{Manual: true}, SampleQueries: -1}
}

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
	schema := db.Schema{Dim: b.set.Dim, Metric: b.set.Metric}
	if b.texts[0] != nil {
		schema.Text = &text.Schema{Analyzer: "english"}
	}
	if b.rows, err = b.d.Create(ctx, "rows", schema); err != nil {
		return err
	}
	if _, err = b.rows.Load(ctx, rows, nil); err != nil {
		return err
	}
	if _, err = b.rows.Build(ctx, "main", &index.Forest{}, nil); err == nil && b.texts[0] != nil {
		_, err = b.rows.Build(ctx, "words", &index.Postings{}, nil)
	}
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
			if b.texts[0] != nil {
				row.Text = b.texts[0][i]
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
