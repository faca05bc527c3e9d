package query

import (
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// recheckRecalls are the recalls for which Recheck measures the settings of a curve, for the k of the
// curve and for recheckDepth.
var recheckRecalls = [...]float64{0.95, 0.99}

const (
	recheckDepth = 100
	// recheckSlack is the amount by which a setting may fall below its recall before the curve has to
	// be tuned again: about a standard error on some hundred queries.
	recheckSlack = 0.005
)

// Recheck measures again what searches for recalls of 0.95 and 0.99 deliver, for the k of the curve
// and for 100, on queries of which truth has the nearest rows, as many as are known: a query counts
// where these are enough. The view hides the queries if they are rows (View.Hidden). It returns a
// copy of the curve with these recalls (Point.Checked). holds is false if one of them has fallen
// by more than a standard error or so.
//
// Errors: those of Search.
func (c *Curve) Recheck(ctx context.Context, v *View, queries [][]float32, truth [][]uint32) (
	checked *Curve, holds bool, err error) {
	out := *c
	out.Points, out.Depths = slices.Clone(c.Points), slices.Clone(c.Depths)
	for i := range out.Depths {
		out.Depths[i].Points = slices.Clone(out.Depths[i].Points)
	}
	s, holds := NewSearcher(), true
	out.Reach = s.reach(v, queries, truth, c.K)
	for i := -1; i < len(out.Depths); i++ {
		d := &out
		if i >= 0 {
			if d = &out.Depths[i]; d.K != recheckDepth || out.K == recheckDepth {
				continue
			}
		}
		for _, recall := range recheckRecalls {
			at := d.cheapest(recall, func(p *Params) bool { return d == &out || climbs(p) })
			if at == nil || at.Params.Method == Flat {
				continue
			}
			p, ok := out.Setting(recall, d.K)
			if !ok {
				continue
			}
			p.K = d.K
			got, n, err := s.delivered(ctx, v, &p, queries, truth)
			if err != nil {
				return nil, false, err
			}
			if n > 0 {
				at.Checked = got
				holds = holds && got >= recall-recheckSlack
			}
		}
	}
	return &out, holds, nil
}

// Falls reports whether a curve lacks a recall for which Recheck measured another one.
func Falls(was, is *Curve) bool {
	for _, recall := range recheckRecalls {
		for _, k := range [...]int{was.K, recheckDepth} {
			_, had := was.Setting(recall, k)
			if _, has := is.Setting(recall, k); had && !has {
				return true
			}
		}
	}
	return false
}

// delivered returns the recall of a setting on the queries of which K nearest rows are known, and
// their number.
func (s *Searcher) delivered(ctx context.Context, v *View, p *Params, queries [][]float32,
	truth [][]uint32) (recall float64, n int, err error) {
	var found []vector.Neighbor
	hits := 0
	for i, q := range queries {
		if len(truth[i]) < p.K {
			continue
		}
		if found, _, err = s.Search(ctx, v, q, p, found[:0]); err != nil {
			return 0, 0, err
		}
		for _, f := range found {
			if slices.Contains(truth[i][:p.K], f.ID) {
				hits++
			}
		}
		n++
	}
	return float64(hits) / float64(max(1, n*p.K)), n, nil
}

// reach returns Curve.Reach.
func (s *Searcher) reach(v *View, queries [][]float32, truth [][]uint32, k int) (far float32) {
	for i, q := range queries {
		if v.Metric == vector.InnerProduct || len(truth[i]) < k {
			continue
		}
		s.exact.reset(v, q)
		if d := s.exact.distance(truth[i][k-1]); d <= math.MaxFloat32 {
			far = max(far, d)
		}
	}
	return far
}
