package query

import (
	"math"
)

// A beam is tuned for a number of neighbors. What it needs for another number, the depth,
// follows from a few beams that were tuned for other depths (Curve.Depths): width and number of
// exact distances grow about as a power of the depth. A restricted search, where only a share of
// the rows can be answers, is a search of a greater depth: the nearest k rows that pass a random
// filter are among the nearest k/share rows.

// maxRungs is the number of depths of a ladder.
const maxRungs = 5

// rung is the beam that has the ladder's recall at a depth.
type rung struct {
	depth, beam, r float64
	trees, extra   int // as measured
	recall         float64
}

// ladder has the beams of one recall, by increasing depth.
type ladder struct {
	n     int
	rungs [maxRungs]rung
	// top is the depth above which no beam has the recall; infinity if all measured ones have it.
	top float64
}

// add appends the beam of a depth.
func (l *ladder) add(depth int, x *Point) {
	if l.n == maxRungs || float64(depth) > l.top {
		return
	}
	p := &x.Params
	l.rungs[l.n] = rung{float64(depth), float64(p.Beam), float64(p.R), p.Trees, p.Extra, x.last()}
	l.n++
}

// end records that no measured beam has the recall at a depth. The first rung also serves the depths
// below it.
func (l *ladder) end(depth int) {
	if l.n == 0 {
		return
	}
	// The recall of a beam of proportional width falls on the way: halfway, by a tenth where rows are
	// stored twice.
	last := l.rungs[l.n-1].depth
	l.top = math.Min(l.top, last*math.Pow(float64(depth)/last, 0.25))
}

// at returns the beam of a depth. Between two rungs, width and number of exact distances are
// interpolated as powers; beyond the last they grow in proportion. ok is false if no beam has the
// recall at this depth.
func (l *ladder) at(depth float64) (x rung, ok bool) {
	if l.n == 0 || depth > l.top {
		return rung{}, false
	}
	first, last := l.rungs[0], l.rungs[l.n-1]
	switch {
	case depth <= first.depth:
		return first, true
	case depth >= last.depth:
		last.beam *= depth / last.depth
		last.r *= depth / last.depth
		last.depth = depth
		return last, true
	}
	i := 1
	for depth > l.rungs[i].depth {
		i++
	}
	a, b := l.rungs[i-1], l.rungs[i]
	share := math.Log(depth/a.depth) / math.Log(b.depth/a.depth)
	b.recall = a.recall + share*(b.recall-a.recall)
	b.depth, b.beam, b.r = depth, a.beam*math.Pow(b.beam/a.beam, share), a.r*math.Pow(b.r/a.r, share)
	return b, true
}

// ladder returns the beams that have a recall at the depths of the curve.
func (c *Curve) ladder(recall float64) (l ladder) {
	l.top = math.Inf(1)
	own := false
	for i := range c.Depths {
		d := &c.Depths[i]
		if !own && d.K > c.K {
			l.climb(c, recall)
		}
		own = own || d.K >= c.K // d is for K itself where c has settings with a gap
		l.climb(d, recall)
	}
	if !own {
		l.climb(c, recall)
	}
	return l
}

// ungapped returns the curve of the settings without Params.Gap.
func (c *Curve) ungapped() *Curve {
	for i := range c.Depths {
		if c.Depths[i].K == c.K {
			return &c.Depths[i]
		}
	}
	return c
}

// climbs reports whether a setting can be a rung.
func climbs(p *Params) bool { return p.Beam > 0 && p.R > 0 && p.Gap == 0 && !p.Quant }

// climb adds the cheapest beam of a curve that has the recall.
func (l *ladder) climb(c *Curve, recall float64) {
	if c.K < 1 || l.n > 0 && float64(c.K) <= l.rungs[l.n-1].depth {
		return // in a forged file
	}
	best := c.cheapest(recall, func(*Params) bool { return true })
	if best != nil && best.Params.Method != Flat {
		best = c.cheapest(recall, climbs)
	}
	if best == nil || best.Params.Method == Flat {
		l.end(c.K) // or a scan is cheaper than any beam
		return
	}
	l.add(c.K, best)
}

// Setting returns the cheapest setting that has a recall for the k nearest rows. A setting that
// was measured for k itself is taken as it is; for another k its beam is derived from those of
// the measured depths. It also serves searches of which filters or deletions exclude rows: they
// widen the beam as far as the excluded rows require. ok is false if no setting has the recall,
// or if the recall is 1: only an exact scan guarantees that. O(points), no allocation.
func (c *Curve) Setting(recall float64, k int) (p Params, ok bool) {
	if c == nil || recall >= 1 {
		return Params{}, false
	}
	if k == c.K || len(c.Depths) == 0 {
		p, ok = c.resolve(recall)
		return p.from(c, recall), ok
	}
	l := c.ladder(recall)
	x, ok := l.at(float64(k))
	if !ok {
		p, ok = c.deeper(recall, k)
		return p.from(c, recall), ok
	}
	return c.beam(x, recall), true
}

// beam returns the setting of a rung for a recall.
func (c *Curve) beam(x rung, recall float64) (p Params) {
	for i := range c.Points {
		if y := &c.Points[i].Params; y.Beam > 0 {
			p = *y
			break
		}
	}
	p.K, p.Quant, p.Rerank, p.Sketch, p.Gap, p.GapFloor = 0, false, 0, true, 0, 0
	p.Beam, p.R = int(math.Ceil(min(x.beam, math.MaxInt32))), int(math.Ceil(min(x.r, math.MaxInt32)))
	p.Trees, p.Extra, p.curve, p.recall, p.expected = x.trees, x.extra, c, recall, x.recall
	return p
}

// from returns the parameters with the curve that they are from.
func (p Params) from(c *Curve, recall float64) Params {
	if p.curve, p.recall = c, recall; c.Scan > 0 {
		p.share = p.micros / c.Scan
	}
	return p
}

// deeper returns the setting of the least measured depth of at least k, where the ladder has no beam.
func (c *Curve) deeper(recall float64, k int) (p Params, ok bool) {
	if k <= c.K {
		return c.ungapped().resolve(recall)
	}
	for i := range c.Depths {
		if c.Depths[i].K >= k {
			return c.Depths[i].resolve(recall)
		}
	}
	return Params{}, false
}
