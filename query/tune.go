package query

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Budgets of Tune. They limit its time; they do not affect the accuracy of a point.
const (
	tuneSearch    = 2 * time.Second // time to find settings
	screenQueries = 240             // number of queries that compare settings in the search
	probeQueries  = 60              // number of queries that reject clearly worse settings
	patience      = 4               // maximum ratio of wall-clock time to a budget

	reachedAll = 0.9995 // recall from which no wider beam is tried

	affordableRun = 200 * time.Millisecond // maximum time of one setting on all queries
)

// tuner searches for the best settings of one view.
type tuner struct {
	m      meter
	points []trial
	start  time.Time
	budget time.Duration
	spent  time.Duration // time of queries, without interruptions
	report func(done, total int)
	done   int // reported percentage
}

// trial is a setting measured on a part of the queries.
type trial struct {
	p     Point
	probe Point // measurement on the few queries of the probe
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
// DeepestTruth suffice. Otherwise, settings of numbers of trees, vote thresholds (τ, or Votes where the
// forest has member lists only), extra leaves, R and hops are measured, as far as the view has the
// parts (sweep.go). The best settings on a sample are measured on all queries, or on some hundred of
// them where all would take longer than 0.2 s. Recall is exact and repeatable. Time is the mean over
// queries of the minimum of several rounds, or of one where a round takes long.
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
		start: time.Now(), report: o.Progress, budget: o.budget,
	}
	if 2*k > v.live() {
		return t.scanning(ctx)
	}
	beams := v.Sketch != nil && v.Neighbors != nil
	if err := t.sweep(ctx, beams); err != nil {
		return nil, err
	}
	curve := &Curve{K: k, Queries: len(set.Queries), Reach: t.m.lanes[0].s.reach(v, set, k)}
	var points []Point
	var err error
	if beams {
		if points, curve.Depths, err = t.beamPoints(ctx); err == nil {
			curve.ScanPlaces, err = t.scanPlaces(ctx)
		}
		if err != nil {
			return nil, err
		}
	} else if curve.Depths, err = t.deepElections(ctx); err != nil {
		return nil, err
	}
	if points, err = t.finish(ctx, points); err != nil {
		return nil, err
	}
	if err := t.close(ctx, curve, points); err != nil {
		return nil, err
	}
	t.advance(100)
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

// affordable returns the stride at which all queries together do not take much longer than a
// limit, if at least screenQueries queries remain.
func (t *tuner) affordable(micros float64, limit time.Duration) int {
	return affordable(micros, len(t.m.queries), limit)
}

func affordable(micros float64, queries int, limit time.Duration) int {
	all := micros * float64(queries) * float64(time.Microsecond)
	return min(max(1, int(math.Ceil(all/float64(limit)))), max(1, queries/screenQueries))
}
