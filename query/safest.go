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
	of := meter{v: v, k: curves[0].K, lanes: newLanes(workers)}
	out, err := of.least(ctx, curves, sets)
	if err != nil {
		return nil, err
	}
	out.Reach, out.ScanPlaces = of.lanes[0].s.reach(v, sets, of.k), curves[len(curves)-1].ScanPlaces
	for _, k := range depths {
		var deep []*Curve
		for _, c := range curves {
			if d := c.depth(k); d != nil && d != c {
				deep = append(deep, d)
			}
		}
		if len(deep) == 0 {
			continue
		}
		of.k = k
		d, err := of.least(ctx, deep, sets)
		if err != nil {
			return nil, err
		}
		out.Depths = append(out.Depths, *d)
	}
	return out, nil
}

// least measures the settings of curves on the queries of which the k nearest rows are known, and returns a
// curve with the least recall of any set. It measures a slow setting on some of the queries, as the tuner
// does.
func (m meter) least(ctx context.Context, curves []*Curve, sets []QuerySet) (*Curve, error) {
	out := &Curve{K: m.k}
	var meters []meter
	var margins []bool
	for _, set := range sets {
		m.queries, m.truth = set.Queries, set.Truth
		if of := m.atDepth(m.k); len(of.queries) > 0 {
			meters, margins = append(meters, of), append(margins, set.Margin)
			out.Queries += len(of.queries)
		}
	}
	var points, measured []Point
	for _, c := range curves {
		points = append(append(points, c.Points...), c.Plain...)
	}
	for _, p := range points {
		if p.Params.Method == Flat && !p.Params.Sketch {
			out.Scan = p.Micros // exact for all queries
			measured = append(measured, p)
			continue
		}
		p.Checked = 0 // it was measured on other queries, or on fewer
		micros := p.Micros
		for j, m := range meters {
			var x sample
			if err := m.run(ctx, p.Params, affordable(micros, len(m.queries), affordableRun), &x); err != nil {
				return nil, err
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
	out.set(measured)
	return out, nil
}
