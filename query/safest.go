package query

import (
	"context"
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
		points = append(append(points, c.Points...), c.Plain...)
	}
	points, _, err := least(ctx, meter{v: v, k: out.K, lanes: lanes}, points, sets)
	if err != nil {
		return nil, err
	}
	out.set(points)
	for _, k := range depths {
		var settings []Point
		measured := false
		for _, c := range curves {
			for _, d := range c.Depths {
				if d.K == k {
					settings, measured = append(append(settings, d.Points...), d.Plain...), true
				}
			}
		}
		if !measured {
			continue
		}
		d := Curve{K: k}
		settings, d.Queries, err = least(ctx, meter{v: v, k: k, lanes: lanes}, settings, sets)
		if err != nil {
			return nil, err
		}
		d.set(settings)
		out.Depths = append(out.Depths, d)
	}
	return out, nil
}

// least measures settings on the queries of which the k nearest rows are known, and returns them with the
// least recall of any set, and the number of queries. It measures a slow setting on
// some of the queries, as the tuner does.
func least(ctx context.Context, of meter, points []Point, sets []QuerySet) (
	measured []Point, queries int, err error) {
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
	return measured, queries, nil
}
