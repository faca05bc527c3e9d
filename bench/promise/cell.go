package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// A cell is short if its mean recall is more than shortErrors standard errors below what is asked, and slow if
// its searches take more than slowest times as long as exact scans, and leastMicros longer.
const (
	shortErrors = 1.645
	slowest     = 1.1
	leastMicros = 2
	// timedScans is the number of queries of a cell that are compared with exact scans, scanRounds the number of
	// times of which the least counts.
	timedScans, scanRounds = 25, 3
	// contrastRows is the number of rows that stand for all in the mean distance of a query.
	contrastRows = 256
)

var (
	ks      = []int{1, 3, 7, 10, 37, 100, 200, 1000}
	recalls = []float64{0.8, 0.9, 0.95, 0.99, 0.995}
)

// truth is the exact answer to a query under a restriction.
type truth struct {
	query   db.Query
	options db.SearchOptions
	near    []float32 // distances of the nearest rows
	mean    float64   // distance of all rows
}

// cell is what one k and one asked recall deliver.
type cell struct {
	asked, recall, deviation float64 // deviation is the standard error of recall
	below                    float64 // the share of the queries below what is asked
	p5                       float64 // the recall that nineteen of twenty queries exceed
	hardest                  float64 // the recall of the tenth of the queries with the least contrast
	ratio                    float64 // of the distances that are found to the true ones
	micros, ofScan           float64 // the median time, and its share of that of an exact scan
	slow                     bool
}

// measure prints the cells of a scenario, and adds those that are short by more than slack or slow.
func (b *bench) measure(ctx context.Context, s scenario, slack float64) error {
	all, err := b.truths(ctx, s)
	if err != nil {
		return err
	}
	short, slow, cells, worst := 0, 0, 0, 0.0
	for _, k := range ks {
		for _, asked := range recalls {
			c, err := b.cell(ctx, all, k, asked)
			if err != nil {
				return err
			}
			cells++
			mark := " "
			if least := asked - slack - shortErrors*c.deviation; c.recall < least {
				mark = "!"
				short++
				worst = max(worst, asked-slack-c.recall)
			}
			if c.slow {
				mark += "s"
				slow++
			}
			fmt.Printf("%-24s %4d  %.3f %-2s %.4f ±%.4f  %4.1f %%  %.3f  %.3f  %.4f  %7.0f  %.3f\n", s.name, k, asked, mark,
				c.recall, c.deviation, 100*c.below, c.p5, c.hardest, c.ratio, c.micros, c.ofScan)
		}
	}
	fmt.Printf("%-24s %d cells, %d short (at most %.4f), %d slow\n", s.name, cells, short, worst, slow)
	b.short, b.slow = b.short+short, b.slow+slow
	return nil
}

// head prints the head of the table.
func (b *bench) head() {
	fmt.Printf("\n%s: %d rows of %d coordinates, %d queries; ! is short, s is slow\n",
		b.set.Name, b.set.Rows(), b.set.Dim, len(b.asked))
	fmt.Printf("%-24s %4s  asked    recall          below   5 %%    hardest ratio        µs  of a scan\n", "rows", "k")
}

// truths answers all queries of a scenario exactly.
func (b *bench) truths(ctx context.Context, s scenario) ([]truth, error) {
	all := make([]truth, len(b.asked))
	err := par.Each(ctx, par.Work{N: len(all)}, func(i int) (err error) {
		t := &all[i]
		t.query = db.Query{Vector: b.asked[i]}
		if s.text != nil {
			t.query.Text = s.text(i)
		}
		if err = s.restrict(b.asked[i], &t.options); err != nil {
			return err
		}
		o := b.options(t, slices.Max(ks))
		o.Index = db.Flat
		res, err := b.rows.Search(ctx, t.query, &o)
		t.near = distances(res.Hits, nil)
		for j := range contrastRows {
			t.mean += float64(b.distance(b.asked[i], b.row(j*b.set.Rows()/contrastRows))) / contrastRows
		}
		return err
	})
	return all, err
}

// options returns those of a search for k rows. A query with a text is one of both parts, of which the
// vector decides.
func (b *bench) options(t *truth, k int) db.SearchOptions {
	o := t.options
	if o.K = k; t.query.Text != "" {
		o.Rank = rank.Options{Weight: 0.9999, Depth: k}
	}
	return o
}

// distances returns the distances of the hits that were found by vector, ascending.
func distances(hits []db.Hit, dst []float32) []float32 {
	for _, h := range hits {
		switch {
		case h.Places == nil:
			dst = append(dst, h.Distance)
		case h.Places.VectorRank > 0:
			dst = append(dst, h.Places.Distance)
		}
	}
	slices.Sort(dst)
	return dst
}

// outcome is what one query has found.
type outcome struct{ recall, contrast float64 }

// cell searches for all queries.
func (b *bench) cell(ctx context.Context, all []truth, k int, asked float64) (c cell, err error) {
	c.asked = asked
	var outcomes []outcome
	var times, ratios, differences []float64
	var reuse []db.Hit
	var found []float32
	// timed returns the least time of some rounds.
	timed := func(t *truth, o db.SearchOptions, rounds int) (least float64, err error) {
		least = math.Inf(1)
		for range rounds {
			o.Reuse = reuse
			start := time.Now()
			res, err := b.rows.Search(ctx, t.query, &o)
			if err != nil {
				return 0, err
			}
			least, reuse = min(least, float64(time.Since(start))/1e3), res.Hits
		}
		return least, nil
	}
	for i := range all {
		t := &all[i]
		want := t.near[:min(k, len(t.near))]
		if len(want) == 0 {
			continue
		}
		o := b.options(t, k)
		o.Recall, o.Index = asked, "main"
		took, err := timed(t, o, 1)
		if err != nil {
			return c, err
		}
		found = distances(reuse, found[:0])
		far := want[len(want)-1]
		hits := min(len(want), countTo(found, far))
		x := outcome{float64(hits) / float64(len(want)), b.contrast(t.mean, far)}
		outcomes, times = append(outcomes, x), append(times, took)
		c.ratio += ratio(found, want)
		if i%max(1, len(all)/timedScans) == 0 {
			again, err := timed(t, o, scanRounds)
			if err != nil {
				return c, err
			}
			o.Index = db.Flat
			scan, err := timed(t, o, scanRounds)
			if err != nil {
				return c, err
			}
			ratios, differences = append(ratios, again/scan), append(differences, again-scan)
		}
	}
	c.summarize(outcomes)
	c.ratio /= float64(max(1, len(outcomes)))
	c.micros, c.ofScan = median(times), median(ratios)
	c.slow = c.ofScan > slowest && median(differences) > leastMicros
	return c, nil
}

// countTo returns the number of ascending distances that are not above far.
func countTo(found []float32, far float32) int {
	n, equal := slices.BinarySearch(found, far)
	for equal && n < len(found) && found[n] == far {
		n++
	}
	return n
}

// ratio returns the mean ratio of the distances that were found to the true ones, 1 where these are not
// positive.
func ratio(found, want []float32) float64 {
	sum := 0.0
	for i, x := range want {
		if x > 0 && i < len(found) {
			sum += float64(found[i]) / float64(x)
		} else {
			sum++
		}
	}
	return sum / float64(len(want))
}

// contrast returns how much farther rows are in the mean than the k-th nearest one: the relative contrast, or
// the difference of products.
func (b *bench) contrast(mean float64, far float32) float64 {
	switch b.set.Metric {
	case vector.InnerProduct:
		return mean - float64(far)
	case vector.Cosine:
		return mean / 2 / max(1e-9, float64(far)) // b.distance is the squared one of unit vectors
	}
	return math.Sqrt(mean) / max(1e-9, float64(far))
}

// summarize sets the recalls of a cell.
func (c *cell) summarize(outcomes []outcome) {
	n := float64(len(outcomes))
	if n == 0 {
		c.recall, c.p5, c.hardest = 1, 1, 1
		return
	}
	squares := 0.0
	for _, x := range outcomes {
		c.recall += x.recall / n
		squares += x.recall * x.recall / n
		if x.recall < c.asked {
			c.below += 1 / n
		}
	}
	c.deviation = math.Sqrt(max(0, squares-c.recall*c.recall) / n)
	slices.SortFunc(outcomes, func(x, y outcome) int { return cmp.Compare(x.contrast, y.contrast) })
	tenth := outcomes[:(len(outcomes)+9)/10]
	for _, x := range tenth {
		c.hardest += x.recall / float64(len(tenth))
	}
	slices.SortFunc(outcomes, func(x, y outcome) int { return cmp.Compare(x.recall, y.recall) })
	c.p5 = outcomes[len(outcomes)/20].recall
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}
