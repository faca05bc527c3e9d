package query

import (
	"context"
	"math"
	"slices"
)

// A query that is unlike those that were held out needs a wider beam than the curve has for its recall. Until
// queries of users are measured, a search sees that by the distance of its nearest rows: once its best
// rows are expanded, and one of them is farther, by estimate, than that of nearly all held-out queries,
// its beam gets unlikeWidth times the width and the gap. Before that it has room for as many rows, so
// none is lost.

const (
	// usualShare is the share of the held-out queries whose nearest rows are not farther than Curve.Usual.
	usualShare = 0.95
	// unlikeWidth is how much wider the beam of an unlike query is.
	unlikeWidth = 2
	// usualRecall is the recall of the setting with which the held-out queries are observed.
	usualRecall = 0.9
)

// usual returns the place of the row that counts, from 1, and its usual squared distance; zeros if that is
// unknown, or if the curve has the recalls of users' queries.
func (s *Searcher) usual() (place int, squared float32) {
	c := s.p.curve
	if c == nil || c.Sampled > 0 || s.p.Range {
		return 0, 0
	}
	most := min(s.p.K, nearestGap)
	for d := range c.each {
		if d.K <= most {
			place, squared = d.K, d.Usual
		}
	}
	return place, squared
}

// openBeam starts a beam of a width and walks it until it knows whether the query is unlike the held-out
// ones. It returns the width that the query needs, and the first place that may have to be expanded.
func (s *Searcher) openBeam(ids []uint32, width int) (needed, first int) {
	place, usual := s.usual()
	if !(usual > 0) {
		s.startBeam(ids, width)
		return width, 0
	}
	room := min(unlikeWidth*width, s.seg.N)
	stop := s.stop
	s.stop.share, s.stop.keep = unlikeWidth*stop.share, unlikeWidth*stop.keep
	s.startBeam(ids, room)
	for until := max(place, min(nearestGap, width)); first >= 0 && first < until && !s.halted(); {
		first = s.advance(first, width, room)
	}
	first = max(first, 0)
	if s.farther(place, usual) {
		s.stats.Widened++
		return room, first
	}
	s.stats.Width, s.stop = width, stop
	s.beam.cut(width)
	return width, first
}

// farther reports whether the row at a place of the beam is farther than usual.
func (s *Searcher) farther(place int, usual float32) bool {
	n := min(place, s.beam.len())
	if n == 0 || !(usual > 0) {
		return false
	}
	s.nearest = s.squaredAt(n)
	return s.nearest > usual
}

// cut drops the rows beyond a width.
func (b *beam) cut(width int) {
	n := min(width, len(b.keys))
	b.keys, b.marks = b.keys[:n], b.marks[:n]
}

// Observe sets Curve.Usual by the queries that the tuner held out.
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
		p, ok := c.Setting(usualRecall, d.K)
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
			d.Usual = far[min(len(far)-1, int(usualShare*float64(len(far))))]
		}
	}
	return nil
}
