package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
)

const (
	sweepK, sweepAsked = 10, 0.95
	// sweepSteps is the number of selectivities for each power of ten, sweepLeast the least one.
	sweepSteps, sweepLeast = 6, 1e-4
	// sweepWorst is the largest ratio of the planner's time to that of the best fixed way.
	sweepWorst = 1.5
)

// way is a fixed way to search with a filter.
type way struct {
	name    string
	options db.SearchOptions
}

// ways returns the fixed ways: the exact scan of the passing rows, the scan of their sketches, and beams
// through failing rows of several widths, of which the fastest one with enough recall counts.
func ways(p query.Params, most int) []way {
	out := []way{{"exact scan", db.SearchOptions{Index: db.Flat}}}
	p.Sketch, p.R = true, 4*sweepK
	sketches := p
	sketches.Beam = math.MaxInt32 // dearer than any scan
	out = append(out, way{"sketches", db.SearchOptions{Index: "main", Params: &sketches}})
	for width := 16; width < most; width += width / 2 {
		beam := p
		beam.Beam, beam.R, beam.NoWiden = width, width, true
		out = append(out, way{fmt.Sprint("beam of ", width), db.SearchOptions{Index: "main", Params: &beam}})
	}
	return out
}

// sweep measures the time of searches over the selectivity of a filter, of random rows and of the nearest
// ones, next to fixed ways. Filters for which the best fixed way is faster by more than sweepWorst are slow.
func (b *bench) sweep(ctx context.Context) (err error) {
	b.ask()
	if err := b.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.d.Close()) }()
	info, err := b.rows.Index("main")
	if err != nil {
		return err
	}
	tuned, _ := info.Curve.Setting(sweepAsked, sweepK)
	// Without the curve, which would let the search widen by depth.
	p := query.Params{Trees: tuned.Trees, Extra: tuned.Extra}
	all := append([]way{{"planner", db.SearchOptions{Index: "main", Recall: sweepAsked}}}, ways(p, b.set.Rows()/32)...)
	fmt.Printf("\n%s: k = %d, asked %.2f, %d queries; mean µs of the planner and of the fixed ways that deliver as much\n",
		b.set.Name, sweepK, sweepAsked, len(b.asked))
	for _, filter := range []string{"random", "nearest"} {
		if !b.only.MatchString(filter) {
			continue
		}
		worst := 0.0
		for i := 0; ; i++ {
			share := math.Pow(10, -float64(i)/sweepSteps)
			if share < 0.99*sweepLeast {
				break
			}
			ratio, err := b.selectivity(ctx, filter, share, all)
			if err != nil {
				return err
			}
			if worst = max(worst, ratio); ratio > sweepWorst {
				b.slow++
			}
		}
		fmt.Printf("%s: at most %.2f times the best fixed way\n", filter, worst)
	}
	return nil
}

// selectivity measures all ways with one filter, in turn, and prints a line. It returns the ratio of the
// first one's time to the least of the others.
func (b *bench) selectivity(ctx context.Context, filter string, share float64, all []way) (ratio float64, err error) {
	restrict := b.random(share)
	if filter == "nearest" {
		restrict = func(q []float32, o *db.SearchOptions) (err error) {
			o.Where, err = b.rows.RowFilter(b.between(q, 0, share))
			return err
		}
	}
	found, micros := make([]float64, len(all)), make([]float64, len(all))
	wanted := 0
	var reuse []db.Hit
	for n, q := range b.asked {
		var o db.SearchOptions
		if err := restrict(q, &o); err != nil {
			return 0, err
		}
		exact, err := b.rows.Search(ctx, db.Query{Vector: q}, &db.SearchOptions{Index: db.Flat, Where: o.Where})
		if err != nil {
			return 0, err
		}
		want := exact.Hits
		wanted += len(want)
		for turn := range all {
			i := (n + turn) % len(all) // a way that follows a scan has no row in a cache
			x := all[i].options
			x.Where, x.K = o.Where, sweepK
			least := math.Inf(1)
			for range 3 {
				x.Reuse = reuse
				start := time.Now()
				res, err := b.rows.Search(ctx, db.Query{Vector: q}, &x)
				if least = min(least, float64(time.Since(start))/1e3); err != nil {
					return 0, err
				}
				reuse = res.Hits
			}
			micros[i] += least / float64(len(b.asked))
			for _, h := range reuse {
				if h.Distance <= want[len(want)-1].Distance {
					found[i]++
				}
			}
		}
	}
	best := 0
	line := ""
	for i := 1; i < len(all); i++ {
		enough := found[i] >= sweepAsked*float64(wanted)
		if enough && (best == 0 || micros[i] < micros[best]) {
			best = i
		}
		if i < 3 {
			line += fmt.Sprintf("  %s %7.0f (%.3f)", all[i].name, micros[i], found[i]/float64(wanted))
		}
	}
	ratio = micros[0] / micros[best]
	mark := " "
	if ratio > sweepWorst {
		mark = "!"
	}
	fmt.Printf("%-7s %8.3f %%  planner %6.0f (%.3f)%s  %s %s%.2f\n", filter, 100*share, micros[0], found[0]/float64(wanted),
		line, fmt.Sprintf("  best %s %.0f", all[best].name, micros[best]), mark, ratio)
	return ratio, nil
}
