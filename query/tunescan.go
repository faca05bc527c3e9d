package query

import (
	"context"
	"math"
	"slices"
	"time"
)

// Where no beam has a recall, or only one so wide that it reads a large share of the rows, comparing the
// sketches of all rows in their order is cheaper, and it always is cheaper than an exact scan: a sketch
// is a fraction of a row.

const (
	// scanRun is the approximate maximum time of the run of one scan.
	scanRun = 500 * time.Millisecond
	// scanNanos is the approximate time of a sketch in a scan, scanShare the number of bytes of a row
	// for each byte of its sketch from which scans are measured.
	scanNanos, scanShare = 3, 2
	// exactQueries is the number of queries that time an exact scan which takes long.
	exactQueries = 4
)

// scanKeeps are the numbers of exact distances that scans by sketches begin with, as multiples of k.
var scanKeeps = [...]int{3, 12, 50, 200}

// scans returns points of scans by sketches that may be cheaper than those that were measured, or have
// a higher recall.
func (t *tuner) scans(ctx context.Context, points []Point) ([]Point, error) {
	v := t.m.v
	if v.Sketch == nil || 4*v.Dim < scanShare*v.Sketch.Width {
		return nil, nil
	}
	micros := scanNanos * float64(v.N) / 1e3
	if slices.ContainsFunc(points, func(p Point) bool {
		return p.Recall >= refined[len(refined)-1] && p.Micros < micros
	}) {
		return nil, nil
	}
	var out []Point
	for _, keep := range scanKeeps {
		p := Params{Method: Flat, Sketch: true, R: keep * t.m.k}
		if p.R > v.N/scanShare {
			break
		}
		var s sample
		stride := int(math.Ceil(micros * float64(len(t.m.queries)) * float64(time.Microsecond) / float64(scanRun)))
		if err := t.run(ctx, p, min(max(1, stride), max(1, len(t.m.queries)/depthQueries)), &s); err != nil {
			return nil, err
		}
		x := s.point(p)
		out = append(out, x)
		if x.Recall >= reachedAll {
			break
		}
		micros = x.Micros
	}
	return out, nil
}

// close makes points the settings of a curve, with scans by sketches and the exact scan, so that no setting
// that takes longer than the exact scan is worth using.
func (t *tuner) close(ctx context.Context, c *Curve, points []Point) error {
	scans, err := t.scans(ctx, points)
	if err != nil {
		return err
	}
	p := Params{Method: Flat}
	var x Point
	for _, queries := range [...]int{exactQueries, clockStep} {
		var s sample
		if err := t.run(ctx, p, max(1, len(t.m.queries)/queries), &s); err != nil {
			return err
		}
		if x = s.point(p); x.Micros*clockStep > float64(affordableRun.Microseconds()) {
			break
		}
	}
	c.Scan, x.Recall = x.Micros, 1
	c.set(append(append(points, scans...), x))
	return nil
}
