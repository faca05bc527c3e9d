package postings

import (
	"context"
	"math"

	"github.com/anndb/anndb/vector"
)

// Weighted is the compact structure for matrices in general. A value is held
// as 8 bits: Code²·step of its feature, rounded to nearest. Squares give the
// many low values of a feature more of the codes than the few high ones. Rare features have
// lists, frequent ones a column with a cell for every row, zero where the row
// lacks the feature.
type Weighted struct {
	Blocks
	Columns
	Cells  []uint8 // column c is Cells[c*Stride:(c+1)*Stride]
	Stride int     // rows, rounded up to whole strips of columnRows
	// Scale gives the step of a feature: Unit·2^(-Scale/8)/255².
	Scale []uint8
	Unit  float64
	// The length of a row's vector of rounding errors is at most the
	// square of its byte in the column behind those of the features, times
	// Residual/255².
	Residual float64
}

const (
	// columnRows is how many rows the column kernel adds at once.
	columnRows = 64
	// columnShare is the density from which adding a column is faster than
	// scattering a list.
	columnShare = 1.0 / 20
	// compactBytes is the most bytes a posting may take on average.
	compactBytes = 4.5
	// listBytes is what a posting takes in a list.
	listBytes = 3
)

func (w *Weighted) step(j uint32) float64 { return w.Unit * steps[w.Scale[j]] }

// steps[s] is the step of scale s, for a unit of one.
var steps = func() (t [256]float64) {
	for s := range t {
		t[s] = math.Exp2(-float64(s)/8) / (255 * 255)
	}
	return t
}()

func buildWeighted(ctx context.Context, rows, byFeature *vector.CSR, unit float64) (*Weighted, error) {
	n := rows.Rows()
	w := &Weighted{Stride: roundUp(n, columnRows), Scale: make([]uint8, rows.Cols), Unit: unit}
	length := lengths(byFeature)
	atLeast := columnThreshold(length, n, w.Stride, columnShare, listBytes, compactBytes)
	columns := 0
	w.Columns, columns = makeColumns(rows.Cols, func(j int) bool { return length[j] >= atLeast })
	w.Cells = make([]uint8, (columns+1)*w.Stride)
	residual := make([]float64, n) // squared
	wide := n > windowRows
	var list []Posting
	for j := range rows.Cols {
		if j%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		list = appendColumn(list[:0], byFeature, j)
		var most float64
		for _, e := range list {
			most = max(most, float64(e.Value))
		}
		w.Scale[j] = scaleOf(most, w.Unit)
		step := w.step(uint32(j))
		w.begin(wide)
		column, dense := w.find(uint32(j))
		for _, e := range list {
			code := codeOf(float64(e.Value) / step)
			off := float64(e.Value) - code*code*step
			residual[e.Row] += off * off
			if dense {
				w.Cells[column*w.Stride+int(e.Row)] = uint8(code)
				continue
			}
			w.add(e.Row, wide)
			w.Code = append(w.Code, uint8(code))
		}
	}
	w.end(wide)
	for _, r := range residual {
		w.Residual = max(w.Residual, up(math.Sqrt(r)))
	}
	if w.Residual > 0 {
		for i, r := range residual {
			w.Cells[columns*w.Stride+i] = uint8(min(255, math.Ceil(255*math.Sqrt(up(math.Sqrt(r))/w.Residual))))
		}
	}
	return w, nil
}

// codeOf is the code whose square is nearest to x.
func codeOf(x float64) float64 {
	c := min(math.Floor(math.Sqrt(x)), 255)
	if c < 255 && (c+1)*(c+1)-x < x-c*c {
		c++
	}
	return c
}

// scaleOf is the largest scale whose range, a part of unit, still covers most,
// the highest value of a feature.
func scaleOf(most, unit float64) uint8 {
	if most == 0 {
		return 0
	}
	// The margin keeps rounding in Log2 and Exp2 from putting the value
	// above the range.
	return uint8(min(max(math.Floor(-8*math.Log2(most/unit)-1e-9), 0), 255))
}

// mark sets the bits of the rows that have a feature; of all rows if it has a
// column, where values may have been rounded to zero.
func (w *Weighted) mark(j uint32, union []uint64) (postings, bytes int) {
	if _, ok := w.find(j); ok {
		for i := range union {
			union[i] = ^uint64(0)
		}
		return 0, 0
	}
	n := w.rows(j, w.Stride > windowRows, func(row uint32) { union[row/64] |= 1 << (row % 64) })
	return n, 2 * n
}

// weighted is the scratch of searches in a Weighted.
type weighted struct {
	cells   []uint16 // estimates of a window
	lists   []listTerm
	offsets []int    // of columns to add, in bytes
	weights []uint16 // of the same
	hits16  []uint16
	// guess is the score of the k-th best rows of late, over the length of the
	// query, on the index guessFor. It only chooses units.
	guess    float64
	guessFor *Index
}

// listTerm is a list to scatter; weight is in 2⁻¹⁶ units a step.
type listTerm struct {
	span
	weight uint16
}

// aim is the estimate that the k-th best row should get: high enough for the
// rounding of products not to matter, low enough for few rows to overflow.
const aim = 12000

// unitsFor is how many units a point of score gets. Without a guess of the
// score of the k-th best row it is as many as no row can overflow with. Two
// more limits are the 16 bits of a list's weight and of the errors' weight.
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

// searchWeighted estimates all scores in 16-bit units, window by window, and
// scores the rows near the top exactly.
//
// With S units a point of score, ŝ the product of the query and the rounded
// row, and the weights rounded down, the sum A of n products satisfies
//
//	A <= S·ŝ < A + g,   g = n + Σ frac(weight)
//
// since each product is rounded down too; and |s - ŝ| <= ‖q‖·r with r the
// length of the row's rounding errors, by Cauchy-Schwarz. The cells hold the
// upper estimate A + E, E the units of ‖q‖·r, so that the score lies between
// A - E - 1 and A + E + g + 1. A cell that overflows stays at the highest
// value, which then is a lower bound of A + E.
func (s *Searcher) searchWeighted(ctx context.Context, ix *Index) error {
	w := ix.Weighted
	n := ix.Rows.Rows()
	length := up(queryNorm(s.terms))
	scale := down(s.unitsFor(ix, length))
	if !(scale > 0) || math.IsInf(scale, 0) {
		return s.searchUnion(ctx, ix, compactLists)
	}
	s.lists, s.offsets, s.weights = s.lists[:0], s.offsets[:0], s.weights[:0]
	lost := float64(len(s.terms))
	for _, t := range s.terms {
		exact := float64(t.weight) * w.step(t.feature) * scale * 65536
		whole := math.Floor(exact)
		lost += exact - whole
		if column, ok := w.find(t.feature); ok {
			s.offsets = append(s.offsets, column*w.Stride)
			s.weights = append(s.weights, uint16(whole))
		} else if sp := w.span(t.feature); sp.lo < sp.hi {
			s.lists = append(s.lists, listTerm{sp, uint16(whole)})
		}
	}
	errors := w.Cells[len(w.Cells)-w.Stride:]
	rough := uint32(math.Ceil(up(scale*length*w.Residual*65536/(255*255)))) + 1
	s.offsets = append(s.offsets, len(w.Cells)-w.Stride)
	s.weights = append(s.weights, uint16(rough))
	s.picker.reset(s.top.k, int(math.Ceil(lost))+2, int(min(down(s.top.theta()*scale), maxEstimate)))
	wide := n > windowRows
	if cap(s.cells) < min(w.Stride, windowRows) {
		s.cells = make([]uint16, min(w.Stride, windowRows))
	}
	if s.hits16 == nil {
		s.hits16 = make([]uint16, scanRows)
	}
	for win := 0; win*windowRows < n; win++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := win * windowRows
		cells := s.cells[:min(w.Stride-first, windowRows)]
		clear(cells)
		for i := range s.lists {
			t := &s.lists[i]
			if e := w.next(&t.span, win, wide); e.lo < e.hi {
				scatterCodes(cells, w.Low[e.lo:e.hi], w.Code[e.lo:e.hi], t.weight)
				s.mark(int(e.hi-e.lo), listBytes*int(e.hi-e.lo))
			}
		}
		for from := 0; from < len(cells); from += scanRows {
			block := cells[from:min(from+scanRows, len(cells))]
			addColumns(block, w.Cells[first+from:], s.offsets, s.weights)
			hits := s.hits16[:atLeast16(block, s.picker.threshold(), s.hits16)]
			for _, i := range hits {
				most, row := int(block[i]), first+from+int(i)
				if row < n && most >= s.picker.least && s.accepted(uint32(row)) {
					s.picker.add(candidate{at: uint32(row)}, most-2*int(uint32(errors[row])*uint32(errors[row])*rough>>16)-2, most)
				}
			}
		}
		s.mark(len(s.offsets)*len(cells), len(s.offsets)*len(cells))
	}
	if s.picker.least < 1 {
		// Too few rows have an estimate that surely beats one of zero.
		return s.searchUnion(ctx, ix, compactLists)
	}
	s.finish(&s.picker, scale)
	s.learn(ix, length)
	return nil
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

// finish scores the candidates: first those that made the threshold, then
// those that can still pass the score it has become.
func (s *Searcher) finish(p *picker, scale float64) {
	scored := s.stats.Scored
	edge := p.edge << bucketBits
	rest := p.found[:0]
	for i, c := range p.found {
		if int(c.most) < p.least {
			continue
		}
		if int(c.sure) < edge {
			rest = append(rest, c)
			continue
		}
		if ahead := i + 4; ahead < len(p.found) && int(p.found[ahead].sure) >= edge {
			s.scorer.prefetch(p.found[ahead].at)
		}
		s.offer(c.at)
	}
	for _, c := range rest {
		if c.most == maxEstimate || float64(int(c.most)+p.over) >= down(s.top.theta()*scale) {
			s.offer(c.at)
		}
	}
	s.stats.Candidates += s.stats.Scored - scored
}
