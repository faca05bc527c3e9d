package query

import "math"

// A beam is tuned for a number of neighbors. What it needs for another number, the depth,
// follows from a few beams that were tuned for other depths (Curve.Depths): width and number of
// exact distances grow about as a power of the depth. A restricted search, where only a share of
// the rows can be answers, is a search of a greater depth: the nearest k rows that pass a random
// filter are among the nearest k/share rows.

// beamSetting is the beam that has the recall of a width schedule at a depth.
type beamSetting struct {
	depth, beam, r float64
	gap, floor     float32 // Params.Gap and Params.GapFloor
	recall         float64
	measured       *Params // from which the other parameters are taken
}

// widthSchedule has the beams of one recall, by increasing depth.
type widthSchedule struct {
	n      int
	levels [len(depths) + 1]beamSetting
	// top is the depth above which no beam has the recall; infinity if all measured ones have it.
	top float64
}

// end records that no measured beam has the recall at a depth. The first level also serves the depths
// below it.
func (l *widthSchedule) end(depth int) {
	if l.n == 0 {
		return
	}
	l.top = math.Min(l.top, scales(l.levels[l.n-1].depth, float64(depth)))
}

// scales returns the depth up to which a beam has about its recall if its width is in proportion, where no
// beam of its kind has the recall at depth to. The recall falls on the way: halfway, by a tenth where rows
// are stored twice.
func scales(from, to float64) float64 { return from * math.Pow(to/from, 0.25) }

// scaled returns the beam for another depth, in proportion.
func (x beamSetting) scaled(depth float64) beamSetting {
	x.beam, x.r, x.depth = x.beam*depth/x.depth, x.r*depth/x.depth, depth
	return x
}

// at returns the beam of a depth. Between two levels, width and number of exact distances are
// interpolated as powers; beyond the last they grow in proportion. ok is false if no beam has the
// recall at this depth.
func (l *widthSchedule) at(depth float64) (x beamSetting, ok bool) {
	if l.n == 0 || depth > l.top {
		return beamSetting{}, false
	}
	first, last := l.levels[0], l.levels[l.n-1]
	switch {
	case depth <= first.depth:
		return first, true
	case depth >= last.depth:
		return last.scaled(depth), true
	}
	i := 1
	for depth > l.levels[i].depth {
		i++
	}
	a, b := l.levels[i-1], l.levels[i]
	share := math.Log(depth/a.depth) / math.Log(b.depth/a.depth)
	b.recall = min(a.recall, b.recall)
	if a.gap > 0 && b.gap > 0 {
		b.gap, b.floor = a.gap+float32(share)*(b.gap-a.gap), a.floor+float32(share)*(b.floor-a.floor)
	} else { // a beam without a gap contains those of its width with one
		b.gap, b.floor = 0, 0
	}
	b.depth, b.beam, b.r = depth, a.beam*math.Pow(b.beam/a.beam, share), a.r*math.Pow(b.r/a.r, share)
	return b, true
}

// widthSchedule returns the beams that have a recall at the depths of the curve.
func (c *Curve) widthSchedule(recall float64) (l widthSchedule) {
	l.top = math.Inf(1)
	for d := range c.each {
		l.add(d, recall)
	}
	return l
}

// add adds the cheapest beams of a curve that have the recall.
func (l *widthSchedule) add(c *Curve, recall float64) {
	if c.K < 1 || l.n > 0 && float64(c.K) <= l.levels[l.n-1].depth {
		return // in a forged file
	}
	best := c.cheapest(recall, nil)
	if best != nil && best.Params.Method != Flat {
		best = c.cheapest(recall, hasBeam)
	}
	if best == nil || best.Params.Method == Flat {
		l.end(c.K) // or a scan is cheaper than any beam
		return
	}
	if l.n == len(l.levels) || float64(c.K) > l.top {
		return
	}
	p := &best.Params
	l.levels[l.n] = beamSetting{depth: float64(c.K), beam: float64(p.Beam), r: float64(p.R), gap: p.Gap,
		floor: p.GapFloor, recall: c.Promise(best), measured: p}
	l.n++
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
	l := c.widthSchedule(recall)
	x, ok := l.at(float64(k))
	if !ok {
		p, ok = c.deeper(recall, k)
		return p.from(c, recall), ok
	}
	return c.beam(x, recall), true
}

// beam returns the parameters of a beam for a recall.
func (c *Curve) beam(x beamSetting, recall float64) Params {
	p := *x.measured
	p.K, p.Sketch = 0, true
	p.Gap, p.GapFloor = x.gap, x.floor
	p.Beam, p.R = int(math.Ceil(min(x.beam, math.MaxInt32))), int(math.Ceil(min(x.r, math.MaxInt32)))
	p.expected = x.recall
	return p.from(c, recall)
}

// from returns the parameters with the curve that they are from.
func (p Params) from(c *Curve, recall float64) Params {
	p.curve, p.recall = c, recall
	return p
}

// deeper returns the setting of the least measured depth that is at least k and at least the curve's own,
// where the width schedule has no beam.
func (c *Curve) deeper(recall float64, k int) (p Params, ok bool) {
	for d := range c.each {
		if d.K >= max(k, c.K) {
			return d.resolve(recall)
		}
	}
	return Params{}, false
}
