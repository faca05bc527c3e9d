package postings

import (
	"context"
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// weighted is the scratch memory of searches in a Weighted.
type weighted struct {
	cells   []uint16 // estimates of all rows
	bounded []uint16 // estimates of a block, with bounds
	lists   []listTerm
	columns []columnTerm // by falling weight in the query
	offsets []int        // byte offsets of the columns
	weights []uint16
	levels  [levelCount + 1]level
	hits16  []uint16
	done    []uint64 // rows that were scored, one bit each
	// guess is a running mean of the score of the k-th best row divided by the length of the
	// query, on the index guessFor. It affects only the choice of units.
	guess    float64
	guessFor *Index
}

// listTerm is a list to scatter; weight is in 2⁻¹⁶ units per step.
type listTerm struct {
	span
	weight uint16
}

// columnTerm is a column to add or to omit.
type columnTerm struct {
	column int
	value  float32 // value in the query
	weight uint16
}

// levelCount is the number of parts into which the columns of a query are divided.
const levelCount = 4

// startLevel returns the level of the first pass: with many rows, columns cost more than a less
// precise guess of the best rows.
func startLevel(rows int) int {
	if rows < 24*scanRows {
		return levelCount
	}
	return 1
}

// level is a choice of the columns to add: the first ones. The others are bounded, band by
// band, by the length of their part of the query times the length of the row's part. So a level
// has up to 1 + bandCount columns of bounds, including that of rounding errors.
type level struct {
	kept    int
	fits    bool // the bounds fit into a weight
	offsets []int
	weights []uint16
	room    [1 + bandCount]int
	room16  [1 + bandCount]uint16
}

// aim is the estimate that the k-th best row should get: high enough to make the rounding of
// products negligible, low enough that few rows overflow.
const aim = 20000

// unitsFor returns the number of units per point of score. Without a guess of the score of the
// k-th best row it is the highest number with which no row can overflow. Two more limits are
// the 16 bits of a list's weight and of the errors' weight.
func (s *Searcher) unitsFor(ix *Index, length float64) float64 {
	w := ix.Weighted
	var most float64
	for _, t := range s.terms {
		most = max(most, float64(t.weight)*w.step(t.feature))
	}
	scale := (maxEstimate - 8) / (length * (ix.Norm + 2*w.Residual))
	if s.guessFor == ix && s.guess > 0 {
		scale = max(scale, aim/(s.guess*length))
	}
	return min(scale, maxEstimate/(65536*most), (maxEstimate-1)*(255*255)/(65536*up(length*w.Residual)))
}

// searchWeighted estimates scores in 16-bit units and scores the best rows exactly, in two
// passes. The first pass adds lists and the columns of highest weight, and scores the k rows of
// highest estimate, which gives a first θ. The second pass processes the rows in blocks. It
// adds columns until few enough rows of the block can still reach θ, and scores these.
//
// With S units per point of score and the weights rounded up, the products of a row's lists are
// rounded up and those of n columns down. Their sum A satisfies
//
//	S·ŝ < A + n,   s <= ŝ + ‖q‖·r
//
// where ŝ is the product of the query and the coded row, and r is the length of the vector of
// the codes' errors (Cauchy-Schwarz). For the same reason omitted columns add at most the
// product of the lengths of their parts of query and row, band by band. All these bounds are
// columns themselves, rounded down, so each may lose one more unit. A cell that overflows keeps
// the highest value, so such a row passes every threshold.
func (s *Searcher) searchWeighted(ctx context.Context, ix *Index) error {
	w := ix.Weighted
	n := ix.Len()
	length := up(queryNorm(s.terms))
	scale := down(s.unitsFor(ix, length))
	if !(scale > 0) || math.IsInf(scale, 0) {
		return s.searchUnion(ctx, ix, allLists)
	}
	s.weigh(w, scale)
	over := len(s.columns) + 4 + bandCount
	s.setLevels(w, scale, length)
	if cap(s.cells) < w.Stride {
		s.cells = make([]uint16, w.Stride)
	}
	if s.hits16 == nil {
		s.hits16, s.bounded = make([]uint16, scanRows+foundRoom), make([]uint16, scanRows)
	}
	cells := s.cells[:w.Stride]
	firstLevel := startLevel(n)
	for first := 0; first < n; first += windowRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		window := cells[first:min(first+windowRows, len(cells))]
		s.scatterLists(w, window, first/windowRows, n > windowRows)
		for from := 0; from < len(window); from += scanRows {
			s.addColumns(w, window[from:min(from+scanRows, len(window))], first+from, 0,
				s.levels[firstLevel].kept)
		}
		if first == 0 {
			floor := 0
			if s.params.Deleted == nil && s.params.Accept == nil {
				floor = lowest(window, s.top.k, s.top.k/8, s.expected(ix, length)*scale)
			}
			if floor > 0 && len(cells) <= sampleRows {
				// All rows have been counted: at most slightly more than k reach the floor.
				s.pickFloor(cells, n, uint16(floor))
				break
			}
			s.picker.reset(s.top.k, 0, floor)
		}
		for from := 0; from < len(window); from += scanRows {
			s.pick(window[from:min(from+scanRows, len(window))], first+from, n)
		}
	}
	words := (n + 63) / 64
	if cap(s.done) < words {
		s.done = make([]uint64, words)
	}
	s.done = s.done[:words]
	clear(s.done)
	s.scorePicked()
	if s.threshold(scale, over) < 1 {
		return s.searchUnion(ctx, ix, allLists, s.done...)
	}
	if err := s.refine(ctx, ix, cells, scale, over); err != nil {
		return err
	}
	s.stats.Candidates = s.stats.Scored
	s.learn(ix, length)
	return nil
}

// threshold returns the estimate with bounds below which a row cannot be among the k best.
func (s *Searcher) threshold(scale float64, over int) int {
	return int(min(down(s.top.theta()*scale), 2*maxEstimate)) - over
}

// pickFloor records all rows whose estimates without bounds reach a floor.
func (s *Searcher) pickFloor(cells []uint16, rows int, floor uint16) {
	p := &s.picker
	p.found, p.least = p.found[:0], int(floor)
	for from := 0; from < len(cells); from += scanRows {
		block := cells[from:min(from+scanRows, len(cells))]
		for _, i := range s.hits16[:atLeast16(block, floor, s.hits16)] {
			if at := from + int(i); at < rows {
				p.found = append(p.found, candidate{at: uint32(at), sure: floor})
			}
		}
	}
}

// pick offers the rows of a block to the picker by their estimates without bounds.
func (s *Searcher) pick(block []uint16, first, rows int) {
	for _, i := range s.hits16[:atLeast16(block, s.picker.threshold(), s.hits16)] {
		estimate, row := int(block[i]), first+int(i)
		if row < rows && estimate >= s.picker.least && s.accepted(uint32(row)) {
			s.picker.add(candidate{at: uint32(row)}, estimate, estimate)
		}
	}
}

// ahead is the number of rows by which prefetching runs ahead.
const ahead = 6

// scorePicked scores the rows that remain in the picker.
func (s *Searcher) scorePicked() {
	p := &s.picker
	kept := p.found[:0]
	for _, c := range p.found {
		if int(c.sure) >= p.least {
			kept = append(kept, c)
		}
	}
	for i, c := range kept {
		if i+ahead < len(kept) {
			s.scorer.prefetch(kept[i+ahead].at)
		}
		s.done[c.at/64] |= 1 << (c.at % 64)
		s.offer(c.at)
	}
}

// Measured costs, in nanoseconds, that decide between adding columns and scoring rows.
const (
	cellCost  = 0.05 // to add a cell of a column
	scoreCost = 300  // to score a row, and
	entryCost = 1    // for each of its entries
)

// refine is the second pass.
func (s *Searcher) refine(ctx context.Context, ix *Index, cells []uint16, scale float64,
	over int) error {
	w, n := ix.Weighted, ix.Len()
	perRow := scoreCost + entryCost*float64(ix.entries())/float64(n)
	firstLevel := startLevel(n)
	number := firstLevel
	for from := 0; from < len(cells); from += scanRows {
		if from%windowRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		block := cells[from:min(from+scanRows, len(cells))]
		bounded := block
		// A block starts with the level of the last one; every fourth block tries a lower one.
		if from/scanRows%4 == 3 {
			number = max(number-1, firstLevel)
		}
		done := s.levels[firstLevel].kept
		var hits []uint16
		for ; ; number++ {
			l := &s.levels[number]
			if !l.fits {
				continue
			}
			s.addColumns(w, block, from, done, l.kept)
			done = l.kept
			bounded = s.bound(w, block, from, l)
			least := min(max(s.threshold(scale, over), 1), maxEstimate)
			hits = s.hits16[:atLeast16(bounded, uint16(least), s.hits16)]
			if number == levelCount ||
				float64(len(hits))*perRow <= float64((s.levels[number+1].kept-l.kept)*len(block))*cellCost {
				break
			}
		}
		for i, hit := range hits {
			if i+ahead < len(hits) {
				if next := from + int(hits[i+ahead]); next < n {
					s.scorer.prefetch(uint32(next))
				}
			}
			row := from + int(hit)
			if row >= n || s.done[row/64]>>(row%64)&1 != 0 || !s.accepted(uint32(row)) {
				continue
			}
			if most := bounded[hit]; most == maxEstimate || int(most) >= s.threshold(scale, over) {
				s.offer(uint32(row))
			}
		}
	}
	return nil
}

// bound returns a block of estimates with the bounds of a level added.
func (s *Searcher) bound(w *Weighted, block []uint16, from int, l *level) []uint16 {
	if len(l.offsets) == 0 {
		return block
	}
	bounded := s.bounded[:len(block)]
	copy(bounded, block)
	addColumns(bounded, w.Cells[from:], l.offsets, l.weights)
	s.mark(len(l.offsets)*len(block), len(l.offsets)*len(block))
	return bounded
}

// weigh divides the terms of the query into lists and columns.
func (s *Searcher) weigh(w *Weighted, scale float64) {
	s.lists, s.columns = s.lists[:0], s.columns[:0]
	for _, t := range s.terms {
		whole := math.Ceil(float64(t.weight) * w.step(t.feature) * scale * (1 << 16))
		if column, ok := w.find(t.feature); ok {
			s.columns = append(s.columns, columnTerm{column, t.weight, uint16(whole)})
		} else if sp := w.span(t.feature); sp.lo < sp.hi {
			s.lists = append(s.lists, listTerm{sp, uint16(whole)})
		}
	}
	slices.SortFunc(s.columns, func(a, b columnTerm) int {
		switch {
		case a.value > b.value:
			return -1
		case a.value < b.value:
			return 1
		}
		return a.column - b.column
	})
	s.offsets, s.weights = s.offsets[:0], s.weights[:0]
	for _, c := range s.columns {
		s.offsets = append(s.offsets, c.column*w.Stride)
		s.weights = append(s.weights, c.weight)
	}
}

// setLevels computes the bounds of every level.
func (s *Searcher) setLevels(w *Weighted, scale, length float64) {
	bounds := len(w.Cells) - (1+bandCount)*w.Stride
	var rest [bandCount]float64 // squared lengths of the omitted columns
	fits := true                // the omitted part grows, and so does its bound
	for i := levelCount; i >= 1; i-- {
		l := &s.levels[i]
		l.offsets, l.weights = l.room[:0], l.room16[:0]
		add := func(column int, length float64) bool {
			weight := math.Ceil(up(scale*length*(1<<16)/(255*255))) + 1
			if weight > maxEstimate {
				return false
			}
			l.offsets = append(l.offsets, bounds+column*w.Stride)
			l.weights = append(l.weights, uint16(weight))
			return true
		}
		l.kept = (len(s.columns)*i + levelCount - 1) / levelCount
		if w.Residual > 0 {
			add(0, length*w.Residual) // unitsFor ensures that this fits
		}
		if i < levelCount {
			for _, c := range s.columns[l.kept:s.levels[i+1].kept] {
				rest[w.BandOf[c.column]] += float64(c.value) * float64(c.value)
			}
		}
		for b, sum := range rest {
			if sum > 0 {
				fits = fits && add(1+b, up(math.Sqrt(sum))*w.Bands[b])
			}
		}
		l.fits = fits
	}
}

// scatterLists initialises the cells of a window with the lists.
func (s *Searcher) scatterLists(w *Weighted, cells []uint16, win int, wide bool) {
	clear(cells)
	for i := range s.lists {
		if !wide && i+ahead < len(s.lists) {
			at := s.lists[i+ahead].lo
			vector.Prefetch(unsafe.Pointer(&w.Low[at]), 64)
			vector.Prefetch(unsafe.Pointer(&w.Code[at]), 64)
		}
		t := &s.lists[i]
		if e := w.next(&t.span, win, wide); e.lo < e.hi {
			scatterCodes(cells, w.Low[e.lo:e.hi], w.Code[e.lo:e.hi], t.weight)
			s.mark(int(e.hi-e.lo), listBytes*int(e.hi-e.lo))
		}
	}
}

// addColumns adds columns from to to to the cells of rows starting at first.
func (s *Searcher) addColumns(w *Weighted, cells []uint16, first, from, to int) {
	if from < to {
		addColumns(cells, w.Cells[first:], s.offsets[from:to], s.weights[from:to])
		s.mark((to-from)*len(cells), (to-from)*len(cells))
	}
}

// expected returns a guess of the score of the k-th best row for a query of a given length;
// zero if there is none.
func (s *Searcher) expected(ix *Index, length float64) float64 {
	if s.guessFor != ix {
		return 0
	}
	return s.guess * length
}

// learn updates the guess after a search.
func (s *Searcher) learn(ix *Index, length float64) {
	if !s.top.full() {
		return
	}
	guess := s.top.theta() / length
	if s.guessFor == ix {
		guess = (3*s.guess + guess) / 4
	}
	s.guess, s.guessFor = guess, ix
}

// finish scores the candidates: first those that determined the threshold, then those that can
// still reach the current score of the k-th best row.
func (s *Searcher) finish(p *picker, scale float64) {
	scored := s.stats.Scored
	edge := p.reached()
	// Both kinds are merged, so that rows are prefetched in order.
	kept, sure := p.found[:0], 0
	for _, c := range p.found {
		if int(c.most) < p.least {
			continue
		}
		kept = append(kept, c)
		if int(c.sure) >= edge {
			last := len(kept) - 1
			kept[sure], kept[last] = kept[last], kept[sure]
			sure++
		}
	}
	for i, c := range kept {
		if i+ahead < len(kept) && (i+ahead < sure || s.passes(kept[i+ahead], p, scale)) {
			s.scorer.prefetch(kept[i+ahead].at)
		}
		if i < sure || s.passes(c, p, scale) {
			s.offer(c.at)
		}
	}
	s.stats.Candidates += s.stats.Scored - scored
}

// passes reports whether a candidate may still be among the k best.
func (s *Searcher) passes(c candidate, p *picker, scale float64) bool {
	return c.most == maxEstimate || float64(int(c.most)+p.over) >= down(s.top.theta()*scale)
}
