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

// QuerySet holds queries, and the nearest rows of each, nearest first, as many as are known.
type QuerySet struct {
	Queries [][]float32
	Truth   [][]uint32
}

// Recheck measures again what searches for recalls of 0.95 and 0.99 deliver, for the k of the curve
// and for 100, on several sets of queries. A query counts where enough of its nearest rows are known.
// The view hides the queries if they are rows (View.Hidden). It returns a copy of the curve with the
// least of these recalls of any set (Point.Checked). short[i] is set if one of them has fallen by
// more than a standard error or so on set i.
//
// Errors: those of Search.
func (c *Curve) Recheck(ctx context.Context, v *View, sets ...QuerySet) (
	checked *Curve, short []bool, err error) {
	out := *c
	out.Points, out.Depths = slices.Clone(c.Points), slices.Clone(c.Depths)
	for i := range out.Depths {
		out.Depths[i].Points = slices.Clone(out.Depths[i].Points)
	}
	s := NewSearcher()
	short, out.Reach = make([]bool, len(sets)), s.reach(v, sets, c.K)
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
			least := math.Inf(1)
			for j := range sets {
				got, n, err := s.delivered(ctx, v, &p, &sets[j])
				if err != nil {
					return nil, nil, err
				}
				if n > 0 {
					least = min(least, got)
					short[j] = short[j] || got < recall-recheckSlack
				}
			}
			if least <= 1 {
				at.Checked = least
			}
		}
	}
	return &out, short, nil
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
func (s *Searcher) delivered(ctx context.Context, v *View, p *Params, set *QuerySet) (
	recall float64, n int, err error) {
	var found []vector.Neighbor
	hits := 0
	for i, q := range set.Queries {
		if len(set.Truth[i]) < p.K {
			continue
		}
		if found, _, err = s.Search(ctx, v, q, p, found[:0]); err != nil {
			return 0, 0, err
		}
		for _, f := range found {
			if slices.Contains(set.Truth[i][:p.K], f.ID) {
				hits++
			}
		}
		n++
	}
	return float64(hits) / float64(max(1, n*p.K)), n, nil
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
