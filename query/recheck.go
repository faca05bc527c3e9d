package query

import (
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// rechecks are the recalls for which Recheck measures the settings of a curve, for the k of the curve and
// for recheckDepth, and the amounts by which they may fall before the curve has to be tuned again: about
// a standard error on some hundred queries. They descend, so that a setting is measured for the highest
// of its recalls.
var rechecks = [...]struct{ recall, slack float64 }{{0.99, 0.005}, {0.95, 0.005}, {0.9, 0.01}, {0.8, 0.01}}

const recheckDepth = 100

// QuerySet holds queries, and the nearest rows of each, nearest first, as many as are known.
type QuerySet struct {
	Queries [][]float32
	Truth   [][]uint32
	// Margin is set if a recall on this set counts 1.645 standard errors less: of many settings, some are
	// lucky on a few queries.
	Margin bool
}

// Recheck measures again what searches for recalls of 0.8, 0.9, 0.95 and 0.99 deliver, for the k of the
// curve and for 100, on several sets of queries. A query counts where enough of its nearest rows are known.
// The view hides the queries if they are rows (View.Hidden). It returns a copy of the curve with the
// least of these recalls of any set (Point.Checked). short[i] is set if one of them has fallen by
// more than a standard error or so on set i.
//
// Errors: those of Search.
func (c *Curve) Recheck(ctx context.Context, v *View, sets ...QuerySet) (
	checked *Curve, short []bool, err error) {
	out := c.clone()
	s := NewSearcher()
	short, out.Reach = make([]bool, len(sets)), s.reach(v, sets, c.K)
	for _, k := range slices.Compact([]int{out.K, recheckDepth}) {
		d := out.depth(k)
		if d == nil {
			continue
		}
		var last *Point
		for _, x := range rechecks {
			at := d.cheapest(x.recall, func(p *Params) bool { return d == &out || climbs(p) })
			if at == nil || at == last || at.Params.Method == Flat {
				continue
			}
			last = at
			p, ok := out.Setting(x.recall, d.K)
			if !ok {
				continue
			}
			p.K = d.K
			least := math.Inf(1)
			for j := range sets {
				got, err := s.delivered(ctx, v, &p, &sets[j])
				if err != nil {
					return nil, nil, err
				}
				if got.queries > 0 {
					least = min(least, got.recall())
					short[j] = short[j] || got.counted(sets[j].Margin) < x.recall-x.slack
				}
			}
			if least <= 1 {
				at.Checked = least
				if p := d.plainest(x.recall); p != nil && at.Params.Gap > 0 { // it is expected to have it, too
					p.Checked = least
				}
			}
		}
	}
	return &out, short, nil
}

// Falls reports whether a curve lacks a recall for which Recheck measured another one.
func Falls(was, is *Curve) bool {
	for _, x := range rechecks {
		for _, k := range [...]int{was.K, recheckDepth} {
			_, had := was.Setting(x.recall, k)
			if _, has := is.Setting(x.recall, k); had && !has {
				return true
			}
		}
	}
	return false
}

// delivered counts what a setting finds for the queries of which K nearest rows are known.
func (s *Searcher) delivered(ctx context.Context, v *View, p *Params, set *QuerySet) (got sample, err error) {
	var found []vector.Neighbor
	for i, q := range set.Queries {
		if len(set.Truth[i]) < p.K {
			continue
		}
		if found, _, err = s.Search(ctx, v, q, p, found[:0]); err != nil {
			return got, err
		}
		hits := 0
		for _, f := range found {
			if slices.Contains(set.Truth[i][:p.K], f.ID) {
				hits++
			}
		}
		got.hit(hits, p.K)
	}
	return got, nil
}

// reach returns Curve.Reach.
func (s *Searcher) reach(v *View, sets []QuerySet, k int) (far float32) {
	for _, set := range sets {
		for i, q := range set.Queries {
			if v.Metric == vector.InnerProduct || len(set.Truth[i]) < k {
				continue
			}
			s.exact.reset(v, q)
			if d := s.exact.distance(set.Truth[i][k-1]); d <= math.MaxFloat32 {
				far = max(far, d)
			}
		}
	}
	return far
}
