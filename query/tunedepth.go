package query

import (
	"context"
	"slices"
	"time"
)

// depths are the numbers of neighbors that beams are tuned for, next to the one that was asked for.
var depths = [...]int{1, 10, 100, 1000}

// depthRecalls are the recalls that are measured at each depth, most important first. For the first
// depthNarrowed of them widths are measured in any case, for the others if there is time.
var depthRecalls = [...]float64{0.95, 0.9, 0.99, 0.8, 0.98, 0.999}

const (
	depthNarrowed = 2
	depthGap      = 1.1 // narrowGap of depths
)

const (
	// depthAnswers is the number of true neighbors, and depthQueries the least number of queries,
	// by which a depth is measured.
	depthAnswers = 10_000
	depthQueries = 50
)

// depthBudget is the share of the tuner's time for one depth, as a divisor.
const depthBudget = 4

// DeepestTruth is the number of true neighbors with which Tune measures all depths, DeepQueries
// the number of queries that need so many.
const (
	DeepestTruth = 1000
	DeepQueries  = 100
)

// deep measures beams of some starts for other depths, on the queries of which enough true neighbors are
// known.
func (t *tuner) deep(ctx context.Context, starts []deepStart) ([]Curve, error) {
	var out []Curve
	for _, k := range depths {
		if k == t.m.k {
			continue
		}
		c := Curve{K: k}
		if 2*k > t.m.v.live() {
			// A scan is as fast. Without points the curve records that no beam is tuned.
			if k > t.m.k {
				out = append(out, c)
			}
			continue
		}
		m := t.m.atDepth(k)
		if len(m.queries) == 0 {
			continue
		}
		c.Queries = min(len(m.queries), max(depthQueries, depthAnswers/k))
		m.queries, m.truth = m.queries[:c.Queries], m.truth[:c.Queries]
		if err := t.deepPoints(ctx, m, starts, &c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// deepElections measures settings without a beam for greater depths, on the queries of which enough true
// neighbors are known.
func (t *tuner) deepElections(ctx context.Context) ([]Curve, error) {
	var out []Curve
	for _, k := range depths {
		m := t.m.atDepth(k)
		if k <= t.m.k || 2*k > t.m.v.live() || len(m.queries) == 0 {
			continue
		}
		d := t.part(m)
		c := Curve{K: k, Queries: len(m.queries)}
		err := d.sweep(ctx, false)
		if err != nil {
			return nil, err
		}
		points, err := d.finish(ctx, nil)
		if err != nil {
			return nil, err
		}
		if err := d.close(ctx, &c, points); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// part returns a tuner of another depth with a share of the time.
func (t *tuner) part(m meter) *tuner {
	return &tuner{m: m, start: time.Now(), budget: t.budget / depthBudget, report: func(int, int) {}}
}

// deepPoints gives a curve of another depth its points, of beams of some starts and of scans. Each start has
// a share of the time.
func (t *tuner) deepPoints(ctx context.Context, m meter, starts []deepStart, c *Curve) error {
	var points []Point
	for _, from := range starts {
		b := &beams{t: t.part(m), base: from.base, exact: from.exact, bias: 1, other: true}
		if m.k == 1 {
			b.reuse(from.beams)
		}
		more, err := b.withGaps(ctx, from.above)
		if err != nil {
			return err
		}
		points = append(points, more...)
		t.spent += b.t.spent
	}
	d := t.part(m)
	defer func() { t.spent += d.spent }()
	return d.close(ctx, c, points)
}

// reuse takes the runs for another depth over for the nearest row alone, which they have measured as well.
func (b *beams) reuse(base *beams) {
	if base.twin != nil && base.gaps.depth == nearestGap {
		b.gaps = base.gaps
		if b.twin = b.gappedTwin(); b.twin != nil {
			b.twin.reuse(base.twin)
		}
	}
	b.time = base.time
	for _, r := range base.schedule {
		r.found, r.together = r.first, 1
		b.schedule = append(b.schedule, r)
	}
}

// firstOf returns the first width of a recall, or the last one.
func (b *beams) firstOf(recall float64) *widthStep {
	i := slices.IndexFunc(b.schedule, func(r widthStep) bool { return r.most() >= recall })
	if i < 0 {
		i = len(b.schedule) - 1
	}
	return &b.schedule[i]
}

// withGaps returns points of a depth for recalls beyond above, some of beams with a gap.
func (b *beams) withGaps(ctx context.Context, above float64) (points []Point, err error) {
	if b.points, err = b.depth(ctx, above); err != nil {
		return nil, err
	}
	defer func(spent time.Duration) { b.t.spent = spent }(b.t.spent) // as in addGapped
	if b.twin == nil {
		if b.gaps, err = b.measureGaps(ctx); err != nil {
			return nil, err
		}
		if b.twin, err = b.fasterTwin(ctx); err != nil {
			return nil, err
		}
	}
	if b.twin != nil {
		if b.twin.points, err = b.twin.depth(ctx, above); err != nil {
			return nil, err
		}
	}
	return settings(b), nil
}

// fasterTwin returns gappedTwin, or nil unless a run at about the width for the highest of startRecalls is
// clearly faster than a beam without a gap at the same recall.
func (b *beams) fasterTwin(ctx context.Context) (*beams, error) {
	g := b.gappedTwin()
	if g == nil {
		return nil, nil
	}
	width := min(b.width(startRecalls[len(startRecalls)-1]), float64(b.schedule[len(b.schedule)-1].p.Beam))
	if err := g.add(ctx, gapRoom*int(width)); err != nil {
		return nil, err
	}
	run := &g.schedule[0]
	if run.micros > variedGain*b.ideal(run.most()) {
		return nil, nil
	}
	g.schedule = nil
	return g, nil
}

// depth returns a point for each of depthRecalls beyond above that a beam has.
func (b *beams) depth(ctx context.Context, above float64) ([]Point, error) {
	width := b.narrowest()
	if n := len(b.schedule); n > 0 {
		width = 2 * b.schedule[n-1].p.Beam // the schedule of another depth may have ended for lack of time
	}
	if err := b.widen(ctx, width); err != nil {
		return nil, err
	}
	for width := 2 * b.narrowest(); width < b.schedule[0].p.Beam/2; width *= 2 {
		if err := b.add(ctx, width); err != nil {
			return nil, err
		}
	}
	var points []Point
	for i, recall := range depthRecalls {
		if recall <= above {
			continue
		}
		for range narrowSteps {
			width, ok := b.between(recall+b.margin(recall, b.firstOf(recall)), depthGap)
			if !ok || i >= depthNarrowed && b.t.elapsed() > b.t.budget {
				break
			}
			if err := b.add(ctx, width); err != nil {
				return nil, err
			}
		}
		p, from := b.choose(recall)
		if from < 0 {
			continue
		}
		points = append(points, Point{
			Params: p,
			Recall: b.schedule[from].found[p.R],
			Micros: b.micros(float64(p.Beam), p.R),
		})
	}
	return points, nil
}
