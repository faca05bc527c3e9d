package query

import (
	"context"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Searcher holds the memory of one query at a time. When reused, it allocates nothing in steady
// state. It is not safe for concurrent use.
type Searcher struct {
	v      *View
	seg    *Segment // that is searched
	p      *Params
	params Params // of the segment; p points to it; K is at most the number of rows
	first  Params // of the large segment
	stats  Stats
	// errors are those of the estimates of rows that were compared exactly.
	errors residuals

	e      electorate
	exact  scorer
	quant  quantScorer
	multi  forest.MultiScratch
	leaves []uint32
	route  []forest.TreeLeaf

	unit    []float32 // the query in the partition space
	lifted  float32   // the factor by which it was scaled for inner product
	rotated []float32
	// straight is the query in the partition space if the forest compares rotated coordinates and
	// nothing else needs them: those that no node has compared are NaN.
	straight []float32
	coords   []float32 // scratch of the forest's projections
	space    []float32 // the query in the partition space
	z        []float32 // coordinates that the forest compares
	sums     []int32   // scratch of the byte rotation
	sketch   sketchQuery
	fromMean float32 // squared distance of the query to the mean, which estimates lack
	stop     gap     // of the current beam
	nearest  float32 // squared distance by which Curve.Observe judges
	scores   []float32
	pick     selector

	top    vector.TopK
	rerank vector.TopK
	within []vector.Neighbor // range search
	hits   []vector.Neighbor
	hop    []uint32
	// trial is set by the tuner: deleted rows are its queries. They are dropped from the lists,
	// since the list of a query itself would lead to its answers.
	trial  bool
	ladder ladder // of a restricted search
	pool   pool
	rows   roaring.ManyIntIterator // of the filter
	batch  []uint32                // rows of a scan
	beam   beam
	merger merger
	// spilled are rows that the beam had no room for. They are kept if spills is set.
	spilled []spot
	spills  bool
	// counting is 0, 1, 2...
	counting []uint32
	// seen[row] is epoch for a row that was scored and epoch+1 for a row whose list was
	// followed; smaller numbers are of older searches.
	seen  []uint16
	epoch uint16

	ctx   context.Context // context of the current search
	err   error           // why the search was stopped
	every int             // rows scored between two checks of ctx, minus one: a mask
	judgements
	scaled  []float32         // a short query, lengthened
	unscale float64           // factor for its dot products
	spare   []vector.Neighbor // scratch of sort

	watch *watch // the row that ExplainLast observes
}

// NewSearcher returns an empty Searcher; its memory grows as queries need it.
func NewSearcher() *Searcher {
	s := new(Searcher)
	s.multi.Halt = s.halted
	return s
}

// Search appends the nearest rows of the view to dst, nearest first, ties by
// row, with internal distances: squared for L2, 1 - cosine, negated dot
// product. q has View.Dim finite coordinates.
//
// docs/ARCHITECTURE.md, section 6, describes the pipeline: route the query down the trees, sum
// the leaves' label proportions (equation 5), elect the labels that exceed τ (equation 8),
// reduce them by sketch and 8-bit copy, score the rest exactly, follow their own labels for a
// few hops, and scan the rows newer than the index. Filters and deleted rows widen the search as
// far as they require; a filter of few rows is answered by scanning them instead.
//
// The answer holds min(K, live rows that pass the filters) rows unless NoWiden is set. In a
// range search it holds all rows found within Radius, at most K when K is positive.
//
// Cost: O(trees·depth + labels + R·Dim), independent of N where no widening is needed.
// Params.Accept is called at most once per row. Errors: ErrParams, ErrDimension, ErrNotFinite,
// ErrNorm, ErrMethod, ErrCurve, and the context's, which is checked between stages, before every call of
// Params.Accept, and within a stage after 64 exact distances or 16,384 coordinates, whichever
// comes first. In case of an error dst is returned unchanged.
func (s *Searcher) Search(ctx context.Context, v *View, q []float32, p *Params,
	dst []vector.Neighbor) ([]vector.Neighbor, Stats, error) {
	s.stats = Stats{}
	if err := p.check(v, q); err != nil {
		return dst, s.stats, err
	}
	norm := vector.Dot(q, q)
	if !(norm <= math.MaxFloat32) {
		if i := vector.IsFinite(q); i >= 0 {
			return dst, s.stats, fmt.Errorf("%w: coordinate %d is %g", ErrNotFinite, i, q[i])
		}
		return dst, s.stats, fmt.Errorf("%w: its squared length is above %g", ErrNorm, math.MaxFloat32)
	}
	s.v, s.first = v, *p
	s.first.K = min(p.K, v.Rows.N)
	if p.Accept != nil {
		s.judgements.begin(v.Rows.N)
	}
	s.unscale = 1
	if norm < smallNorm && v.Metric != vector.L2 {
		q, norm = s.lengthen(q, norm)
	}
	return s.search(ctx, q, norm, dst)
}

// search is Search after its parameters were checked and stored.
func (s *Searcher) search(ctx context.Context, q []float32, norm float32,
	dst []vector.Neighbor) ([]vector.Neighbor, Stats, error) {
	s.begin(ctx)
	s.p, s.params = &s.params, s.first
	s.seg, s.errors = &s.v.Segment, residuals{}
	if s.p.Filter != nil {
		s.stats.Passing = s.passingRows(0, s.v.Rows.N)
	}
	if !s.p.Range {
		s.stats.Recall, s.stats.OfScan = s.p.expected, s.p.share
	}
	if err := s.widens(); err != nil {
		s.ctx = nil
		return dst, s.stats, err
	}
	s.exact.reset(s.v, q)
	s.top.Reset(s.depth())
	s.within = s.within[:0]
	s.run(q, norm)
	n := len(dst)
	if s.err == nil {
		dst = s.append(dst)
		s.stats.Far = s.far(dst[n:])
		s.shorten(dst[n:])
	}
	s.ctx = nil
	if s.err != nil {
		return dst[:n], s.stats, s.err
	}
	return dst, s.stats, nil
}

// widens prepares a restricted search to widen its beam.
func (s *Searcher) widens() error {
	s.ladder.n = 0
	if c := s.p.curve; c != nil && s.restricted() && !s.fewPass() {
		s.ladder = c.ladder(s.p.recall)
		return s.beamForLeaves()
	}
	return nil
}

// beamForLeaves replaces a setting without a beam, which may be the cheapest for a low recall, by one with
// a beam, which a restricted search can widen.
func (s *Searcher) beamForLeaves() error {
	p := s.p
	x, ok := s.ladder.at(float64(p.K))
	if !ok || p.Beam > 0 || p.Method == Flat || p.Range || p.NoWiden {
		return nil
	}
	beam := p.curve.beam(x, p.recall)
	beam.K, beam.Filter, beam.Accept = p.K, p.Filter, p.Accept
	if err := beam.checkSetting(s.seg); err != nil { // only the setting without a beam was checked
		return fmt.Errorf("%w: %v", ErrCurve, err)
	}
	s.params, s.stats.Recall = beam, beam.expected
	return nil
}

// far reports whether the answer is farther away than those of all queries that were measured.
func (s *Searcher) far(hits []vector.Neighbor) bool {
	c := s.first.curve
	if c == nil || !(c.Reach > 0) || s.p.Range || s.p.Filter != nil || s.p.Accept != nil || c.K < 1 {
		return false
	}
	n := min(c.K, len(hits))
	return n > 0 && hits[n-1].Distance > c.Reach
}

// depth returns the number of best hits that are kept: the requested ones, and unless all rows are
// compared at once, those that a hop may start from or that show whether the answer is settled.
func (s *Searcher) depth() int {
	k := s.p.K
	if s.p.Range {
		k = 0
	}
	if !s.scanFirst() {
		if s.hops() > 0 {
			k = max(k, s.p.hopFrom())
		}
		if s.restricted() && s.beamWidth() > 0 || s.scansSketches() {
			k = max(k, settleDepth)
		}
	}
	return min(k, s.v.Rows.N)
}

func (s *Searcher) hops() int {
	if s.seg.Neighbors == nil || s.beamWidth() > 0 {
		return 0
	}
	return s.p.Hops
}

// beamWidth returns the number of rows that a beam search keeps, zero without one.
func (s *Searcher) beamWidth() int {
	if s.p.Beam == 0 || !s.p.Sketch || s.seg.Sketch == nil || s.seg.Neighbors == nil {
		return 0
	}
	return min(max(s.p.Beam, s.p.sketchKeep()), s.seg.N)
}

// run fills top or within. It stops early if it sets err.
func (s *Searcher) run(q []float32, norm float32) {
	if s.halted() {
		return
	}
	if s.scanFirst() {
		s.scanAll()
		return
	}
	s.project(q, norm)
	s.searchSegment()
	for i := range s.v.Small {
		if s.err == nil {
			s.searchSmall(&s.v.Small[i])
		}
	}
	if s.err != nil {
		return
	}
	s.enterFresh()
	if s.halted() || s.complete() {
		return
	}
	s.stats.Widened++
	s.top.Reset(s.depth())
	s.scanAll()
}

// searchSmall searches a segment behind the large one, by its own setting for the recall. Without one, it
// scans the segment. The expected recall of all is the least one of a segment.
func (s *Searcher) searchSmall(g *Segment) {
	way, width, recall := s.stats.Way, s.stats.Width, s.stats.Recall
	s.seg, s.params = g, s.first
	if g.Forest == nil {
		s.possibleRows(func(ids []uint32) { s.enter(ids, fromScan) })
		return
	}
	s.stats.Recall = s.p.expected
	if s.first.curve != nil {
		p, ok := g.Curve.Setting(s.first.recall, s.p.K)
		if !ok {
			p = Params{Method: Flat, expected: 1}
		}
		p.K, p.Filter, p.Accept, p.NoWiden = s.p.K, s.p.Filter, s.p.Accept, s.p.NoWiden
		s.params, s.stats.Recall = p, p.expected
	}
	err := s.params.checkSetting(g)
	if err == nil {
		err = s.widens()
	}
	if err != nil {
		s.err = fmt.Errorf("rows %d to %d: %w", g.First, g.end(), err)
		return
	}
	if s.p.Method == Flat && !s.scansSketches() {
		s.possibleRows(func(ids []uint32) { s.enter(ids, fromScan) })
	} else {
		s.searchSegment()
	}
	s.stats.Way, s.stats.Width, s.stats.Recall = way, width, min(recall, s.stats.Recall)
}

// searchSegment fills top or within with rows of the segment.
func (s *Searcher) searchSegment() {
	s.locate()
	s.route = s.route[:0]
	s.findRows()
	if s.watch != nil && s.err == nil {
		s.watch.searched(s)
	}
}

// findRows finds rows of the segment in the way of its setting.
func (s *Searcher) findRows() {
	keep := s.p.sketchKeep()
	var ids []uint32
	beam := s.beamWidth()
	switch {
	case s.p.Method == Flat:
		s.scanSketches()
		return
	case beam > 0 && s.restricted() && !s.p.Range && !s.trial:
		s.stats.Way = ByBeam
		var ok bool
		if ids, ok = s.restrictedBeam(); !ok {
			s.scanSketches()
			return
		}
		keep = max(keep, len(ids))
	case beam > 0:
		s.stats.Way = ByBeam
		ids = s.passing(s.follow(s.passing(s.gather(0)), beam))
		if s.stats.Width > beam {
			keep *= unlikeWidth
		}
		ids = ids[:min(len(ids), keep)]
	default:
		s.stats.Way = ByLeaves
		ids = s.elected()
	}
	if s.halted() {
		return
	}
	if s.p.Sketch && s.seg.Sketch != nil {
		if ids = s.thin(ids, keep); beam == 0 && s.v.FreshN > 0 {
			s.measureErrors(ids)
		}
	}
	if beam > 0 {
		s.enterBeam(ids)
		return
	}
	if s.hops() > 0 {
		s.nextEpoch()
		for _, id := range ids {
			s.seen[id] = s.epoch
		}
	}
	s.score(ids, fromForest)
	for range s.hops() {
		if s.halted() || !s.hopOnce() {
			break
		}
	}
}

// elected returns the passing rows that the forest elects, of more leaves if these are few.
func (s *Searcher) elected() []uint32 {
	ids := s.passing(s.gather(0))
	for leaves := 0; s.sparse(len(ids)) && len(s.route) > leaves && !s.halted(); {
		leaves = len(s.route)
		s.stats.Widened++
		ids = s.passing(s.gather(s.stats.Widened))
	}
	return ids
}

// append appends the answer, nearest first: the nearest K rows, or the rows found within the
// radius.
func (s *Searcher) append(dst []vector.Neighbor) []vector.Neighbor {
	found, k := s.within, s.p.K
	if !s.p.Range {
		if s.top.Len() <= sortRun {
			n := len(dst)
			dst = s.top.Append(dst)
			return dst[:min(len(dst), n+k)]
		}
		s.hits = s.top.Peek(s.hits[:0])
		found = s.hits
	}
	found = s.sort(found)
	if k > 0 && len(found) > k {
		found = found[:k]
	}
	return append(dst, found...)
}

// keep adds an exactly scored row to the answer, and reports whether it is among the best so far.
func (s *Searcher) keep(row uint32, d float32) bool {
	if s.p.Range && d <= s.p.Radius {
		s.within = append(s.within, vector.Neighbor{ID: row, Distance: d})
	}
	return s.top.Push(row, d)
}

// project transforms the query into the partition space and from there into the coordinates
// that forest, sketches and 8-bit copy compare.
func (s *Searcher) project(q []float32, norm float32) {
	v := s.v
	x := q
	switch {
	case v.Lift:
		s.unit = grow(s.unit, v.Inner())
		scale := float32(1)
		if v.LiftNorm > 0 && norm > 0 {
			scale = v.LiftNorm / float32(math.Sqrt(float64(norm)))
		}
		vector.Scale(q, scale, s.unit)
		s.lifted = scale
		s.unit[v.Dim] = 0
		x = s.unit
	case v.Metric == vector.Cosine:
		s.unit = grow(s.unit, v.Dim)
		vector.Scale(q, s.exact.qInv, s.unit)
		x = s.unit
	}
	sketch := s.p.Sketch && v.Sketch != nil
	rotated := v.RotatedForest()
	s.straight = nil
	switch {
	case sketch && !v.Sketch.Signs, rotated && v.Forest.Coord != forest.CoordAxis,
		rotated && v.ByteRotation != nil && s.exact.whole: // in integers, which takes less time
		s.rotate(x)
	case rotated:
		s.straight = x
		s.rotated = grow(s.rotated, v.Rotation.R)
		for i := range s.rotated {
			s.rotated[i] = float32(math.NaN())
		}
	}
	if sketch {
		s.sketch.set(v.Sketch, x, s.rotated, v.Rotation.Mean)
		s.fromMean = vector.L2Squared(x, v.Rotation.Mean)
	}
	s.space = x
}

// locate sets the coordinates of the query that the segment's forest and its 8-bit copy compare.
func (s *Searcher) locate() {
	x, f := s.space, s.seg.Forest
	if s.quantised() {
		s.quant.reset(s.seg.Quant, x)
	}
	if s.v.rotates(s.seg) {
		if s.straight != nil && f.Coord != forest.CoordAxis {
			s.rotate(s.straight)
			s.straight = nil
		}
		x = s.rotated[:f.Dim]
	}
	z := f.Coordinates(x, s.coords)
	if f.Coord == forest.CoordProjected {
		s.coords = z
	}
	s.z = z
}

// rotate computes all rotated coordinates of the query.
func (s *Searcher) rotate(x []float32) {
	s.rotated = grow(s.rotated, s.v.Rotation.R)
	if b := s.v.ByteRotation; b != nil && s.exact.whole {
		s.sums = grow(s.sums, b.Sums())
		b.Apply(s.exact.padded, s.sums, s.rotated)
		return
	}
	s.v.Rotation.Apply(x, s.rotated)
}

// quantised reports whether the 8-bit copy ranks candidates.
func (s *Searcher) quantised() bool { return s.p.Quant && s.seg.Quant != nil }

// estimate writes the sketch estimates of rows to out, unless the search is stopped.
func (s *Searcher) estimate(sk *SketchView, ids []uint32, out []float32) {
	for len(ids) > sketchRun {
		sk.request(ids[:sketchRun])
		s.sketch.scores(sk, ids[:sketchRun], ids[:sketchRun], out)
		if ids, out = ids[sketchRun:], out[sketchRun:]; s.halted() {
			return
		}
	}
	sk.request(ids)
	s.sketch.scores(sk, ids, ids, out)
}
