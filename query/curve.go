package query

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Point is one setting of the search and its measurements.
type Point struct {
	Params Params `json:"params"`
	// Recall is the share of the true K nearest rows that held-out queries find with this setting and with
	// each later one of the schedule, averaged over queries. Users is the same for queries of users, if
	// Curve.Sampled is above zero.
	Recall float64 `json:"recall"`
	Users  float64 `json:"users,omitempty"`
	// Micros is the typical time of a query in microseconds, on one thread.
	Micros float64 `json:"micros"`
	// Candidates is the mean number of rows elected.
	Candidates float64 `json:"candidates"`
}

// Curve holds the settings worth using on one view for K neighbors: each is faster than all others
// of higher recall. Points rise in recall and in time.
type Curve struct {
	K       int `json:"k"`       // requested neighbors
	Queries int `json:"queries"` // held-out queries that were measured
	// Sampled is the number of queries of users that were measured.
	Sampled int     `json:"sampled,omitempty"`
	Points  []Point `json:"points"`
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
	// Depths are curves for other numbers of neighbors, ascending, without Depths of their own.
	Depths []Curve `json:"depths,omitempty"`
}

// conformal returns the recall that an (n+1)-th query is expected to have at least, if it is exchangeable
// with n queries of that mean recall: conformal risk control with the share of missed rows as the loss
// (Angelopoulos and others 2022, arXiv 2208.02814, theorem 1).
func conformal(recall float64, n int) float64 {
	return max(0, 1-(float64(n)*(1-recall)+1)/float64(n+1))
}

// Promise returns the expected recall of a setting of the curve, at least, for queries like those that were
// held out. If users' queries were measured, it is at most their mean recall: the expected recall of a
// setting that n of them choose is at most 1/(n+1) less for others like them, which queries like the rows
// would have to pay for.
func (c *Curve) Promise(p *Point) float64 {
	missed := p.Params.Sketch && (p.Recall < 1 || c.Sampled > 0 && p.Users < 1)
	if p.Params.Method == Flat && !missed {
		return 1 // an exact scan, or one by sketches that has missed no row
	}
	promise := conformal(p.Recall, c.Queries)
	if c.Sampled > 0 {
		promise = min(promise, p.Users)
	}
	return promise
}

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
	case c.K < 1 || c.K > math.MaxInt32:
		return fmt.Errorf("k is %d, want 1 to %d", c.K, math.MaxInt32)
	case min(c.Queries, c.Sampled, c.Rows) < 0:
		return fmt.Errorf("%d queries, %d sampled, %d rows, want at least 0", c.Queries, c.Sampled, c.Rows)
	case !nonNegative(float64(c.Reach)) || !nonNegative(float64(c.Usual)) || !nonNegative(c.Scan):
		return fmt.Errorf("reach is %g, usual %g, scan %g, want at least 0", c.Reach, c.Usual, c.Scan)
	}
	for i := range c.Points {
		if err := c.Points[i].validate(tables, members); err != nil {
			return fmt.Errorf("point %d: %w", i, err)
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
	for _, x := range []float64{p.Recall, p.Users} {
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
	out.Points, out.Depths = slices.Clone(c.Points), slices.Clone(c.Depths)
	for i := range c.Depths {
		out.Depths[i] = c.Depths[i].clone()
	}
	return out
}

// each yields the curve and its depths, by increasing number of neighbors.
func (c *Curve) each(yield func(*Curve) bool) {
	own := false
	for i := range c.Depths {
		d := &c.Depths[i]
		if !own && d.K > c.K {
			if own = true; !yield(c) {
				return
			}
		}
		if !yield(d) {
			return
		}
	}
	if !own {
		yield(c)
	}
}

// hasBeam reports whether a setting can be in a width schedule.
func hasBeam(p *Params) bool { return p.Beam > 0 && p.R > 0 }

// resolve returns the cheapest measured setting that promises the given recall, with K zero. ok
// is false if there is none or if the curve is nil. O(points).
func (c *Curve) resolve(recall float64) (p Params, ok bool) {
	best := c.cheapest(recall, nil)
	if best == nil {
		return Params{}, false
	}
	p = best.Params
	if p.K, p.expected = 0, c.Promise(best); c.Scan > 0 {
		p.share = best.Micros / c.Scan
	}
	return p, true
}

// cheapest returns the cheapest point that promises the given recall and whose parameters qualify, if that is
// not nil. It returns nil if there is none or if the curve is nil.
func (c *Curve) cheapest(recall float64, qualifies func(p *Params) bool) (best *Point) {
	if c == nil {
		return nil
	}
	for i := range c.Points {
		x := &c.Points[i]
		if (best == nil || x.Micros < best.Micros) && c.Promise(x) >= recall &&
			(qualifies == nil || qualifies(&x.Params)) {
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
		if p := c.cheapest(recall, nil); p != nil {
			micros = min(micros, p.Micros)
		}
		if micros > Dear*c.Scan {
			return recall, micros, true
		}
	}
	return 0, 0, false
}

// prune drops the settings that take as long as an exact scan, or as long as one of at least their recall.
// They are in the order of the schedule, each with at least the recall of the one before.
func (c *Curve) prune() {
	least, n := math.Inf(1), len(c.Points)
	for i := n - 1; i >= 0; i-- {
		if x := c.Points[i]; x.Micros < least {
			least, n = x.Micros, n-1
			c.Points[n] = x
		}
	}
	c.Points = slices.Delete(c.Points, 0, n)
}
