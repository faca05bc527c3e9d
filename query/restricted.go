package query

import (
	"cmp"
	"math"
	"slices"
)

// A restricted search is one in which some rows cannot be answers: deleted ones, and those that a
// filter excludes. Its beam goes through them: they are expanded like others, but only passing
// rows are answers. The place of the k-th passing row on the beam is the depth that the search
// needs, whatever the filter has to do with the query, and the width schedule has the width for that depth.
// If few rows pass, or if the passing ones are far from the query, comparing the sketches of all
// passing rows is cheaper than such a beam.

const (
	// scanPlaces is the number of sketches compared in a scan at the cost of one place on a beam: 10 to 40,
	// the more the larger the collection is next to the caches.
	scanPlaces = 20
	// fewPassing is the number of passing rows up to which each gets an exact distance.
	fewPassing = 200
	// fewEntered is the number of answers for each that the last rows of such a scan may have changed, and
	// settleErrors the number of standard errors by which the estimates of the others must exceed the answer.
	fewEntered, settleErrors = 400, 1.645
)

// passingRows returns an upper bound of the number of rows of [first, end) that can be answers: the rows
// that Params.Accept rejects are not known.
func (s *Searcher) passingRows(first, end int) int {
	live := s.v.liveWithin(first, end)
	if s.p.Filter == nil {
		return live
	}
	return min(live, rowsWithin(s.p.Filter, first, end))
}

// restrictedBeam returns the rows that get exact distances. ok is false if a scan is cheaper than a
// beam.
func (s *Searcher) restrictedBeam() (ids []uint32, ok bool) {
	k, passing := max(1, s.p.K), max(1, s.passingRows(s.seg.First, s.seg.end()))
	if s.p.NoWiden {
		s.follow(s.gather(0), s.beamWidth())
		return s.take(k, s.p.sketchKeep()), true
	}
	affordable := passing / scanPlaces // a wider beam costs more than a scan of the sketches
	start, _ := s.beamFor(float64(k))
	width := s.places(start.beam)
	// The depth if passing rows were spread evenly.
	expected, ok := s.beamFor(float64(k) * float64(s.seg.N) / float64(passing))
	random := ok && s.used(&expected) <= affordable
	if s.used(&start) > affordable {
		return nil, false
	}
	ids = s.gather(0)
	if !random && !s.passNear(ids, k, affordable) {
		return nil, false
	}
	s.spills = true
	s.limit(&start)
	s.startBeam(ids, width)
	for from := 0; ; {
		if s.walk(from, width); s.halted() {
			return nil, true
		}
		s.trim()
		x, enough, ok := s.wanted(width, k, float64(passing)/float64(max(1, s.seg.N)))
		if s.farther(s.usual()) {
			x.beam, x.r, x.gap = unlikeWidth*x.beam, unlikeWidth*x.r, unlikeWidth*x.gap
		}
		need, exhausted := s.places(x.beam), !s.stop.ended && s.beam.len()+len(s.spilled) <= width
		wide := need <= width && (!(s.stop.share > 0) || s.places(x.depth) <= s.stop.depth)
		switch {
		case enough && ok && (wide || exhausted):
			return s.take(max(k, s.places(start.r)), s.places(x.r)), true
		case !ok || exhausted || !enough && need <= width || s.used(&x) > affordable+affordable/2:
			return nil, false
		}
		if from = width; s.stop.ended {
			from = 0 // rows before that place are not expanded
		}
		width = max(width, need)
		s.limit(&x)
		s.widen(width)
	}
}

// passNear reports whether so many of the rows elected by the forest pass that an affordable beam has k
// of them. It finds filters that prefer rows near the query at the cost of some leaves.
func (s *Searcher) passNear(ids []uint32, k, affordable int) bool {
	found := 0
	for _, id := range ids {
		if s.allowed(id + uint32(s.seg.First)) {
			found++
		}
	}
	if found == 0 {
		return false
	}
	x, ok := s.beamFor(float64(k) * float64(len(ids)) / float64(found))
	return ok && s.used(&x) <= affordable
}

// places converts a width to whole places, at least 1 and at most one for each row: the widths of a
// forged file may be anything.
func (s *Searcher) places(width float64) int {
	return int(max(1, min(math.Ceil(width), float64(s.seg.N))))
}

// used returns the number of places of a beam that the median query uses.
func (s *Searcher) used(x *beamSetting) int {
	if x.gap > 0 {
		return s.places(x.beam / gapRoom)
	}
	return s.places(x.beam)
}

// limit gives the current beam the gap of a setting.
func (s *Searcher) limit(x *beamSetting) {
	depth := max(s.places(x.depth), nearestGap)
	s.stop = gap{share: x.gap, floor: x.floor, depth: depth, keep: max(s.places(x.r), depth)}
}

// beamFor returns the beam for a depth.
func (s *Searcher) beamFor(depth float64) (beamSetting, bool) {
	if s.widths.n > 0 {
		return s.widths.at(depth)
	}
	// Parameters that were given: as many times the depth as for k.
	k := float64(max(1, s.p.K))
	return beamSetting{
		depth: depth,
		beam:  float64(max(s.p.Beam, s.p.sketchKeep())) * max(1, depth/k),
		r:     float64(s.p.sketchKeep()) * max(1, depth/k),
		gap:   s.p.Gap, floor: s.p.GapFloor,
	}, true
}

// wanted returns the beam that the place of the k-th passing row calls for. If fewer pass among
// the best width, enough is false and the place extrapolated: by the share of the passing rows there,
// or, where that is below the share of all rows that pass, by a share between the two, since a few
// places say little. ok is false if no beam is wide enough.
func (s *Searcher) wanted(width, k int, share float64) (x beamSetting, enough, ok bool) {
	found := 0
	for i := range min(width, s.beam.len()) {
		if s.passes(i) {
			if found++; found == k {
				x, ok = s.beamFor(float64(i + 1))
				return x, true, ok
			}
		}
	}
	all := float64(max(1, min(width, s.beam.len())))
	seen := max(float64(found)/all, float64(found+k)/(all+float64(k)/share))
	x, ok = s.beamFor(float64(k) / seen)
	x.beam = max(x.beam, float64(width)*1.25+1)
	return x, false, ok
}

// passes reports whether the row at a place of the beam can be an answer.
func (s *Searcher) passes(place int) bool {
	m := &s.beam.marks[place]
	if *m&judged == 0 {
		*m |= judged
		if s.allowed(s.beam.row(place) + uint32(s.seg.First)) {
			*m |= passed
		}
	}
	return *m&passed != 0
}

// take returns the passing rows among the best r places of the beam, and more if these are fewer
// than least.
func (s *Searcher) take(least, r int) []uint32 {
	s.hop = grow(s.hop, s.beam.len())[:0]
	for i := range s.beam.len() {
		if i >= r && len(s.hop) >= least {
			break
		}
		if s.passes(i) {
			s.hop = append(s.hop, s.beam.row(i))
		}
	}
	return s.hop
}

// trim moves the rows off the beam that were kept before rows nearer to the query lowered the bar, so that
// those on it are better than all that spilled.
func (s *Searcher) trim() {
	b, bar := &s.beam, s.bar()
	left := b.len()
	for left > s.stop.keep && b.keys[left-1] >= bar {
		left--
		s.spilled = append(s.spilled, spot{b.keys[left], b.marks[left]})
	}
	b.keys, b.marks = b.keys[:left], b.marks[:left]
}

// widen gives the beam more places, for the best of the rows that it had no room for (Searcher.spills).
func (s *Searcher) widen(width int) {
	s.stats.Width = width
	bar, n := s.bar(), len(s.spilled)
	s.hop, s.scores = grow(s.hop, n)[:0], grow(s.scores, n)[:0]
	for i, x := range s.spilled {
		if x.key < bar {
			s.hop, s.scores = append(s.hop, uint32(i)), append(s.scores, keyEstimate(x.key))
		}
	}
	b := &s.beam
	best := selectBest(s.hop, s.scores, width-b.len())
	slices.SortFunc(best, func(i, j uint32) int {
		return cmp.Compare(s.spilled[i].key, s.spilled[j].key)
	})
	more := max(0, width+moveRun-b.len())
	b.keys, b.marks = slices.Grow(b.keys, more), slices.Grow(b.marks, more)
	for _, i := range best {
		x := &s.spilled[i]
		b.keys, b.marks = append(b.keys, x.key), append(b.marks, x.mark)
		x.key = noKey // on the beam again
	}
	s.spilled = slices.DeleteFunc(s.spilled, func(x spot) bool { return x.key == noKey })
}
