package query

import (
	"context"
	"slices"
)

// Safest joins curves of one view into one that holds for several sets of queries: it measures the
// settings of all curves on every set, and gives each the least recall that counts on any set. All
// curves have the same K. The view hides the queries if they are rows. The workers are those of Tune.
//
// Errors: those of Search.
func Safest(ctx context.Context, v *View, workers int, curves []*Curve, sets ...QuerySet) (*Curve, error) {
	lanes := newLanes(workers)
	out := &Curve{K: curves[0].K, Reach: lanes[0].s.reach(v, sets, curves[0].K),
		ScanPlaces: curves[len(curves)-1].ScanPlaces}
	for _, set := range sets {
		out.Queries += len(set.Queries)
	}
	var points []Point
	for _, c := range curves {
		points = append(points, c.Points...)
	}
	var err error
	if out.Points, _, err = least(ctx, meter{v: v, k: out.K, lanes: lanes}, points, sets); err != nil {
		return nil, err
	}
	var numbers []int
	for _, c := range curves {
		for _, d := range c.Depths {
			numbers = append(numbers, d.K)
		}
	}
	slices.Sort(numbers)
	for _, k := range slices.Compact(numbers) {
		var settings []Point
		for _, c := range curves {
			if k == c.K {
				settings = append(settings, c.ungapped().Points...)
				continue
			}
			for _, d := range c.Depths {
				if d.K == k {
					settings = append(settings, d.Points...)
				}
			}
		}
		d := Curve{K: k}
		if d.Points, d.Queries, err = least(ctx, meter{v: v, k: k, lanes: lanes}, settings, sets); err != nil {
			return nil, err
		}
		out.Depths = append(out.Depths, d)
	}
	return out, nil
}

// least measures settings on the queries of which the k nearest rows are known, and returns the best
// of them with the least recall of any set, and the number of queries. It measures a slow setting on
// some of the queries, as the tuner does.
func least(ctx context.Context, of meter, points []Point, sets []QuerySet) (
	best []Point, queries int, err error) {
	var meters []meter
	var margins []bool
	for _, set := range sets {
		m := of
		for i, truth := range set.Truth {
			if len(truth) >= of.k {
				m.queries, m.truth = append(m.queries, set.Queries[i]), append(m.truth, truth)
			}
		}
		if n := len(m.queries); n > 0 {
			meters, margins, queries = append(meters, m), append(margins, set.Margin), queries+n
		}
	}
	var measured []Point
	for _, p := range points {
		p.Checked = 0 // it was measured on other queries, or on fewer
		micros := p.Micros
		for j := range meters {
			m := &meters[j]
			var x sample
			if err := m.run(ctx, p.Params, affordable(micros, len(m.queries), affordableRun), &x); err != nil {
				return nil, 0, err
			}
			y := x.point(p.Params)
			if y.Recall = x.counted(margins[j]); j == 0 {
				p = y
			} else {
				p.Recall, p.Micros = min(p.Recall, y.Recall), max(p.Micros, y.Micros)
				p.Candidates = max(p.Candidates, y.Candidates)
			}
		}
		measured = append(measured, p)
	}
	return pareto(measured), queries, nil
}
