package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// history is how the rows of a collection came to be.
type history struct {
	name string
	make func(context.Context) error
}

// histories measures the recall of collections that have grown since their index was built, and of
// rows that come and go.
func (b *bench) histories(ctx context.Context) error {
	b.ask()
	b.head()
	var all []history
	for _, first := range []int{100, 1000, 10000} {
		for _, times := range []int{10, 100} {
			if n := first * times; n <= b.set.Rows() {
				all = append(all, history{fmt.Sprintf("grown %d to %d", first, n), func(ctx context.Context) error {
					return b.grow(ctx, first, b.inOrder(n))
				}})
			}
		}
	}
	n := min(b.set.Rows(), 100_000)
	all = append(all,
		history{"every row twice", func(ctx context.Context) error {
			return b.grow(ctx, 2*n, slices.Concat(b.inOrder(n), b.inOrder(n)))
		}},
		history{"sorted insertion", func(ctx context.Context) error { return b.grow(ctx, n/20, b.sorted(n)) }},
		history{"20 clusters in turn", b.inTurn},
	)
	for _, h := range all {
		if !b.only.MatchString(h.name) {
			continue
		}
		if err := b.history(ctx, h); err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
	}
	return b.streams(ctx)
}

// history makes a collection and measures it.
func (b *bench) history(ctx context.Context, h history) (err error) {
	if err := b.create(ctx, b.path+".history", 0); err != nil {
		return err
	}
	asked := b.asked
	defer func() { b.asked, err = asked, errors.Join(err, b.drop()) }()
	if err := h.make(ctx); err != nil {
		return err
	}
	return b.measure(ctx, scenario{name: h.name, restrict: everything}, 0)
}

// create makes an empty collection in a new file, of which so many queries are sampled.
func (b *bench) create(ctx context.Context, path string, sample int) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	o := manual()
	o.SampleQueries = cmp.Or(sample, o.SampleQueries)
	if b.d, err = db.Open(ctx, path, o); err != nil {
		return err
	}
	b.rows, err = b.d.Create(ctx, "rows", db.Schema{Dim: b.set.Dim, Metric: b.set.Metric})
	return err
}

func (b *bench) drop() error { return errors.Join(b.d.Close(), os.Remove(b.d.Path())) }

// inOrder returns the numbers of n rows at equal steps of the set.
func (b *bench) inOrder(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i * b.set.Rows() / n
	}
	return out
}

// sorted returns the numbers of n rows, those first that are nearest to the first one.
func (b *bench) sorted(n int) []int {
	out := b.inOrder(n)
	slices.SortStableFunc(out, func(x, y int) int {
		return cmp.Compare(vector.L2Squared(b.row(0), b.row(x)), vector.L2Squared(b.row(0), b.row(y)))
	})
	return out
}

// grow builds an index over the first rows of a list and adds the others, a tenth of those present
// at a time, each followed by maintenance.
func (b *bench) grow(ctx context.Context, first int, list []int) error {
	if err := b.put(ctx, list[:first], 0); err != nil {
		return err
	}
	if _, err := b.rows.Build(ctx, "main", nil, nil); err != nil {
		return err
	}
	for have := first; have < len(list); {
		next := min(len(list), have+max(1, have/10))
		if err := b.put(ctx, list[have:next], have); err != nil {
			return err
		}
		if _, err := b.d.Maintain(ctx, 0.01, nil); err != nil {
			return err
		}
		have = next
	}
	_, err := b.d.Maintain(ctx, 0, nil)
	return err
}

// inTurn adds clusters of rows one after the other, each followed by maintenance: those that are nearest to a row,
// of all others. The index is built over the first. One row of a cluster for ten others is a query instead.
func (b *bench) inTurn(ctx context.Context) error {
	const clusters, size, queries = 20, 150, 15
	left, have := b.inOrder(b.set.Rows()), 0
	b.asked = nil
	for have < clusters*size {
		center := b.row(left[0])
		slices.SortStableFunc(left, func(x, y int) int {
			return cmp.Compare(b.distance(center, b.row(x)), b.distance(center, b.row(y)))
		})
		var cluster []int
		for i, row := range left[:size+queries] {
			if i%(size/queries+1) == 0 {
				b.asked = append(b.asked, b.row(row))
			} else {
				cluster = append(cluster, row)
			}
		}
		if err := b.put(ctx, cluster, have); err != nil {
			return err
		}
		if have == 0 {
			if _, err := b.rows.Build(ctx, "main", nil, nil); err != nil {
				return err
			}
		}
		if _, err := b.d.Maintain(ctx, 0.01, nil); err != nil {
			return err
		}
		left, have = left[size+queries:], have+size
		slices.Reverse(left) // the next cluster is far from this one
	}
	return nil
}

// put loads rows of the set; their keys count from the given number on.
func (b *bench) put(ctx context.Context, list []int, key int) error {
	rows := func(yield func(db.Row, error) bool) {
		for i, row := range list {
			if !yield(db.Row{Key: fmt.Append(nil, key+i), Vector: b.row(row)}, nil) {
				return
			}
		}
	}
	_, err := b.rows.Load(ctx, iter.Seq2[db.Row, error](rows), nil)
	return err
}
