package budget

import (
	"math"

	"github.com/anndb/anndb/vector"
)

// Two pseudo-rows stand for the rows of each class that have no active
// feature: all of them have the margin b, so that a step of the solver costs
// the rows that the active features touch, not all. A label of few rows among
// very many is learned at the price of the few.
const (
	restNegative = iota
	restPositive
	restRows
)

// problem is one binary problem as the cutting-plane algorithm sees it: the
// rows of a node and the columns of the features chosen so far. Folds share
// it: they differ in the costs of the rows alone.
type problem struct {
	x    *vector.CSR
	rows []int32 // the rows of x, n of them
	y    []int8  // n, ±1

	compact []int32   // of each row its compact number, -1 without active feature
	sign    []float64 // of each compact row ±1
	origin  []int32   // of each compact row the row; -1 for the pseudo-rows

	features []uint32 // active, in order of their choice
	colPtr   []int    // column of each active feature
	colRow   []int32  // compact rows
	colVal   []float32
	slot     []int32 // the active features of all sets, one after the other
	setPtr   []int
	order    []int // the active features by number, once they are final

	// What makes nodes with many rows but short columns cheap: the matrix by
	// columns, and the sums of all columns over each class. Both may be
	// missing.
	columns *vector.CSR
	sums    *classSums

	scratch *scratch
}

// classSums are the sums of the columns over the rows of each class.
type classSums struct {
	features []uint32
	sum      [restRows][]float64 // of each of the features
}

// scratch is memory of the size of the feature space, which a worker keeps
// from node to node. Between uses local is -1 and sum zero everywhere.
type scratch struct {
	local   []int32 // feature to place in the list at hand
	sum     []float64
	total   []float64
	touched []uint32
	place   []int32 // matrix row to row of the problem at hand, -1; made when needed
}

func newScratch(cols int) *scratch {
	s := &scratch{local: make([]int32, cols), sum: make([]float64, cols), total: make([]float64, cols)}
	for i := range s.local {
		s.local[i] = -1
	}
	return s
}

// widen makes room for n sums a feature.
func (s *scratch) widen(n int) {
	if need := n * len(s.local); len(s.sum) < need {
		s.sum = make([]float64, need)
	}
}

func newProblem(x *vector.CSR, rows []int32, y []int8, s *scratch) *problem {
	p := &problem{
		x: x, rows: rows, y: y, scratch: s,
		compact: make([]int32, len(rows)),
		sign:    []float64{restNegative: -1, restPositive: 1},
		origin:  []int32{-1, -1},
		colPtr:  []int{0}, setPtr: []int{0},
	}
	for i := range p.compact {
		p.compact[i] = -1
	}
	return p
}

// addSet makes the features, ascending, the next set, and gathers the columns
// of those that are new in one pass over the rows. O(entries of the rows).
func (p *problem) addSet(features []uint32) {
	// The scratch map holds the place among the active features; those of
	// earlier sets are entered too, since sets may overlap.
	local := p.scratch.local
	for i, f := range p.features {
		local[f] = int32(i)
	}
	first := len(p.features)
	for _, f := range features {
		if local[f] < 0 {
			local[f] = int32(len(p.features))
			p.features = append(p.features, f)
		}
		p.slot = append(p.slot, local[f])
	}
	p.setPtr = append(p.setPtr, len(p.slot))
	p.gather(first)
	for _, f := range p.features {
		local[f] = -1
	}
}

// gather appends the columns of the active features from first on: by a pass
// over the rows, or column by column where that reads fewer entries.
func (p *problem) gather(first int) {
	if p.columns != nil {
		short, long := 0, 0
		for _, f := range p.features[first:] {
			short += int(p.columns.Ptr[f+1] - p.columns.Ptr[f])
		}
		for _, r := range p.rows {
			long += int(p.x.Ptr[r+1] - p.x.Ptr[r])
		}
		if short+len(p.rows) < long {
			p.gatherColumns(first)
			return
		}
	}
	local := p.scratch.local
	count := make([]int, len(p.features)-first+1)
	for i, r := range p.rows {
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		hit := false
		for _, f := range p.x.Index[lo:hi] {
			if l := int(local[f]); l >= first {
				count[l-first+1]++
				hit = true
			}
		}
		if hit {
			p.activate(i)
		}
	}
	base := len(p.colRow)
	for i := 1; i < len(count); i++ {
		count[i] += count[i-1]
		p.colPtr = append(p.colPtr, base+count[i])
	}
	p.colRow = append(p.colRow, make([]int32, count[len(count)-1])...)
	p.colVal = append(p.colVal, make([]float32, count[len(count)-1])...)
	for i, r := range p.rows {
		if p.compact[i] < 0 {
			continue
		}
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		for e, f := range p.x.Index[lo:hi] {
			if l := int(local[f]); l >= first {
				at := base + count[l-first]
				count[l-first]++
				p.colRow[at], p.colVal[at] = p.compact[i], entry(p.x, lo+uint64(e))
			}
		}
	}
}

// gatherColumns is gather by columns of the matrix. The rows of the problem
// must differ.
func (p *problem) gatherColumns(first int) {
	s := p.scratch
	for len(s.place) < p.x.Rows() {
		s.place = append(s.place, -1)
	}
	for i, r := range p.rows {
		s.place[r] = int32(i)
	}
	for _, f := range p.features[first:] {
		for e := p.columns.Ptr[f]; e < p.columns.Ptr[f+1]; e++ {
			if i := s.place[p.columns.Index[e]]; i >= 0 {
				p.activate(int(i))
				p.colRow = append(p.colRow, p.compact[i])
				p.colVal = append(p.colVal, entry(p.columns, e))
			}
		}
		p.colPtr = append(p.colPtr, len(p.colRow))
	}
	for _, r := range p.rows {
		s.place[r] = -1
	}
}

// activate gives row i a compact number of its own.
func (p *problem) activate(i int) {
	if p.compact[i] < 0 {
		p.compact[i] = int32(len(p.sign))
		p.sign = append(p.sign, float64(p.y[i]))
		p.origin = append(p.origin, int32(i))
	}
}

// entry is the value of the e-th entry of x.
func entry(x *vector.CSR, e uint64) float32 {
	if x.Value == nil {
		return 1
	}
	return x.Value[e]
}

// forward writes the margins without offset of all compact rows under the
// weights of the active features. O(entries of the active columns).
func (p *problem) forward(weights, margin []float64) {
	clear(margin)
	for f, w := range weights {
		if w == 0 {
			continue
		}
		lo, hi := p.colPtr[f], p.colPtr[f+1]
		val := p.colVal[lo:hi]
		for e, r := range p.colRow[lo:hi] {
			margin[r] += w * float64(val[e])
		}
	}
}

// backward writes Σᵢ rᵢ xᵢⱼ for every active feature j. O(entries of the
// active columns).
func (p *problem) backward(r, out []float64) {
	for f := range out {
		lo, hi := p.colPtr[f], p.colPtr[f+1]
		val := p.colVal[lo:hi]
		sum := 0.0
		for e, i := range p.colRow[lo:hi] {
			sum += r[i] * float64(val[e])
		}
		out[f] = sum
	}
}

// fold is the training state of one classifier over a problem.
type fold struct {
	classCost [restRows]float64 // of a row of each class
	held      []bool            // rows left out of training; nil for none
	cost      []float64         // of each compact row

	w      []float64 // of each slot
	weight []float64 // of each active feature: the sum over its slots
	margin []float64 // of each compact row, without offset
	alpha  []float64 // of each compact row: yᵢαᵢ of one row
	b      float64

	tau       float64 // the last step size's inverse
	objective float64
	gap       float64
	steps     int
}

// newFold is the classifier trained on the rows of p that are not held out.
func newFold(p *problem, params BACParams, held []bool) *fold {
	f := &fold{held: held}
	var n [restRows]int
	for i, y := range p.y {
		if held == nil || !held[i] {
			n[classOf(y)]++
		}
	}
	for c := range n {
		f.classCost[c] = params.C
		if params.Balanced && n[c] > 0 {
			f.classCost[c] = params.C * float64(n[0]+n[1]) / float64(2*n[c])
		}
		f.cost = append(f.cost, f.classCost[c]*float64(n[c]))
	}
	f.extend(p)
	if !params.NoOffset {
		f.b, _ = offset(p.sign, f.cost, f.margin, 0, make([]float64, len(p.sign)))
	}
	f.residuals(p)
	return f
}

func classOf(y int8) int {
	if y > 0 {
		return restPositive
	}
	return restNegative
}

// extend makes room for the rows and features that p has got since, and moves
// the rows' costs from the pseudo-rows to their own.
func (f *fold) extend(p *problem) {
	for i := len(f.cost); i < len(p.sign); i++ {
		row := p.origin[i]
		class := classOf(p.y[row])
		cost := f.classCost[class]
		if f.held != nil && f.held[row] {
			cost = 0
		}
		f.cost = append(f.cost, cost)
		// Rounding must not leave a rest where no row is left.
		if rest := f.cost[class] - cost; rest > cost/2 {
			f.cost[class] = rest
		} else if cost > 0 {
			f.cost[class] = 0
		}
	}
	f.w = append(f.w, make([]float64, len(p.slot)-len(f.w))...)
	f.weight = append(f.weight, make([]float64, len(p.features)-len(f.weight))...)
	f.margin = append(f.margin, make([]float64, len(p.sign)-len(f.margin))...)
	f.alpha = append(f.alpha, make([]float64, len(p.sign)-len(f.alpha))...)
}

// residuals writes yᵢαᵢ = yᵢ·C·max(0, 1 − yᵢf(xᵢ)) of every compact row; for
// the pseudo-rows, of one row of theirs.
func (f *fold) residuals(p *problem) {
	for i, y := range p.sign {
		cost := f.cost[i]
		if i < restRows {
			cost = f.classCost[i]
		}
		f.alpha[i] = y * cost * math.Max(0, 1-y*(f.margin[i]+f.b))
	}
}

// hinge is half the summed squared hinge loss at margins plus b, its derivative
// by b and the second derivative; r gets yᵢαᵢ of every compact row, of all rows
// together for the pseudo-rows.
func hinge(sign, cost, margin []float64, b float64, r []float64) (value, slope, loss float64) {
	cost, margin, r = cost[:len(sign)], margin[:len(sign)], r[:len(sign)]
	for i, y := range sign {
		h := 1 - y*(margin[i]+b)
		if h <= 0 {
			r[i] = 0
			continue
		}
		c := cost[i]
		a := c * h
		r[i] = y * a
		value -= y * a
		slope += c
		loss += a * h
	}
	return value, slope, loss / 2
}

// offset is the b that minimises the loss at the given margins: the zero of a
// rising piecewise linear function, by Newton's method inside a bracket. The
// loss there is returned too, and r filled in; see hinge.
func offset(sign, cost, margin []float64, b float64, r []float64) (at, loss float64) {
	lo, hi := math.Inf(-1), math.Inf(1)
	total := 0.0
	for _, c := range cost {
		total += c
	}
	for range 100 {
		value, slope, loss := hinge(sign, cost, margin, b, r)
		if math.Abs(value) <= 1e-13*total || slope == 0 {
			return b, loss
		}
		if value > 0 {
			hi = b
		} else {
			lo = b
		}
		next := b - value/slope
		if !(next > lo && next < hi) {
			if math.IsInf(lo, 0) || math.IsInf(hi, 0) || math.Nextafter(lo, hi) >= hi {
				return b, loss
			}
			next = lo + (hi-lo)/2
		}
		if next == b {
			return b, loss
		}
		b = next
	}
	_, _, loss = hinge(sign, cost, margin, b, r)
	return b, loss
}
