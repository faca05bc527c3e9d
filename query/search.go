package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Searcher is the memory of one query at a time. Reused, it allocates nothing
// in steady state; it is not safe for concurrent use.
type Searcher struct {
	v      *View
	p      *Params
	params Params // what p points to: K is at most the number of rows
	stats  Stats

	e      electorate
	exact  scorer
	quant  quantScorer
	multi  forest.MultiScratch
	leaves []uint32
	route  []forest.TreeLeaf

	unit    []float32 // the query in the partition space
	rotated []float32
	coords  []float32 // memory of the forest's projections
	z       []float32 // what the forest compares
	sums    []int32   // memory of the rotation of bytes
	// The query as the sketches' kernels read it: q16 and scale, or packed.
	q16      []int16
	scale    float32
	weighted []float32
	packed   vector.PackedQuery
	scores   []float32
	pick     selector

	top    vector.TopK
	rerank vector.TopK
	within []vector.Neighbor // range search
	hits   []vector.Neighbor
	hop    []uint32
	beam   []spot
	come   []spot   // rows on their way onto the beam
	fresh  []uint32 // rows newer than the index that are to be scored
	merged []uint32
	// counting is 0, 1, 2...
	counting []uint32
	// seen[row] is epoch for a row that was scored and epoch+1 for one whose
	// list was followed; smaller numbers are of older searches.
	seen  []uint16
	epoch uint16

	watch *watch // what Explain wants to know
}

// NewSearcher is an empty Searcher; it grows to what its queries need.
func NewSearcher() *Searcher { return new(Searcher) }

// Search appends the nearest rows of the view to dst, nearest first, ties by
// row, with internal distances: squared for L2, 1 - cosine, negated dot
// product. q has View.Dim finite coordinates.
//
// The pipeline is DESIGN section 5: route the query down the trees, add up the
// leaves' label proportions (equation 5), elect the labels that exceed τ
// (equation 8), thin them by sketch and 8-bit copy, score the rest exactly,
// follow their own labels for a few hops, and scan the rows newer than the
// index. A filter of few rows is answered by scanning them instead.
//
// The answer holds min(K, live rows that pass the filters) rows unless
// NoWiden is set; in a range search, all rows found within Radius, at most K
// when K is positive.
//
// Cost: O(trees·depth + labels + R·Dim), independent of N where nothing needs
// widening. Errors: ErrParams, ErrDimension, ErrNotFinite, ErrMethod, and the
// context's, which is looked at between stages; dst is then returned as it was.
func (s *Searcher) Search(ctx context.Context, v *View, q []float32, p *Params, dst []vector.Neighbor) ([]vector.Neighbor, Stats, error) {
	s.stats = Stats{}
	if err := p.check(v, q); err != nil {
		return dst, s.stats, err
	}
	norm := vector.Dot(q, q)
	if !(norm <= math.MaxFloat32) {
		return dst, s.stats, fmt.Errorf("%w: squared length is %v", ErrNotFinite, norm)
	}
	s.v, s.params = v, *p
	s.p = &s.params
	s.params.K = min(p.K, v.Rows.N)
	s.exact.reset(v, q)
	s.top.Reset(s.depth())
	s.within = s.within[:0]
	if err := s.run(ctx, q, norm); err != nil {
		return dst, s.stats, err
	}
	if p.Range {
		return s.appendWithin(dst), s.stats, nil
	}
	n := len(dst)
	dst = s.top.Append(dst)
	return dst[:min(len(dst), n+s.p.K)], s.stats, nil
}

// depth is how many of the best hits are kept: those asked for, and those that
// a hop may start from.
func (s *Searcher) depth() int {
	k := s.p.K
	if s.p.Range {
		k = 0
	}
	if s.hops() > 0 {
		k = max(k, s.p.hopFrom())
	}
	return min(k, s.v.Rows.N)
}

func (s *Searcher) hops() int {
	if s.v.Neighbors == nil || s.beamWidth() > 0 {
		return 0
	}
	return s.p.Hops
}

// beamWidth is how many rows a beam search keeps, zero without one.
func (s *Searcher) beamWidth() int {
	if s.p.Beam == 0 || !s.p.Sketch || s.v.Sketch == nil || s.v.Neighbors == nil {
		return 0
	}
	return min(max(s.p.Beam, s.p.sketchKeep()), s.v.N)
}

// run fills top or within.
func (s *Searcher) run(ctx context.Context, q []float32, norm float32) error {
	if err := stopped(ctx); err != nil {
		return err
	}
	if s.scanFirst() {
		return s.scanAll(ctx)
	}
	s.project(q, norm)
	ids := s.passing(s.gather(0))
	for leaves := 0; s.sparse(len(ids)) && len(s.route) > leaves; {
		leaves = len(s.route)
		s.stats.Widened++
		ids = s.passing(s.gather(s.stats.Widened))
	}
	if err := stopped(ctx); err != nil {
		return err
	}
	sketched, beam := s.freshSketched(), s.beamWidth()
	s.fresh = s.fresh[:0]
	if beam > 0 {
		ids = s.follow(ids, beam)
	}
	switch {
	case sketched > 0:
		ids = s.thinFresh(ids, s.p.sketchKeep())
	case beam > 0:
		ids = ids[:min(len(ids), s.p.sketchKeep())]
	case s.p.Sketch && s.v.Sketch != nil:
		ids = s.thin(ids, s.p.sketchKeep())
	}
	if s.hops() > 0 {
		s.nextEpoch()
		for _, id := range ids {
			s.seen[id] = s.epoch
		}
	}
	s.score(ids, fromForest)
	for range s.hops() {
		if !s.hopOnce() {
			break
		}
		if err := stopped(ctx); err != nil {
			return err
		}
	}
	s.stats.Fresh = s.v.Rows.N - s.v.N
	s.scoreFresh()
	if err := s.scan(ctx, s.v.N+sketched, s.v.Rows.N, fromFresh); err != nil {
		return err
	}
	if s.complete() {
		return nil
	}
	s.stats.Widened++
	s.top.Reset(s.depth())
	return s.scanAll(ctx)
}

func stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// appendWithin appends the rows found within the radius, nearest first.
func (s *Searcher) appendWithin(dst []vector.Neighbor) []vector.Neighbor {
	slices.SortFunc(s.within, compare)
	found := s.within
	if s.p.K > 0 && len(found) > s.p.K {
		found = found[:s.p.K]
	}
	return append(dst, found...)
}

func compare(a, b vector.Neighbor) int {
	if c := cmp.Compare(a.Distance, b.Distance); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

// keep takes an exactly scored row into the answer.
func (s *Searcher) keep(row uint32, d float32) {
	if s.p.Range && d <= s.p.Radius {
		s.within = append(s.within, vector.Neighbor{ID: row, Distance: d})
	}
	s.top.Push(row, d)
}

// project brings the query into the partition space and from there to the
// coordinates that forest, sketches and 8-bit copy compare.
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
		for i, y := range q {
			s.unit[i] = y * scale
		}
		s.unit[v.Dim] = 0
		x = s.unit
	case v.Metric == vector.Cosine:
		s.unit = grow(s.unit, v.Dim)
		for i, y := range q {
			s.unit[i] = y * s.exact.qInv
		}
		x = s.unit
	}
	sketch := s.p.Sketch && v.Sketch != nil
	rotated := v.RotatedForest()
	if rotated || sketch {
		s.rotated = grow(s.rotated, v.Rotation.R)
		if b := v.ByteRotation; b != nil && s.exact.wholeQuery() {
			s.sums = grow(s.sums, b.Sums())
			b.Apply(s.exact.padded, s.sums, s.rotated)
		} else {
			v.Rotation.Apply(x, s.rotated)
		}
	}
	if sketch {
		s.quantiseQuery()
	}
	if s.quantised() {
		s.quant.reset(v.Quant, x)
	}
	if rotated {
		x = s.rotated[:v.Forest.Dim]
	}
	z := v.Forest.Coordinates(x, s.coords)
	if v.Forest.Coord == forest.CoordProjected {
		s.coords = z
	}
	s.z = z
}

// quantised says whether the 8-bit copy ranks candidates. It need not where
// its distances are final anyway.
func (s *Searcher) quantised() bool {
	return s.p.Quant && s.v.Quant != nil && s.exact.lossless == nil
}

// quantiseQuery turns the principal coordinates into the integers that the
// kernels of sketches multiply, and sets the scale of the estimate
// ‖c‖² − 2⟨q, c⟩.
func (s *Searcher) quantiseQuery() {
	sk := s.v.Sketch
	if sk.Steps != nil {
		s.weighted = grow(s.weighted, len(sk.Steps))
		for i, step := range sk.Steps {
			s.weighted[i] = s.rotated[i] * step
		}
		s.packed.SetPacked(s.weighted)
		return
	}
	s.q16 = grow(s.q16, sk.Width)
	x := s.rotated[:min(sk.Width-4, len(s.rotated))]
	var peak float32
	for _, y := range x {
		peak = max(peak, y, -y)
	}
	// 124 · 128 · 16,000 < 2³¹.
	const top = 16000
	s.scale = 0
	clear(s.q16)
	step := peak / top
	if !(step > 0) || math.IsInf(float64(step), 1) {
		return
	}
	inv := 1 / step
	for i, y := range x {
		s.q16[i] = int16(y*inv + float32(math.Copysign(0.5, float64(y))))
	}
	s.scale = 2 * step * sk.Scale
}

// estimate writes the sketches' estimates of rows to out.
func (s *Searcher) estimate(sk *SketchView, ids []uint32, out []float32) {
	if sk.Steps != nil {
		vector.PackedScores(&s.packed, sk.Chunks, sk.Shift, ids, out)
		return
	}
	vector.SketchScores(s.q16, s.scale, sk.Chunks, sk.Shift, sk.Width, ids, out)
}
