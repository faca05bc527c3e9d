package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
)

// A stream changes a collection step by step, as in the streaming track of Big-ANN 2023.
const (
	streamRows  = 200_000
	streamSteps = 100
	// streamQueries is the number of queries that are measured.
	streamQueries = 200
	// streamAsked and streamLeast are the recall that is asked for and the least one in any step.
	streamAsked, streamLeast = 0.95, 0.94
	// sampled is the number of queries that a stream keeps of those that it was asked.
	sampled = 500
	// batchRows is the number of rows of each kind that an update changes.
	batchRows = 50
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

// stream runs a stream. The writer writes batchRows rows at a time while maintenance runs; after each step
// maintenance catches up, and in every fifth step the recall of 200 queries is measured.
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
	w := &writer{bench: b, keys: make(map[int]int, len(first)), fresh: len(first)}
	for i, row := range first {
		w.keys[row] = i
	}
	if _, err := b.rows.Build(ctx, "main", nil, nil); err != nil {
		return err
	}
	least := 1.0
	var took time.Duration
	for i := range streamSteps {
		gone, come := s.step(i)
		start := time.Now()
		if err := w.step(ctx, gone, come); err != nil {
			return err
		}
		if s.sampled {
			others := b.asked[min(streamQueries, len(b.asked)):]
			if err := b.use(ctx, others[i*len(others)/streamSteps:(i+1)*len(others)/streamSteps]); err != nil {
				return err
			}
		}
		if _, err := b.d.Maintain(ctx, 0.01, nil); err != nil {
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
	slices.Sort(w.waits)
	last := len(w.waits) - 1
	fmt.Printf("%-26s least recall of any step at %.2f: %s%.3f; a step %.2f s; updates of %d rows: median %.1f ms, "+
		"p99 %.0f ms, slowest %.0f ms; file %d MB\n", s.name, streamAsked, mark, least, took.Seconds()/streamSteps,
		batchRows, millis(w.waits[last/2]), millis(w.waits[last*99/100]), millis(w.waits[last]), info.Size()>>20)
	return nil
}

// use searches for queries as a user does.
func (b *bench) use(ctx context.Context, queries [][]float32) error {
	for i, q := range queries {
		if _, err := b.rows.Search(ctx, db.Query{Vector: q}, &db.SearchOptions{Index: "main"}); err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
	}
	return nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

// writer changes the rows of a stream.
type writer struct {
	*bench
	keys  map[int]int     // of the set's rows
	fresh int             // the next key
	waits []time.Duration // of each Update
}

// step applies the changes of a step, while maintenance runs.
func (w *writer) step(ctx context.Context, gone, come []int) error {
	maintained := make(chan error, 1)
	go func() {
		_, err := w.d.Maintain(ctx, 0.01, nil)
		maintained <- err
	}()
	var err error
	for len(gone)+len(come) > 0 && err == nil {
		var out, in []int
		out, gone = gone[:min(len(gone), batchRows)], gone[min(len(gone), batchRows):]
		in, come = come[:min(len(come), batchRows)], come[min(len(come), batchRows):]
		start := time.Now()
		err = w.d.Update(ctx, func(tx *db.Tx) error { return w.change(tx.Collection("rows"), out, in) })
		w.waits = append(w.waits, time.Since(start))
	}
	return errors.Join(err, <-maintained)
}

// change deletes rows and puts others.
func (w *writer) change(c db.TxCollection, gone, come []int) error {
	for _, row := range gone {
		if err := c.Delete(fmt.Append(nil, w.keys[row])); err != nil {
			return err
		}
	}
	for _, row := range come {
		w.keys[row] = w.fresh
		w.fresh++
		if err := c.Put(db.Row{Key: fmt.Append(nil, w.keys[row]), Vector: w.row(row)}); err != nil {
			return err
		}
	}
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
