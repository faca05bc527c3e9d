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
	// exactQueries is the number of queries that time an exact scan.
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

// exact returns the time of an exact scan in microseconds.
func (t *tuner) exact(ctx context.Context) (float64, error) {
	var s sample
	p := Params{Method: Flat}
	if err := t.run(ctx, p, max(1, len(t.m.queries)/exactQueries), &s); err != nil {
		return 0, err
	}
	return s.point(p).Micros, nil
}
