package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

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

	ctx   context.Context // context of the current search
	err   error           // why the search was stopped
	every int             // rows scored between two checks of ctx, minus one: a mask
	// trial is set by the tuner: deleted rows are its queries. They are dropped from the lists,
	// since the list of a query itself would lead to its answers.
	trial bool
	watch *watch // the row that ExplainLast observes

	// The query in the forms that the stages read (sketch.go).
	scaled   []float32 // a short query, lengthened
	unscale  float64   // factor for its dot products
	unit     []float32
	lifted   float32 // the factor by which the query was scaled for inner product
	space    []float32
	rotated  []float32
	straight []float32 // space, as long as coordinates of rotated that no node has compared are NaN
	sums     []int32   // scratch of the byte rotation
	coords   []float32 // scratch of the forest's projections
	z        []float32 // coordinates that the forest compares
	sketch   sketchQuery
	fromMean float32 // squared distance to the mean, which estimates lack

	leaves []uint32
	route  []forest.TreeLeaf
	multi  forest.MultiScratch
	e      electorate

	beam   beam
	merger merger
	stop   gap // of the current beam
	// nearest is the squared distance by which Curve.Observe judges.
	nearest float32
	// spilled are rows that the beam had no room for. They are kept if spills is set.
	spilled []spot
	spills  bool
	scores  []float32
	hop     []uint32
	// seen[row] is epoch for a row that was estimated; smaller numbers are of older searches.
	seen  []uint16
	epoch uint16

	widths widthSchedule // of a restricted search
	pool   pool
	pick   selector
	judgements
	rows     roaring.ManyIntIterator // of the filter
	batch    []uint32                // rows of a scan
	counting []uint32                // 0, 1, 2...

	exact  scorer
	errors residuals // of the estimates of rows that were compared exactly
	top    vector.TopK
	within []vector.Neighbor // range search
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
// follow their neighbor lists by sketch, score the best exactly, and scan the rows newer than the index.
// Filters and deleted rows widen the search as far as they require; a filter of few rows is answered by
// scanning them instead.
//
// The answer holds min(K, live rows that pass the filters) rows unless NoWiden is set. In a
// range search it holds all rows found within Radius, at most K when K is positive.
//
// Cost: O(trees·depth + labels + R·Dim), independent of N where no widening is needed.
// Params.Accept is called at most once per row. Errors: ErrParams, ErrDimension, ErrNotFinite,
// ErrNorm, ErrMethod, ErrCurve, and the context's, which is checked between stages, before every call of
// Params.Accept, and within a stage after 64 exact distances or 16,384 coordinates, whichever
// comes first, but not while the answer is sorted. In case of an error dst is returned unchanged.
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
	s.widths.n = 0
	if c := s.p.curve; c != nil && s.restricted() && !s.fewPass() {
		s.widths = c.widthSchedule(s.p.recall)
		return s.beamForLeaves()
	}
	return nil
}

// beamForLeaves replaces a setting without a beam, which may be the cheapest for a low recall, by one with
// a beam, which a restricted search can widen.
func (s *Searcher) beamForLeaves() error {
	p := s.p
	x, ok := s.widths.at(float64(p.K))
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
// compared at once, those that show whether the answer is settled.
func (s *Searcher) depth() int {
	k := s.p.K
	if s.p.Range {
		k = 0
	}
	if !s.scanFirst() {
		if s.restricted() && s.beamWidth() > 0 || s.scansSketches() {
			k = max(k, stopRows)
		}
	}
	return min(k, s.v.Rows.N)
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
		s.possibleRows(func(ids []uint32) { s.enter(ids, "scan") })
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
		s.possibleRows(func(ids []uint32) { s.enter(ids, "scan") })
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
	s.enter(s.numbered(ids), "forest")
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
	n, k := len(dst), s.p.K
	if s.p.Range {
		slices.SortFunc(s.within, nearer)
		dst = append(dst, s.within...)
	} else {
		dst = s.top.Append(dst)
	}
	if k > 0 {
		dst = dst[:min(len(dst), n+k)]
	}
	return dst
}

// nearer orders hits, ties by row.
func nearer(a, b vector.Neighbor) int {
	return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
}

// keep adds an exactly scored row to the answer, and reports whether it is among the best so far.
func (s *Searcher) keep(row uint32, d float32) bool {
	if s.p.Range && d <= s.p.Radius {
		s.within = append(s.within, vector.Neighbor{ID: row, Distance: d})
	}
	return s.top.Push(row, d)
}

// Amounts of work between two checks of the context: some microseconds, compared with which a
// check costs nothing, and which a deadline can tolerate even if every row is read from disk.
const (
	mostRows        = 64      // exact distances, or steps of a beam search
	mostCoordinates = 1 << 14 // coordinates of exact distances
	sketchRun       = 1 << 10 // sketches
)

// begin prepares a search's checks of its context.
func (s *Searcher) begin(ctx context.Context) {
	s.ctx, s.err = ctx, nil
	rows := min(mostRows, mostCoordinates/max(1, s.v.Dim))
	s.every = 1<<max(0, bits.Len(uint(rows))-1) - 1
}

// halted reports whether the search must stop because its context has ended. It then sets err,
// and an interrupted loop may leave any intermediate result.
func (s *Searcher) halted() bool {
	if s.err == nil && s.ctx != nil {
		s.err = stopped(s.ctx)
	}
	return s.err != nil
}

// stopped returns the error of a context that has ended.
func stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}
