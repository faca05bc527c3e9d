package query

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// The tuner makes a schedule of settings, in which wider ones follow narrower ones, and measures how many of
// their nearest rows held-out queries find with each. A search takes the cheapest setting whose mean share of
// missed rows shows by conformal risk control that the expected recall is at least the requested one
// (Curve.Promise). The theorem needs a schedule that does not depend on the queries that measure it: other
// held-out queries shape it.

const (
	// shapeOf is the number of held-out queries for each that shapes the schedule. They are so many that they
	// have shapeRows nearest rows, at least shapeLeast.
	shapeOf, shapeRows, shapeLeast = 8, 5000, 16
	// otherHeld is the largest number of held-out queries for another depth than the one asked for: they can
	// promise 0.995.
	otherHeld = 400
	// fineRun is the time, in microseconds, of the queries with one setting above which every second setting
	// is measured, longestRun that above which of the wider ones only scans are.
	fineRun, longestRun = 1e5, 1.4e6
)

// shaped are the recalls at which the time of settings is compared.
var shaped = [...]float64{0.8, 0.9, 0.95, 0.99, 0.999}

// DeepestTruth is the number of true neighbors with which a query measures all depths.
const DeepestTruth = 1000

// depths are the numbers of neighbors that beams are tuned for, next to the one that was asked for.
var depths = [...]int{1, 10, 100, DeepestTruth}

// TuneOptions are options of Tune.
type TuneOptions struct {
	// K is the number of neighbors. One above the number of rows is lowered to it; if it exceeds
	// half of the rows, only the exact scan is measured.
	K int
	// Workers is the number of goroutines on which queries are measured, at most 4; less than 1 means
	// all processors.
	Workers  int
	Progress func(done, total int) // may be nil
}

// tuner makes the curve of one depth.
type tuner struct {
	shape, held   meter
	scan          float64 // time of an exact scan
	other, gapped bool    // it is not the first depth; beams of the first depth have a gap
}

// Tune measures settings of the search for K neighbors, and for other numbers (Curve.Depths) by the queries
// of which so many are known. The queries are held out: the view must not contain them, or their answers
// must account for it. At least K answers of each query are known, unless there are fewer.
//
// Where the view has sketches and neighbor lists, the schedule consists of beams, from few leaves and then
// from many; before them come the natural classifier and others without a beam, after them scans by
// sketches, where these are faster at a recall. Scans follow beams without a gap even where they are not.
// Otherwise it consists of elections by numbers of trees, vote thresholds (τ, or Votes where the forest has
// member lists only), and extra leaves.
//
// Errors: ErrParams without queries, with another number of truths, or K < 1;
// ErrMethod without a forest; those of Search.
func Tune(ctx context.Context, v *View, set QuerySet, o TuneOptions) (*Curve, error) {
	if o.K < 1 || len(set.Queries) == 0 || len(set.Truth) != len(set.Queries) {
		return nil, fmt.Errorf("%w: tuning for k %d with %d queries and %d answers", ErrParams, o.K,
			len(set.Queries), len(set.Truth))
	}
	if v.Forest == nil {
		return nil, fmt.Errorf("%w: tuning needs a forest", ErrMethod)
	}
	k := min(o.K, v.live())
	all := meter{v: v, k: k, set: set, lanes: newLanes(o.Workers)}
	curve, gapped := &Curve{}, false
	for i, depth := range append([]int{k}, depths[:]...) {
		if o.Progress != nil {
			o.Progress(i, len(depths)+1)
		}
		if i > 0 && depth == k {
			continue
		}
		c := Curve{K: depth}
		if 2*depth <= v.live() || i == 0 {
			t := tuner{shape: all, held: all, other: i > 0, gapped: gapped}
			t.shape.k, t.held.k = depth, depth
			most := len(set.Queries)
			if i > 0 {
				most = otherHeld
			}
			t.shape.set, t.held.set = set.atDepth(depth, most).split()
			t.shape.set = t.shape.set.atDepth(depth, max(shapeLeast, shapeRows/depth))
			if i > 0 && len(t.held.set.Queries) == 0 {
				continue
			}
			if err := t.measure(ctx, &c); err != nil {
				return nil, err
			}
		} else if depth < k {
			continue
		}
		if i == 0 {
			c.Reach = all.lanes[0].s.reach(v, set, k)
			gapped = slices.ContainsFunc(c.Points, func(p Point) bool { return p.Params.Gap > 0 })
			*curve = c
			continue
		}
		curve.Depths = append(curve.Depths, c)
	}
	if o.Progress != nil {
		o.Progress(len(depths)+1, len(depths)+1)
	}
	return curve, nil
}

// measure makes a curve of the depth of the tuner.
func (t *tuner) measure(ctx context.Context, c *Curve) error {
	m := t.shape
	m.set.Queries = m.set.Queries[:min(clockStep, len(m.set.Queries))]
	if len(m.set.Queries) == 0 {
		m.set = t.held.set
	}
	exact, err := m.run(ctx, Params{Method: Flat})
	if err != nil {
		return err
	}
	exact.Recall, c.Queries, t.scan = 1, len(t.held.set.Queries), exact.Micros
	c.Scan = exact.Micros
	if 2*t.held.k <= t.held.v.live() {
		schedule, err := t.schedule(ctx)
		if err != nil {
			return err
		}
		if c.Points, err = t.calibrate(ctx, schedule); err != nil {
			return err
		}
	}
	c.Points = append(c.Points, exact.Point)
	c.prune()
	return nil
}

// calibrate measures the settings of a schedule. A query misses a row with a setting if it does so with any
// later one.
func (t *tuner) calibrate(ctx context.Context, schedule []Params) (points []Point, err error) {
	var all []outcome
	n := float64(len(t.held.set.Queries))
	for i := 0; i < len(schedule); i++ {
		out, err := t.held.run(ctx, schedule[i])
		if err != nil {
			return nil, err
		}
		if t.scan > 0 && t.scansMost(&out.Point) {
			continue
		}
		all = append(all, out)
		switch long := out.Micros * n; {
		case t.scan > 0 && n*(1-out.Recall) < 0.5:
			i = len(schedule)
		case long > longestRun: // scans, which are the last, are bounded
			for i+1 < len(schedule) && schedule[i+1].Method != Flat {
				i++
			}
		case long > fineRun && t.scan > 0:
			i++
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		if i+1 < len(all) {
			for q, n := range all[i+1].found {
				all[i].found[q] = min(all[i].found[q], n)
			}
		}
		all[i].Recall = t.held.recall(all[i].found)
	}
	for _, x := range all {
		points = append(points, x.Point)
	}
	return points, nil
}

// schedule returns the settings to measure.
func (t *tuner) schedule(ctx context.Context) ([]Params, error) {
	v, k := t.held.v, t.held.k
	var all []series
	if v.Sketch == nil || v.Neighbors == nil {
		for _, share := range []int{2, 4, 0} {
			all = append(all, t.elections(share, 12*k, 16, 64, 256))
		}
		if err := t.measureAll(ctx, all); err != nil {
			return nil, err
		}
		schedule, _ := t.join(all)
		return schedule, nil
	}
	if !t.other {
		all = append(all, t.elections(2, 3*k), t.elections(0, 3*k))
	}
	beams := len(all)
	all = append(all, t.beams(0, nil), t.beams(manyLeaves, nil), t.scans())
	if err := t.measureAll(ctx, all); err != nil {
		return nil, err
	}
	plain, cost := t.join(all)
	scans := all[len(all)-1]
	if n := len(plain); n > 0 && plain[n-1].Method != Flat {
		// The queries that shape the schedule may be too few to show that beams take longer.
		plain = append(plain, scans.settings[:len(scans.points)]...)
	}
	if t.other && !t.gapped {
		return plain, nil
	}
	few := &all[beams]
	gaps, err := t.shape.gaps(ctx, few.settings[(len(few.points)-1)*fineSteps])
	if err != nil || gaps == nil {
		return plain, err
	}
	gapped := []series{t.beams(0, gaps), t.beams(manyLeaves, gaps)}
	if err := t.measureAll(ctx, gapped); err != nil {
		return nil, err
	}
	all = append(slices.Concat(all[:beams], gapped), scans)
	if schedule, less := t.join(all); less < cost {
		return schedule, nil
	}
	return plain, nil
}

// measureAll measures some series.
func (t *tuner) measureAll(ctx context.Context, all []series) error {
	for i := range all {
		if err := all[i].measure(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// join returns the parts of series that are the fastest at recalls, in their order, and the mean logarithm of
// their times.
func (t *tuner) join(all []series) (schedule []Params, cost float64) {
	const n = len(shaped)
	least := 0.5 / float64(t.shape.k*max(1, len(t.shape.set.Queries)))
	sum := make([][n]float64, len(all)) // least of the recalls up to one, where it is that series
	from := make([][n]int, len(all))    // the series of the recall before
	for r, recall := range shaped {
		for i := range all {
			sum[i][r] = math.Log(min(all[i].cost(recall, least), t.scan))
			if r == 0 {
				continue
			}
			for j := range i + 1 {
				if sum[j][r-1] < sum[from[i][r]][r-1] {
					from[i][r] = j
				}
			}
			sum[i][r] += sum[from[i][r]][r-1]
		}
	}
	last := 0
	for i := range all {
		if sum[i][n-1] < sum[last][n-1] {
			last = i
		}
	}
	cost = sum[last][n-1] / float64(n)
	for r := n - 1; r >= 0; {
		first := r
		for first > 0 && from[last][first] == last {
			first--
		}
		to := 1.0
		if r+1 < n {
			to = shaped[r+1]
		}
		low := shaped[first]
		if first == 0 {
			low = 0
		}
		schedule = slices.Concat(all[last].part(low, to), schedule)
		if first == 0 {
			break
		}
		last, r = from[last][first], first-1
	}
	return schedule, cost
}
