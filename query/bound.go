package query

import (
	"cmp"
	"context"
	"math"

	"github.com/anndb/anndb/vector"
)

// QuerySet holds queries, and the nearest rows of each, nearest first, as many as are known.
type QuerySet struct {
	Queries [][]float32
	Truth   [][]uint32
}

// Bound returns a copy of the curve for queries of users, which may be unlike those that were held out: each
// setting has at most the recall that it has for users at the depth of its curve. There is no margin: the
// expected recall of a setting that is chosen by n queries is at most 1/(n+1) less for others like them, and
// queries like the rows would pay for one. The first time, each depth gets the beams of greater ones,
// since users may need wider ones than rows do. A query counts where enough of its nearest rows are known.
// The workers are those of Tune.
//
// Errors: those of Search.
func (c *Curve) Bound(ctx context.Context, v *View, users QuerySet, workers int) (*Curve, error) {
	m := meter{v: v, queries: users.Queries, truth: users.Truth, lanes: newLanes(workers)}
	out := c.clone()
	if c.Sampled == 0 {
		out.widen()
	}
	out.Sampled = len(users.Queries)
	out.Reach = max(out.Reach, m.lanes[0].s.reach(v, users, c.K))
	for d := range out.each {
		for _, points := range [][]Point{d.Points, d.Plain} {
			if err := m.atDepth(d.K).bound(ctx, points); err != nil {
				return nil, err
			}
		}
	}
	return &out, nil
}

// each calls f for the curve and then for its depths, until it returns false.
func (c *Curve) each(f func(*Curve) bool) {
	for i := -1; i < len(c.Depths); i++ {
		d := c
		if i >= 0 {
			d = &c.Depths[i]
		}
		if !f(d) {
			return
		}
	}
}

// widen adds to the points of each depth the beams of greater depths, which have at least the recall there.
func (c *Curve) widen() {
	all := c.clone()
	for _, deep := range all.Depths {
		for d := range c.each {
			for _, p := range deep.Points {
				if deep.K > d.K && climbs(&p.Params) {
					d.Points = append(d.Points, p)
				}
			}
		}
	}
}

// bound lowers the recalls of points to those on the queries. It measures a slow setting on some of them, as
// the tuner does.
func (m meter) bound(ctx context.Context, points []Point) error {
	for i := range points {
		p := &points[i]
		if len(m.queries) == 0 || p.Params.Method == Flat && !p.Params.Sketch {
			continue // an exact scan finds all rows
		}
		var x sample
		err := m.run(ctx, p.Params, affordable(p.Micros, len(m.queries), affordableRun), &x)
		if err != nil {
			return err
		}
		p.Held = cmp.Or(p.Held, p.Recall)
		p.Recall = min(p.Held, x.recall())
	}
	return nil
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
