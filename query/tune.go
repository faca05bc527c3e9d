package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// The dimensions of the search space. A setting is an index into the values of each dimension;
// the first value of an optional stage omits the stage.
const (
	dimTrees = iota
	dimVotes
	dimExtra
	dimKeep // R; 0: no sketches
	dimHops
	dimHopFrom
	dimHopWidth
	dimHopKeep
	dimRerank // 0: no 8-bit copy
	dims
)

type setting [dims]uint8

// Budgets of Tune. They limit its time; they do not affect the accuracy of a point.
const (
	tuneSearch    = 2 * time.Second // time to find settings
	gridAlways    = 29              // settings of the grid that are always tried
	screenQueries = 240             // number of queries that compare settings in the search
	probeQueries  = 60              // number of queries that reject clearly worse settings
	finalists     = 24              // maximum settings measured on all queries
	finalRounds   = 3               // fewer where they take longer than the search
	patience      = 4               // maximum ratio of wall-clock time to a budget

	reachedAll = 0.9995 // recall from which no wider beam is tried

	affordableRun = 200 * time.Millisecond // maximum time of one setting on all queries
)

// tuner searches for the best settings of one view.
type tuner struct {
	m      meter
	values [dims][]int
	tried  map[setting]bool
	points []trial
	start  time.Time
	budget time.Duration
	spent  time.Duration // time of queries, without interruptions
	report func(done, total int)
	done   int // reported percentage
}

// trial is a setting measured on a part of the queries.
type trial struct {
	at       setting
	p        Point
	probe    Point // measurement on the few queries of the probe
	expanded bool
}

// TuneOptions are options of Tune.
type TuneOptions struct {
	// K is the number of neighbors. One above the number of rows is lowered to it; if it exceeds
	// half of the rows, only the exact scan is measured.
	K int
	// Workers is the number of goroutines on which queries are measured, at most 4; less than 1 means
	// all processors.
	Workers  int
	Progress func(done, total int) // may be nil

	budget time.Duration // to find settings, tuneSearch if zero
}

// Tune measures settings of the search for K neighbors and returns the Pareto front of recall
// and time. The queries are held out: the view must not contain them, or their answers must account for
// it. At least K answers of each query are known, unless there are fewer.
//
// Where the view has sketches and label lists, beams are measured at a schedule of widths, from
// which the width and R are derived for each of the commonly requested recalls (tunebeam.go). A
// few settings without a beam serve lower recalls in less time. Beams are also measured for other
// numbers of neighbors (Curve.Depths), on the queries of which so many are known; DeepQueries with
// DeepestTruth suffice. Otherwise, the space consists
// of the number of trees, the vote threshold (τ as votes, or Votes where the forest has member
// lists only), Extra, R, the four numbers of the hops, and Rerank, as far as the view has the
// parts. A coarse grid is measured first; then every point of the front is varied in one number
// at a time, for as long as the front changes and at most some seconds. The best settings on a
// sample are measured on all queries, or on some hundred of them where all would take longer
// than 0.3 s. Recall is exact and repeatable. Time is the mean over queries of the minimum of
// several rounds, or of one where a round takes long.
//
// Errors: ErrParams without queries, with another number of truths, or K < 1;
// ErrMethod without a forest; those of Search.
func Tune(ctx context.Context, v *View, set QuerySet, o TuneOptions) (*Curve, error) {
	k := o.K
	if k < 1 || len(set.Queries) == 0 || len(set.Truth) != len(set.Queries) {
		return nil, fmt.Errorf("%w: tuning for k %d with %d queries and %d answers", ErrParams, k,
			len(set.Queries), len(set.Truth))
	}
	if v.Forest == nil {
		return nil, fmt.Errorf("%w: tuning needs a forest", ErrMethod)
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.budget == 0 {
		o.budget = tuneSearch
	}
	k = min(k, v.Rows.N)
	t := &tuner{
		m:     meter{v: v, k: k, queries: set.Queries, truth: set.Truth, lanes: newLanes(o.Workers)},
		tried: map[setting]bool{}, start: time.Now(), report: o.Progress, budget: o.budget,
	}
	if 2*k > v.live() {
		return t.scanning(ctx)
	}
	t.space()
	beams := v.Sketch != nil && v.Neighbors != nil
	grid := t.grid()
	if beams {
		grid = t.without()
	}
	for i, at := range grid {
		if i >= gridAlways && t.elapsed() > t.budget {
			break
		}
		if err := t.try(ctx, at); err != nil {
			return nil, err
		}
	}
	curve := &Curve{K: k, Queries: len(set.Queries), Reach: t.m.lanes[0].s.reach(v, []QuerySet{set}, k)}
	var points []Point
	var err error
	if beams {
		if points, curve.Depths, err = t.beamPoints(ctx); err == nil {
			curve.ScanPlaces, err = t.scanPlaces(ctx)
		}
	} else {
		err = t.hillClimb(ctx)
	}
	if err != nil {
		return nil, err
	}
	if points, err = t.finish(ctx, points); err != nil {
		return nil, err
	}
	scans, err := t.scans(ctx, points)
	if err != nil {
		return nil, err
	}
	points = append(points, scans...)
	if curve.Scan, err = t.exact(ctx); err != nil {
		return nil, err
	}
	t.advance(100)
	curve.set(points)
	return curve, nil
}

// scanning returns the curve of a search for more than half of the rows, for which the exact
// scan is the fastest.
func (t *tuner) scanning(ctx context.Context) (*Curve, error) {
	p := Params{Method: Flat}
	stride := max(1, len(t.m.queries)/screenQueries)
	var s sample
	if err := t.run(ctx, p, stride, &s); err != nil {
		return nil, err
	}
	t.advance(100)
	return &Curve{K: t.m.k, Queries: len(t.m.queries), Points: []Point{s.point(p)}}, nil
}

// advance reports a percentage, unless a higher one was reported.
func (t *tuner) advance(percent int) {
	t.done = max(t.done, percent)
	t.report(t.done, 100)
}

// space lists the values of every dimension.
func (t *tuner) space() {
	v, k := t.m.v, t.m.k
	of := func(tenths ...int) []int {
		var out []int
		for _, x := range tenths {
			out = append(out, max(1, k*x/10))
		}
		return slices.Compact(out)
	}
	var trees []int
	for n := 1; n < v.Forest.Trees; n *= 2 {
		trees = append(trees, n)
		if n > 1 && n*3/2 < v.Forest.Trees {
			trees = append(trees, n*3/2)
		}
	}
	t.values = [dims][]int{
		dimTrees: append(trees, v.Forest.Trees),
		dimVotes: {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64},
		dimExtra: {0, 2, 4, 8, 16, 32, 64},
		dimKeep:  {0}, dimHops: {0}, dimHopFrom: {defaultHopFrom}, dimHopWidth: {0},
		dimHopKeep: {0}, dimRerank: {0},
	}
	if v.Sketch != nil {
		t.values[dimKeep] = append([]int{0}, of(10, 15, 20, 25, 30, 40, 60, 90, 120, 180, 270, 400, 800)...)
	}
	if n := v.Neighbors; n != nil {
		t.values[dimHops] = []int{0, 1, 2, 3, 4, 6}
		t.values[dimHopFrom] = []int{2, 4, 8, 12, 20}
		t.values[dimHopWidth] = slices.Compact([]int{max(1, n.K/4), max(1, n.K/2), n.K})
		if v.Sketch != nil {
			t.values[dimHopKeep] = append([]int{0}, of(5, 10, 15, 20, 30, 50)...)
		}
	}
	if v.Quant != nil && !(v.Quant.Lossless && v.Quant.Step == 1) {
		t.values[dimRerank] = append([]int{0}, of(10, 15, 20, 30, 50)...)
	}
}

// nearest returns the index of the first value of at least x, or of the last value.
func (t *tuner) nearest(dim, x int) uint8 {
	values := t.values[dim]
	for i, y := range values {
		if y >= x {
			return uint8(i)
		}
	}
	return uint8(len(values) - 1)
}

// grid returns the coarse grid from which the search starts, usually best settings first.
func (t *tuner) grid() []setting {
	k := t.m.k
	// The maximum of every number, so that the curve reaches high recalls even on a slow
	// machine.
	var most setting
	most[dimTrees] = t.nearest(dimTrees, 64)
	most[dimKeep] = t.nearest(dimKeep, 12*k)
	most[dimHops] = t.nearest(dimHops, 2)
	most[dimHopFrom] = t.nearest(dimHopFrom, defaultHopFrom)
	most[dimHopWidth] = uint8(len(t.values[dimHopWidth]) - 1)
	out := []setting{t.canonical(most)}
	for _, keep := range []int{3 * k, 6 * k, 3 * k / 2, 12 * k, 0} {
		for _, trees := range []int{4, 8, 2, 16, 64} {
			for _, hops := range []int{1, 0, 2} {
				at := t.hopping(trees, keep, hops)
				if keep == 0 {
					at[dimHopKeep] = 0
					// Without sketches every elected row costs an exact
					// distance: a higher threshold with more trees.
					at[dimVotes] = t.nearest(dimVotes, trees/2)
				}
				out = append(out, t.canonical(at))
			}
		}
	}
	return out
}

// without returns the settings that may be faster than any beam at their recalls.
func (t *tuner) without() []setting {
	k := t.m.k
	var out []setting
	for _, hops := range []int{0, 1} {
		for _, trees := range []int{2, 1, 4} {
			for _, keep := range []int{3 * k / 2, 3 * k} {
				out = append(out, t.canonical(t.hopping(trees, keep, hops)))
			}
		}
	}
	return out
}

// hopping returns a setting with the given numbers of trees, sketches and hops, and defaults
// for all others.
func (t *tuner) hopping(trees, keep, hops int) (at setting) {
	at[dimTrees] = t.nearest(dimTrees, trees)
	at[dimKeep] = t.nearest(dimKeep, keep)
	at[dimHops] = t.nearest(dimHops, hops)
	at[dimHopFrom] = t.nearest(dimHopFrom, defaultHopFrom)
	at[dimHopWidth] = uint8(len(t.values[dimHopWidth]) - 1)
	at[dimHopKeep] = t.nearest(dimHopKeep, t.m.k)
	at[dimRerank] = t.nearest(dimRerank, 2*t.m.k)
	return at
}

// canonical maps settings that run alike to the same numbers.
func (t *tuner) canonical(at setting) setting {
	if t.values[dimKeep][at[dimKeep]] == 0 {
		at[dimHopKeep] = 0
	}
	if t.values[dimHops][at[dimHops]] == 0 {
		at[dimHopFrom], at[dimHopWidth], at[dimHopKeep] = 0, 0, 0
	}
	return at
}

// params converts a setting to Params; ok is false for one that cannot run.
func (t *tuner) params(at setting) (p Params, ok bool) {
	value := func(dim int) int { return t.values[dim][at[dim]] }
	f := t.m.v.Forest
	p = Params{
		Trees: value(dimTrees), Extra: value(dimExtra),
		Sketch: value(dimKeep) > 0, R: value(dimKeep),
		Quant: value(dimRerank) > 0, Rerank: value(dimRerank),
	}
	if value(dimHops) > 0 {
		p.Hops, p.HopFrom, p.HopWidth, p.HopKeep = value(dimHops), value(dimHopFrom),
			value(dimHopWidth), value(dimHopKeep)
	}
	votes, leaves := value(dimVotes), p.Trees+p.Extra
	if len(f.LeafDir) == 0 {
		p.Method, p.Votes = Voting, votes
		return p, votes <= p.Trees
	}
	if votes > 1 {
		// Halfway between two counts, so that rounding has no effect.
		p.Tau = (float64(votes) - 0.5) / (float64(leaves) * f.MeanLeaf())
	}
	return p, p.Tau <= 1
}

// try measures a new setting on a sample of the queries. A probe on fewer queries rejects
// settings that the points so far clearly beat.
func (t *tuner) try(ctx context.Context, at setting) error {
	at = t.canonical(at)
	p, ok := t.params(at)
	if !ok || t.tried[at] {
		return nil
	}
	t.tried[at] = true
	n := len(t.m.queries)
	var few, s sample
	if err := t.run(ctx, p, max(1, n/probeQueries), &few); err != nil {
		return err
	}
	probe := few.point(p)
	// If few rows are elected, most queries scan all rows, which needs no index.
	scans := len(t.points) > 0 && probe.Candidates < float64(t.m.k)
	if scans || t.beaten(probe) {
		return nil
	}
	if err := t.run(ctx, p, max(1, n/screenQueries), &s); err != nil {
		return err
	}
	t.points = append(t.points, trial{at: at, p: s.point(p), probe: probe})
	t.advance(min(90, int(90*t.elapsed()/t.budget)))
	return nil
}

// run is meter.run with an account of the time.
func (t *tuner) run(ctx context.Context, p Params, stride int, out *sample) error {
	if err := t.m.run(ctx, p, stride, out); err != nil {
		return err
	}
	t.spent += time.Duration(1e3 * out.point(p).Micros * float64(out.queries))
	return nil
}

// elapsed returns the time that counts against the budget: the time of queries without
// interruptions, so that a busy machine finds the same settings as an idle one, or a share of
// the wall-clock time, which bounds the total time.
func (t *tuner) elapsed() time.Duration {
	return max(t.spent, time.Since(t.start)/patience)
}

// beaten reports whether a point is worse than one measured on the same few queries by more
// than the noise of such a probe.
func (t *tuner) beaten(p Point) bool {
	return slices.ContainsFunc(t.points, func(o trial) bool {
		o.p = o.probe
		return o.p.Recall > p.Recall+0.01 && o.p.Micros < 0.85*p.Micros ||
			o.p.Recall >= p.Recall && o.p.Micros < 0.75*p.Micros
	})
}

// front returns the trials on the Pareto front of the sample, with some slack in time for its
// noise.
func (t *tuner) front(slack float64) []int {
	var out []int
	for i, a := range t.points {
		if !slices.ContainsFunc(t.points, func(b trial) bool {
			return b.p.Micros*slack < a.p.Micros && b.p.Recall >= a.p.Recall ||
				b.p.Micros*slack <= a.p.Micros && b.p.Recall > a.p.Recall
		}) {
			out = append(out, i)
		}
	}
	return out
}

// hillClimb varies the front in one number at a time until it does not change or the budget is
// spent. Points of high recall are first, since they are requested most.
func (t *tuner) hillClimb(ctx context.Context) error {
	for t.elapsed() < t.budget {
		next := -1
		for _, i := range t.front(1) {
			if !t.points[i].expanded && t.points[i].p.Recall > 0.5 &&
				(next < 0 || t.urgency(i) > t.urgency(next)) {
				next = i
			}
		}
		if next < 0 {
			return nil
		}
		t.points[next].expanded = true
		at := t.points[next].at
		for dim := range dims {
			for _, step := range []int{1, -1} {
				to := int(at[dim]) + step
				if to < 0 || to >= len(t.values[dim]) {
					continue
				}
				moved := at
				moved[dim] = uint8(to)
				if err := t.try(ctx, moved); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// urgency orders the front for expansion: points near the usual recalls are first.
func (t *tuner) urgency(i int) float64 {
	r := t.points[i].p.Recall
	best := 0.0
	for _, target := range []float64{0.8, 0.9, 0.95, 0.99} {
		if r >= target-0.01 {
			best = max(best, 1-(r-target)*8)
		}
	}
	return best
}

// finish measures the best settings on all queries and adds them to points, which were measured
// before.
func (t *tuner) finish(ctx context.Context, points []Point) ([]Point, error) {
	at := slices.DeleteFunc(t.front(1.06), func(i int) bool { return outdone(points, t.points[i].p) })
	slices.SortStableFunc(at, func(a, b int) int {
		switch {
		case t.points[a].p.Recall < t.points[b].p.Recall:
			return -1
		case t.points[a].p.Recall > t.points[b].p.Recall:
			return 1
		}
		return 0
	})
	if len(at) > finalists {
		// Spread them evenly over the front, including both ends.
		thinned := make([]int, 0, finalists)
		for i := range finalists {
			thinned = append(thinned, at[i*(len(at)-1)/(finalists-1)])
		}
		at = thinned
	}
	samples := make([]sample, len(at))
	last := make([]Point, len(at))
	done, began := 0, t.elapsed()
	rounds := finalRounds
	if len(points) > 0 {
		rounds = 1 // beams serve what is commonly requested
	}
	for round := range rounds {
		if round > 0 && t.elapsed()-began > t.budget {
			break
		}
		for i, j := range at {
			done++
			// Recall is known after one round, and another round cannot compensate for such a
			// time.
			if round == 0 || !outdone(last, last[i]) {
				if err := t.run(ctx, t.points[j].p.Params, 1, &samples[i]); err != nil {
					return nil, err
				}
			}
			t.advance(90 + 9*done/(rounds*len(at)))
		}
		for i, j := range at {
			last[i] = samples[i].point(t.points[j].p.Params)
		}
	}
	return append(points, last...), nil
}

// affordable returns the stride at which all queries together do not take much longer than a
// limit, if at least screenQueries queries remain.
func (t *tuner) affordable(micros float64, limit time.Duration) int {
	return affordable(micros, len(t.m.queries), limit)
}

func affordable(micros float64, queries int, limit time.Duration) int {
	all := micros * float64(queries) * float64(time.Microsecond)
	return min(max(1, int(math.Ceil(all/float64(limit)))), max(1, queries/screenQueries))
}

// outdone reports whether another point has at least the recall in clearly less time.
func outdone(points []Point, p Point) bool {
	return slices.ContainsFunc(points, func(o Point) bool {
		return o.Recall >= p.Recall && 1.06*o.Micros < p.Micros
	})
}
