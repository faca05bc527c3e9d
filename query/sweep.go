package query

import (
	"context"
	"slices"
)

// Settings without a beam: the forest elects rows. They serve forests without sketches or lists, and low
// recalls at which they may be faster than any beam.

// frontSlack is the ratio of two times up to which the noise of a sample may exchange them.
const frontSlack = 1.06

// sweepExtra is the number of leaves visited in addition to one per tree in half of the settings.
const sweepExtra = 16

// sweep measures settings without a beam until the budget is spent, next to beams only the cheapest ones and
// the natural classifier.
func (t *tuner) sweep(ctx context.Context, beams bool) error {
	settings := t.elections()
	if beams {
		settings = t.besideBeams()
	}
	for _, p := range settings {
		if len(t.points) > 0 && t.elapsed() > t.budget {
			break
		}
		if err := t.try(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// besideBeams returns the settings that may be faster than any beam at their recalls.
func (t *tuner) besideBeams() (out []Params) {
	k := t.m.k
	for _, trees := range []int{2, 1, 4} {
		for _, keep := range []int{3 * k / 2, 3 * k} {
			out = append(out, t.election(trees, 1, 0, keep))
		}
	}
	for _, trees := range []int{8, 32} {
		out = append(out, t.election(trees, trees/4, 0, 0))
	}
	return out
}

// elections returns the settings of a forest without beams: first that of the highest recall, then those of
// each number of trees for a threshold.
func (t *tuner) elections() []Params {
	v, k := t.m.v, t.m.k
	keeps := []int{0}
	if v.Sketch != nil {
		keeps = []int{3 * k, 12 * k, 0}
	}
	most := v.Forest.Trees
	out := []Params{t.election(most, 1, 4*sweepExtra, keeps[0]*4)}
	for _, part := range []int{0, 2, 4} { // of the trees whose votes elect a row; 0: any one
		for _, extra := range []int{0, sweepExtra} {
			for _, keep := range keeps {
				for trees := 1; trees < 2*most; trees *= 2 {
					n, votes := min(trees, most), 1
					if part > 0 {
						votes = n / part
					}
					if part == 0 || votes > 1 {
						out = append(out, t.election(n, votes, extra, keep))
					}
				}
			}
		}
	}
	return out
}

// election returns the setting in which rows with at least so many votes are candidates. keep is the
// number of candidates left by sketches, 0 without sketches.
func (t *tuner) election(trees, votes, extra, keep int) Params {
	f := t.m.v.Forest
	p := Params{Trees: min(trees, f.Trees), Extra: extra, Sketch: keep > 0, R: keep}
	switch {
	case len(f.LeafDir) == 0:
		p.Method, p.Votes = Voting, min(votes, p.Trees)
	case votes > 1:
		// Halfway between two counts, so that rounding has no effect.
		p.Tau = min(1, (float64(votes)-0.5)/(float64(p.Trees+extra)*f.MeanLeaf()))
	}
	return p
}

// try measures a setting on a sample of the queries. A probe on fewer queries rejects settings
// that the points so far clearly beat.
func (t *tuner) try(ctx context.Context, p Params) error {
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
	t.points = append(t.points, trial{p: s.point(p), probe: probe})
	t.advance(min(90, int(90*t.elapsed()/t.budget)))
	return nil
}

// beaten reports whether a point is worse than one measured on the same few queries by more
// than the noise of such a probe.
func (t *tuner) beaten(p Point) bool {
	return slices.ContainsFunc(t.points, func(o trial) bool {
		return o.probe.Recall > p.Recall+0.01 && o.probe.Micros < 0.85*p.Micros ||
			o.probe.Recall >= p.Recall && o.probe.Micros < 0.75*p.Micros
	})
}

// finish measures the best settings of the sweep on all queries and adds them to points, which were measured
// before.
func (t *tuner) finish(ctx context.Context, points []Point) ([]Point, error) {
	var swept []Point
	for _, x := range t.points {
		swept = append(swept, x.p)
	}
	found := points
	for _, x := range swept {
		if outdone(swept, x) || outdone(points, x) {
			continue
		}
		var s sample
		stride := t.affordable(x.Micros, affordableRun)
		for range timeRounds {
			if err := t.run(ctx, x.Params, stride, &s); err != nil {
				return nil, err
			}
		}
		found = append(found, s.point(x.Params))
		t.advance(91)
	}
	return found, nil
}

// outdone reports whether another point has at least the recall in clearly less time.
func outdone(points []Point, p Point) bool {
	return slices.ContainsFunc(points, func(o Point) bool {
		return o.Recall >= p.Recall && frontSlack*o.Micros < p.Micros
	})
}
