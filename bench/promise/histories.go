package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// history is how the rows of a collection came to be.
type history struct {
	name string
	make func(context.Context) error
}

// histories measures the recall of collections that have grown since their index was built, and of
// rows that come and go. It returns the number of short cells.
func (b *bench) histories(ctx context.Context) (short int, err error) {
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
	)
	for _, h := range all {
		if !b.only.MatchString(h.name) {
			continue
		}
		if err := b.history(ctx, h); err != nil {
			return b.short, fmt.Errorf("%s: %w", h.name, err)
		}
	}
	if err := b.foreign(ctx); err != nil {
		return b.short, fmt.Errorf("foreign queries: %w", err)
	}
	return b.short, b.streams(ctx)
}

// history makes a collection and measures it.
func (b *bench) history(ctx context.Context, h history) (err error) {
	if err := b.create(ctx, b.path+".history", 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.drop()) }()
	if err := h.make(ctx); err != nil {
		return err
	}
	return b.measure(ctx, scenario{name: h.name, restrict: everything})
}

// create makes an empty collection in a new file, of which so many queries are sampled.
func (b *bench) create(ctx context.Context, path string, sample int) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	o := manual()
	o.SampleQueries = sample
	if b.d, err = db.Open(path, o); err != nil {
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
	if _, err := b.rows.Build(ctx, "main", nil); err != nil {
		return err
	}
	for have := first; have < len(list); {
		next := min(len(list), have+max(1, have/10))
		if err := b.put(ctx, list[have:next], have); err != nil {
			return err
		}
		if _, err := b.d.Maintain(ctx, &db.MaintainOptions{Share: 0.01}); err != nil {
			return err
		}
		have = next
	}
	_, err := b.d.Maintain(ctx, nil)
	return err
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
	_, err := b.rows.Load(ctx, iter.Seq2[db.Row, error](rows))
	return err
}

// A stream changes a collection step by step, as in the streaming track of Big-ANN 2023.
const (
	streamRows  = 200_000
	streamSteps = 100
	// streamQueries is the number of queries that are measured.
	streamQueries = 200
	// streamAsked and streamLeast are the recall that is asked for and the least one in any step.
	streamAsked, streamLeast = 0.95, 0.94
)

// stream is a sequence of changes: step returns the keys to delete and the rows to put.
type stream struct {
	name  string
	first int // rows before the first step
	// sampled is set if other queries than the measured ones are sampled.
	sampled bool
	step    func(i int) (gone []int, come []int)
}

func (b *bench) streams(ctx context.Context) error {
	n := min(b.set.Rows(), streamRows)
	list, sorted := b.inOrder(n), b.sorted(n)
	part := n / streamSteps
	for _, s := range []stream{
		// A window of half of the rows slides over all of them.
		{"sliding window", n / 2, false, func(i int) ([]int, []int) {
			half := part / 2
			return list[i*half : (i+1)*half], list[n/2+i*half : n/2+(i+1)*half]
		}},
		// Regions appear and disappear: of sorted rows, a part that is near together at a time. Queries
		// are of all regions, so they become unlike the rows.
		{"clusters", n / 2, true, func(i int) ([]int, []int) {
			half := part / 2
			return sorted[i*half : (i+1)*half], sorted[n/2+i*half : n/2+(i+1)*half]
		}},
		// Rows get the vectors of others.
		{"replace", n / 2, false, func(i int) ([]int, []int) { return nil, list[i*part/2 : (i+1)*part/2] }},
	} {
		if !b.only.MatchString(s.name) {
			continue
		}
		from := list
		if s.name == "clusters" {
			from = sorted
		}
		if err := b.stream(ctx, s, from[:s.first]); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// stream runs a stream with maintenance after each step, and measures the recall of 200 queries in
// every fifth step.
func (b *bench) stream(ctx context.Context, s stream, first []int) (err error) {
	sample := 0
	if s.sampled {
		sample = sampled
	}
	if err := b.create(ctx, b.path+".stream", sample); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.drop()) }()
	if err := b.put(ctx, first, 0); err != nil {
		return err
	}
	keys := make(map[int]int, len(first)) // of the set's rows
	for i, row := range first {
		keys[row] = i
	}
	if _, err := b.rows.Build(ctx, "main", nil); err != nil {
		return err
	}
	least, slowest, fresh := 1.0, time.Duration(0), len(first)
	var took time.Duration
	for i := range streamSteps {
		gone, come := s.step(i)
		start := time.Now()
		err := b.d.Update(ctx, func(tx *db.Tx) error {
			c := tx.Collection("rows")
			for _, row := range gone {
				if err := c.Delete(fmt.Append(nil, keys[row])); err != nil {
					return err
				}
			}
			for _, row := range come {
				key, ok := keys[row]
				vector := b.row(row)
				if !ok {
					key, keys[row] = fresh, fresh
					fresh++
				} else {
					vector = b.row((row + b.set.Rows()/2) % b.set.Rows())
				}
				if err := c.Put(db.Row{Key: fmt.Append(nil, key), Vector: vector}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		slowest = max(slowest, time.Since(start))
		if s.sampled {
			others := b.asked[min(streamQueries, len(b.asked)):]
			if err := b.use(ctx, others[i*len(others)/streamSteps:(i+1)*len(others)/streamSteps]); err != nil {
				return err
			}
		}
		if _, err := b.d.Maintain(ctx, &db.MaintainOptions{Share: 0.01}); err != nil {
			return err
		}
		took += time.Since(start)
		if i%5 < 4 {
			continue
		}
		got, err := b.now(ctx)
		if err != nil {
			return err
		}
		least = min(least, got)
	}
	info, err := os.Stat(b.d.Path())
	if err != nil {
		return err
	}
	mark := " "
	if least < streamLeast {
		mark = "!"
		b.short++
	}
	fmt.Printf("%-26s least recall of any step at %.2f: %s%.3f; a step %.2f s, the slowest update %.2f s, file %d MB\n",
		s.name, streamAsked, mark, least, took.Seconds()/streamSteps, slowest.Seconds(), info.Size()>>20)
	return nil
}

// now returns the recall of the measured queries of a stream, k = 10. It searches as a search by recall
// does, but such a search could be sampled.
func (b *bench) now(ctx context.Context) (float64, error) {
	info, err := b.rows.Index("main")
	if err != nil {
		return 0, err
	}
	p, ok := info.Curve.Setting(streamAsked, 10)
	if !ok {
		p.Method = query.Flat
	}
	found, all := 0, 0
	for _, q := range b.asked[:min(streamQueries, len(b.asked))] {
		want, err := b.rows.Search(ctx, db.Query{Vector: q}, &db.SearchOptions{Index: db.Flat})
		if err != nil {
			return 0, err
		}
		got, err := b.rows.Search(ctx, db.Query{Vector: q}, &db.SearchOptions{Index: "main", Params: &p})
		if err != nil {
			return 0, err
		}
		for _, h := range got.Hits {
			if h.Distance <= want.Hits[len(want.Hits)-1].Distance {
				found++
			}
		}
		all += len(want.Hits)
	}
	return float64(found) / float64(all), nil
}
