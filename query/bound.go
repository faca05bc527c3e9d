package query

import (
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Bound returns a copy of the curve with the recalls of queries of users, which may be unlike those that were
// held out: a search counts on the lower of both promises. The first time, each depth gets the beams of
// greater ones, since users may need wider ones than rows do. A query counts where enough of its nearest rows
// are known. The workers are those of Tune.
//
// Errors: those of Search.
func (c *Curve) Bound(ctx context.Context, v *View, users QuerySet, workers int) (*Curve, error) {
	m := meter{v: v, lanes: newLanes(workers)}
	out := c.clone()
	if c.Sampled == 0 {
		out.widen()
	}
	out.Reach = max(out.Reach, m.lanes[0].s.reach(v, users, c.K))
	for d := range out.each {
		t := tuner{held: m}
		t.held.k, t.held.set = d.K, users.atDepth(d.K, len(users.Queries))
		d.Sampled = len(t.held.set.Queries)
		if err := t.bound(ctx, d.Points); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// widen adds to the points of each depth the wider beams of greater depths, which have at least the recall
// there.
func (c *Curve) widen() {
	for d := range c.each {
		at := slices.IndexFunc(d.Points, func(p Point) bool { return p.Params.Method == Flat })
		if at < 0 {
			at = len(d.Points)
		}
		for _, deep := range c.Depths {
			for _, p := range deep.Points {
				if deep.K > d.K && hasBeam(&p.Params) &&
					(at == 0 || p.Params.Beam > d.Points[at-1].Params.Beam) {
					d.Points = slices.Insert(d.Points, at, p)
					at++
				}
			}
		}
	}
}

// bound measures points of a curve with queries of users.
func (t *tuner) bound(ctx context.Context, points []Point) error {
	var schedule []Params
	for _, p := range points {
		if p.Params.Method != Flat || p.Params.Sketch { // an exact scan finds all rows
			schedule = append(schedule, p.Params)
		}
	}
	measured, err := t.calibrate(ctx, schedule)
	for i := range points {
		points[i].Users = 0
		if i < len(measured) {
			points[i].Users = measured[i].Recall
		}
	}
	return err
}

// reach returns Curve.Reach.
func (s *Searcher) reach(v *View, set QuerySet, k int) (far float32) {
	for i, q := range set.Queries {
		if v.Metric == vector.InnerProduct || len(set.Truth[i]) < k {
			continue
		}
		s.exact.reset(v, q)
		if d := s.exact.distance(set.Truth[i][k-1]); d <= math.MaxFloat32 {
			far = max(far, d)
		}
	}
	return far
}

// Observe sets Curve.Usual by the queries that the tuner held out, searched with the setting of recall 0.9:
// the nearest rows of 95 % of them are not farther.
//
// Errors: those of Search.
func (c *Curve) Observe(ctx context.Context, v *View, held QuerySet) error {
	s := NewSearcher()
	s.trial = true
	var far []float32
	for d := range c.each {
		if d.Usual = 0; d.K > nearestGap {
			continue
		}
		p, ok := c.Setting(0.9, d.K)
		if !ok || p.Beam == 0 {
			continue
		}
		d.Usual, far = math.MaxFloat32, far[:0] // no query is farther
		p.K = d.K
		for _, q := range held.Queries {
			s.nearest = -1
			if _, _, err := s.Search(ctx, v, q, &p, nil); err != nil {
				return err
			}
			if s.nearest >= 0 {
				far = append(far, s.nearest)
			}
		}
		slices.Sort(far)
		d.Usual = 0
		if len(far) > 0 {
			d.Usual = far[min(len(far)-1, int(0.95*float64(len(far))))]
		}
	}
	return nil
}
