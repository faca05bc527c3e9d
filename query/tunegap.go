package query

import (
	"context"
	"math"
	"slices"
	"time"
)

// Beams with a gap are tuned like those without, as a schedule of widths. Each width has the gap that the
// median query has at a part of its places, so that queries with many rows at about the same distance can
// use the rest.

const (
	// gapRoom is the number of places of a beam for each that the median query uses.
	gapRoom = 4
	// gapLeast is the smallest gap.
	gapLeast = 1e-3
	// gapSame is the ratio of the shares of misses up to which two recalls are about the same.
	gapSame = 1.1
)

// gapTable holds the medians of Params.Gap that end a beam at the places depth·2^i.
type gapTable struct {
	depth  int     // the place of the row from which they count
	floor  float32 // Params.GapFloor
	places []float64
}

// of returns the gap that ends a median beam at a place, interpolated between the logarithms of places.
func (t *gapTable) of(place int) float32 {
	steps := max(0, math.Log2(float64(place)/float64(t.depth)))
	i := min(int(steps), len(t.places)-2)
	gap := t.places[i] + (t.places[i+1]-t.places[i])*(steps-float64(i))
	if !(gap >= gapLeast) { // it may not be a number
		return gapLeast
	}
	return float32(min(gap, math.MaxFloat32))
}

// measureGaps returns the gaps of the rows on the widest beam of the schedule. The floor is half of the
// median distance of the row from which they count.
func (b *beams) measureGaps(ctx context.Context) (t gapTable, err error) {
	m := &b.t.m
	t.depth = max(m.k, nearestGap)
	p := b.schedule[len(b.schedule)-1].p
	p.K = m.k
	s := m.lanes[0].s
	var squared [][]float64 // by place depth·2^i, by query
	for i := 0; i < len(m.queries); i += b.stride() {
		if _, _, err := s.Search(ctx, m.v, m.queries[i], &p, nil); err != nil {
			return t, err
		}
		for j, place := 0, t.depth; place <= s.beam.len(); j, place = j+1, 2*place {
			if j == len(squared) {
				squared = append(squared, nil)
			}
			squared[j] = append(squared[j], float64(s.squaredAt(place)))
		}
	}
	median := func(x []float64) float64 {
		x = slices.Sorted(slices.Values(x))
		return x[len(x)/2]
	}
	for j, x := range squared {
		if len(x) < len(squared[0]) {
			break // a beam that is not full
		}
		if floor := median(x) / 2; j == 0 && floor <= math.MaxFloat32 { // it is a number
			t.floor = float32(floor)
		}
		gaps := make([]float64, len(x))
		for i, far := range x {
			kth := squared[0][i]
			gaps[i] = (far - kth) / max(kth, float64(t.floor), math.SmallestNonzeroFloat32)
		}
		t.places = append(t.places, median(gaps))
	}
	return t, nil
}

// gappedTwin returns beams of the same starts with a gap, without measurements, nil if no gaps are known.
func (b *beams) gappedTwin() *beams {
	if len(b.gaps.places) < 2 || b.t.elapsed() > patience*b.t.budget {
		return nil
	}
	g := *b
	g.limited, g.schedule, g.points = true, nil, nil
	return &g
}

// addGapped measures the beams of the same starts with a gap for recalls beyond above.
func (b *beams) addGapped(ctx context.Context, above float64) error {
	// They are about as many as those without a gap, and do not reduce the time for these.
	defer func(spent time.Duration) { b.t.spent = spent }(b.t.spent)
	b.twin = b.gappedTwin()
	if b.twin == nil {
		return nil
	}
	if err := b.twin.measureWidths(ctx); err != nil {
		return err
	}
	return b.twin.measureRecalls(ctx, above)
}

// settings returns the points of some starts, those with a gap only where they are clearly faster: where
// queries are farther from all rows than the held-out ones, they take more time than was measured, and have
// a higher recall.
func settings(starts ...*beams) []Point {
	without := gapless(starts)
	points := slices.Clone(without)
	for _, b := range starts {
		if b.twin == nil {
			continue
		}
		for _, p := range b.twin.points {
			if !slices.ContainsFunc(without, func(x Point) bool {
				return 1-x.Recall <= gapSame*(1-p.Recall) && variedGain*x.Micros <= p.Micros
			}) {
				points = append(points, p)
			}
		}
	}
	return points
}

// gapless returns the points of some starts without a gap.
func gapless(starts []*beams) (points []Point) {
	for _, b := range starts {
		points = append(points, b.points...)
	}
	return points
}

// narrowest returns the least width of a schedule.
func (b *beams) narrowest() int {
	if !b.limited {
		return b.t.m.k
	}
	return gapRoom * b.gaps.depth
}

// room returns the number of places of a beam for each that the median query uses.
func (b *beams) room() int {
	if !b.limited {
		return 1
	}
	return gapRoom
}

// resize gives a setting another width.
func (b *beams) resize(p *Params, width int) {
	p.Beam = width
	if b.limited {
		p.Gap, p.GapFloor = b.gaps.of(width/gapRoom), b.gaps.floor
	}
}
