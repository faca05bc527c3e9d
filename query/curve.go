package query

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Point is one setting of the search and its measurements.
type Point struct {
	Params Params `json:"params"`
	// Recall is the share of the true K nearest rows found, averaged over queries.
	Recall float64 `json:"recall"`
	// Held is the recall for queries that the tuner held out, if Recall is the lower one for queries of users
	// (Curve.Bound); otherwise zero.
	Held float64 `json:"held,omitempty"`
	// Micros is the mean time of a query in microseconds, on one thread.
	Micros float64 `json:"micros"`
	// Candidates is the mean number of rows elected.
	Candidates float64 `json:"candidates"`
}

// Curve holds the settings worth using on one view for K neighbors: each is faster than all others
// of higher recall. Points rise in recall and in time.
type Curve struct {
	K       int `json:"k"`       // requested neighbours
	Queries int `json:"queries"` // measured queries
	// Sampled is the number of queries of users by which recalls were bounded.
	Sampled int     `json:"sampled,omitempty"`
	Points  []Point `json:"points"`
	// Plain are settings without Params.Gap that are not worth using next to those with one, except between
	// two depths of which one has none.
	Plain []Point `json:"plain,omitempty"`
	// Reach is the largest internal distance from a measured query to its K-th nearest row. A query
	// whose K-th row is farther is unlike all of them (Stats.Far). It is 0 if it is unknown, and
	// under InnerProduct, where it depends on the length of the query.
	Reach float32 `json:"reach,omitempty"`
	// Usual is the squared distance, by estimate, of the K-th row on the beam that nearly all held-out queries
	// do not exceed; 0 if it is unknown.
	Usual float32 `json:"usual,omitempty"`
	// Scan is the time of an exact scan in microseconds, 0 if it is unknown.
	Scan float64 `json:"scan,omitempty"`
	// Rows is the number of live rows, and Measured the time, when the curve was last measured.
	Rows     int       `json:"rows,omitempty"`
	Measured time.Time `json:"measured,omitzero"`
	// ScanPlaces is the number of sketches that are compared in a scan in the time of one place on a
	// beam, zero if it was not measured.
	ScanPlaces float64 `json:"scanPlaces,omitempty"`
	// Depths are curves for other numbers of neighbors, ascending, without Depths of their own.
	Depths []Curve `json:"depths,omitempty"`
}

// maxCurveK is the largest number of neighbors of a curve.
const maxCurveK = 1<<31 - 1

// Validate checks a curve from outside for a view whose forest has label tables or member lists: that
// a search accepts every setting, and that Tune can have measured every value. Searches rely on
// it. O(points). Errors wrap ErrCurve.
func (c *Curve) Validate(tables, members bool) error {
	if err := c.validate(tables, members); err != nil {
		return fmt.Errorf("%w: %w", ErrCurve, err)
	}
	k := 0
	for i := range c.Depths {
		d := &c.Depths[i]
		if d.K <= k || d.K == c.K || len(d.Depths) > 0 {
			return fmt.Errorf("%w: depth %d is of %d neighbors", ErrCurve, i, d.K)
		}
		if err := d.validate(tables, members); err != nil {
			return fmt.Errorf("%w: depth %d: %w", ErrCurve, d.K, err)
		}
		k = d.K
	}
	return nil
}

// validate checks a curve without its depths.
func (c *Curve) validate(tables, members bool) error {
	switch {
	case c.K < 1 || c.K > maxCurveK:
		return fmt.Errorf("k is %d, want 1 to %d", c.K, maxCurveK)
	case min(c.Queries, c.Sampled, c.Rows) < 0:
		return fmt.Errorf("%d queries, %d sampled, %d rows, want at least 0", c.Queries, c.Sampled, c.Rows)
	case !nonNegative(float64(c.Reach)) || !nonNegative(float64(c.Usual)) || !nonNegative(c.Scan):
		return fmt.Errorf("reach is %g, usual %g, scan %g, want at least 0", c.Reach, c.Usual, c.Scan)
	case c.ScanPlaces != 0 && !(c.ScanPlaces >= fewestPlaces && c.ScanPlaces <= mostScanPlaces):
		return fmt.Errorf("scanPlaces is %g, want 0, or %d to %d", c.ScanPlaces, fewestPlaces, mostScanPlaces)
	}
	for i := range c.Points {
		if err := c.Points[i].validate(tables, members); err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
	}
	for i := range c.Plain {
		if err := c.Plain[i].validate(tables, members); err != nil {
			return fmt.Errorf("plain point %d: %w", i, err)
		}
	}
	return nil
}

// validate checks a setting and its measurements.
func (p *Point) validate(tables, members bool) error {
	if err := p.Params.checkValues(); err != nil {
		return err
	}
	if err := p.Params.checkMethod(tables, members); err != nil {
		return err
	}
	for _, x := range []float64{p.Recall, p.Held} {
		if !(x >= 0 && x <= 1) {
			return fmt.Errorf("recall is %g, want 0 to 1", x)
		}
	}
	if !nonNegative(p.Micros) || !nonNegative(p.Candidates) {
		return fmt.Errorf("%g microseconds and %g candidates, want at least 0", p.Micros, p.Candidates)
	}
	return nil
}

// nonNegative reports whether x is a finite number of at least 0.
func nonNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// clone returns a copy with points of its own.
func (c *Curve) clone() Curve {
	out := *c
	out.Points, out.Plain, out.Depths = slices.Clone(c.Points), slices.Clone(c.Plain), slices.Clone(c.Depths)
	for i := range c.Depths {
		out.Depths[i] = c.Depths[i].clone()
	}
	return out
}

// set makes points the settings of the curve, as far as they are worth using.
func (c *Curve) set(points []Point) {
	c.Points, c.Plain = pareto(points), nil
	gapless := slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !plain(&p.Params) })
	for _, p := range pareto(gapless) {
		if slices.ContainsFunc(c.Points, func(x Point) bool {
			return x.Params.Gap > 0 && x.Micros <= p.Micros && x.Recall >= p.Recall
		}) {
			c.Plain = append(c.Plain, p)
		}
	}
}

// climbs reports whether a setting can be a rung of a ladder, and plain whether it is one without a gap.
func climbs(p *Params) bool { return p.Beam > 0 && p.R > 0 }
func plain(p *Params) bool  { return p.Gap == 0 && climbs(p) }

// plainest returns the cheapest beam without a gap of at least the given recall, nil if there is none.
func (c *Curve) plainest(recall float64) *Point {
	x := c.cheapest(recall, plain)
	y := (&Curve{Points: c.Plain}).cheapest(recall, plain)
	if x == nil || y != nil && y.Micros < x.Micros {
		return y
	}
	return x
}

// resolve returns the cheapest measured setting of at least the given recall, with K zero. ok
// is false if there is none or if the curve is nil. O(points).
func (c *Curve) resolve(recall float64) (p Params, ok bool) {
	best := c.cheapest(recall, func(*Params) bool { return true })
	if best == nil {
		return Params{}, false
	}
	p = best.Params
	if p.K, p.expected = 0, best.Recall; c.Scan > 0 {
		p.share = best.Micros / c.Scan
	}
	return p, true
}

// cheapest returns the cheapest point of at least the given recall whose parameters qualify, nil if
// there is none or if the curve is nil.
func (c *Curve) cheapest(recall float64, qualifies func(p *Params) bool) (best *Point) {
	if c == nil {
		return nil
	}
	for i := range c.Points {
		x := &c.Points[i]
		if x.Recall >= recall && (best == nil || x.Micros < best.Micros) && qualifies(&x.Params) {
			best = x
		}
	}
	return best
}

// Dear is the share of the time of an exact scan above which a search is dear.
const Dear = 0.1

// longScan is the time of an exact scan, in microseconds, below which no search is dear.
const longScan = 1000

// FirstDear returns the lowest of the recalls 0.8, 0.9, 0.95, 0.99 and 0.999 that is dear, with its time in
// microseconds. ok is false if none is, if an exact scan takes less than a millisecond, or if the curve is
// nil.
func (c *Curve) FirstDear() (recall, micros float64, ok bool) {
	if c == nil || c.Scan < longScan {
		return 0, 0, false
	}
	for _, recall := range []float64{0.8, 0.9, 0.95, 0.99, 0.999} {
		micros := c.Scan
		if p := c.cheapest(recall, func(*Params) bool { return true }); p != nil {
			micros = min(micros, p.Micros)
		}
		if micros > Dear*c.Scan {
			return recall, micros, true
		}
	}
	return 0, 0, false
}

// pareto keeps the points that no other point beats in recall or time without being worse in
// the other, rising in both.
func pareto(points []Point) []Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Micros, b.Micros), cmp.Compare(b.Recall, a.Recall))
	})
	n := 0
	for _, p := range points {
		if n == 0 || p.Recall > points[n-1].Recall && p.Micros > points[n-1].Micros {
			points[n] = p
			n++
		}
	}
	return points[:n]
}
