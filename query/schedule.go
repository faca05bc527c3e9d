package query

import (
	"context"
	"math"
	"slices"
)

// A series is a nested list of settings: each visits what the one before it visits, and more.
type series struct {
	settings []Params
	stride   int // of the settings that the first measurement needs; between them others are interpolated
	points   []Point
}

const (
	// fineSteps is the number of widths of a series of beams for each doubling.
	fineSteps = 4
	// exactOfK exact distances for each neighbor, and one for so many places of a beam, find what a beam has but
	// for few rows; the stop rule leaves most of them out.
	exactOfK, exactOfWidth = 3, 8
	// gapRoom is the number of places of a beam with a gap for each that the median query uses.
	gapRoom = 2
	// manyLeaves is the number of leaves of a start with many, fewTrees the number of trees of one with few.
	manyLeaves, fewTrees = 64, 2
)

// start returns the setting of a beam from few leaves, without a width.
func (v *View) start() Params {
	p := Params{Trees: min(fewTrees, v.Forest.Trees), Sketch: true}
	if len(v.Forest.LeafDir) == 0 {
		p.Method = Lookup
	}
	return p
}

// beams returns the series of beams of a start. With gaps, each width has the gap that the median query has
// at half of its places, so that queries with many rows at about the same distance can use the rest.
func (t *tuner) beams(extra int, gaps *gapTable) series {
	out, k := series{stride: fineSteps}, t.held.k
	first := max(k, nearestGap)
	n := t.held.v.N
	for i, width := 0, first; width < n; i++ {
		width = int(math.Ceil(float64(first) * math.Exp2(float64(i)/fineSteps)))
		p := t.held.v.start()
		p.Extra, p.R, p.Beam = extra, min(width, exactOfK*k+width/exactOfWidth), width
		if gaps != nil {
			p.Beam, p.Gap, p.GapFloor = gapRoom*width, gaps.of(width), gaps.floor
		}
		if extra > 0 {
			p.Trees = 0
		}
		out.settings = append(out.settings, p)
	}
	return out
}

// elections returns the series of settings without a beam: of a share of the trees whose votes elect a row
// (all rows with one vote if it is 0), of rows that sketches leave, and of all trees with more leaves.
func (t *tuner) elections(share, keep int, more ...int) series {
	v, out := t.held.v, series{stride: 1}
	add := func(trees, extra int) {
		p := Params{Trees: min(trees, v.Forest.Trees), Extra: extra, Sketch: v.Sketch != nil, R: keep}
		votes := 1
		if share > 0 {
			votes = max(2, p.Trees/share)
		}
		switch {
		case len(v.Forest.LeafDir) == 0:
			p.Method, p.Votes = Voting, min(votes, p.Trees)
		case votes > 1:
			// Halfway between two counts, so that rounding has no effect.
			p.Tau = min(1, (float64(votes)-0.5)/(float64(p.Trees+extra)*v.Forest.MeanLeaf()))
		}
		out.settings = append(out.settings, p)
	}
	for trees := 1; trees < 2*v.Forest.Trees; trees *= 2 {
		add(trees, 0)
	}
	for _, extra := range more {
		add(v.Forest.Trees, extra)
	}
	return out
}

// scans returns the series of scans by sketches.
func (t *tuner) scans() series {
	out, v := series{stride: 1}, t.held.v
	for keep := 3 * t.held.k; keep < v.N; keep *= 4 {
		out.settings = append(out.settings, Params{Method: Flat, Sketch: true, R: keep})
	}
	return out
}

// measure measures every stride-th setting, until they find almost all rows or take as long as an exact scan.
func (s *series) measure(ctx context.Context, t *tuner) error {
	for i := 0; i < len(s.settings); i += s.stride {
		out, err := t.shape.run(ctx, s.settings[i])
		if err != nil {
			return err
		}
		if t.scansMost(&out.Point) {
			out.Recall = 0
		}
		s.points = append(s.points, out.Point)
		if out.Recall >= shaped[len(shaped)-1] || out.Micros > t.scan {
			break
		}
	}
	return nil
}

// scansMost reports whether a setting without a beam elects so few rows that most queries scan all of them.
func (t *tuner) scansMost(p *Point) bool {
	return p.Params.Beam == 0 && p.Params.Method != Flat && p.Candidates < float64(t.held.k)
}

// cost returns the time at which the series has a recall, between two settings interpolated as a power of
// the share of missed rows.
func (s *series) cost(recall, least float64) float64 {
	i := slices.IndexFunc(s.points, func(p Point) bool { return p.Recall >= recall })
	if i < 0 {
		return math.Inf(1)
	}
	b := &s.points[i]
	if i == 0 {
		return b.Micros
	}
	a := &s.points[i-1]
	missed := func(recall float64) float64 { return math.Log(max(1-recall, least)) }
	share := (missed(a.Recall) - missed(recall)) / (missed(a.Recall) - missed(b.Recall))
	return a.Micros * math.Pow(b.Micros/a.Micros, min(max(share, 0), 1))
}

// part returns the settings from the last measured one below a recall to the first one of another, with one
// more measured one on each side.
func (s *series) part(from, to float64) []Params {
	first := slices.IndexFunc(s.points, func(p Point) bool { return p.Recall >= from })
	last := slices.IndexFunc(s.points, func(p Point) bool { return p.Recall >= to })
	if first < 0 {
		first = len(s.points)
	}
	if last < 0 {
		last = len(s.points)
	}
	return s.settings[max(0, first-2)*s.stride : min(len(s.settings), (last+1)*s.stride+1)]
}

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
	if !(gap > 0) { // it may not be a number
		return math.SmallestNonzeroFloat32
	}
	return float32(min(gap, math.MaxFloat32))
}

// gaps returns the gaps of the rows on a beam, nil if it is too narrow. The floor is half of the median
// distance of the row from which they count.
func (m *meter) gaps(ctx context.Context, p Params) (*gapTable, error) {
	t := &gapTable{depth: max(m.k, nearestGap)}
	p.K = m.k
	s := m.lanes[0].s
	var squared [][]float64 // by place depth·2^i, by query
	for _, q := range m.set.Queries {
		if _, _, err := s.Search(ctx, m.v, q, &p, nil); err != nil {
			return nil, err
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
	if len(t.places) < 2 {
		return nil, nil
	}
	return t, nil
}
