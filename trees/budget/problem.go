package budget

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// problem is one binary problem as the cutting-plane algorithm sees it: the
// rows of a node and the columns of the features chosen so far. Folds share
// it: they differ in the costs of the rows alone.
type problem struct {
	x    *vector.CSR
	rows []int32   // the rows of x, n of them
	sign []float64 // n, ±1

	features []uint32 // active, in order of their choice
	colPtr   []int    // column of each active feature
	colRow   []int32
	colVal   []float32
	slot     []int32 // the active features of all sets, one after the other
	setPtr   []int
	order    []int // the active features by number, once they are final

	scratch *scratch
}

// scratch is memory of the size of the feature space, which a worker keeps
// from node to node. Between uses local is -1 and sum zero everywhere.
type scratch struct {
	local   []int32 // feature to place in the list at hand
	sum     []float64
	total   []float64
	touched []uint32
}

func newScratch(cols int) *scratch {
	return &scratch{local: slices.Repeat([]int32{-1}, cols), total: make([]float64, cols)}
}

// widen makes room for n sums a feature.
func (s *scratch) widen(n int) {
	if need := n * len(s.local); len(s.sum) < need {
		s.sum = make([]float64, need)
	}
}

// newProblem is the problem of rows of x, whose classes positive reports by place.
func newProblem(x *vector.CSR, rows []int32, positive func(i int) bool, s *scratch) *problem {
	p := &problem{
		x: x, rows: rows, sign: make([]float64, len(rows)), scratch: s, colPtr: []int{0}, setPtr: []int{0},
	}
	for i := range rows {
		p.sign[i] = -1
		if positive(i) {
			p.sign[i] = 1
		}
	}
	return p
}

// addSet makes the features, ascending, the next set, and gathers the columns
// of those that are new. O(entries of the rows).
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

// gather appends the columns of the active features from first on.
func (p *problem) gather(first int) {
	local := p.scratch.local
	count := make([]int, len(p.features)-first+1)
	for _, r := range p.rows {
		for _, f := range p.x.Index[p.x.Ptr[r]:p.x.Ptr[r+1]] {
			if l := int(local[f]); l >= first {
				count[l-first+1]++
			}
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
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		for e, f := range p.x.Index[lo:hi] {
			if l := int(local[f]); l >= first {
				at := base + count[l-first]
				count[l-first]++
				p.colRow[at], p.colVal[at] = int32(i), entry(p.x, lo+uint64(e))
			}
		}
	}
}

// entry is the value of the e-th entry of x.
func entry(x *vector.CSR, e uint64) float32 {
	if x.Value == nil {
		return 1
	}
	return x.Value[e]
}

// forward writes the margins without offset of all rows under the
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
	cost   []float64 // of each row, 0 if it is left out of training
	w      []float64 // of each slot
	weight []float64 // of each active feature: the sum over its slots
	margin []float64 // of each row, without offset
	alpha  []float64 // of each row: yᵢαᵢ
	b      float64

	tau       float64 // the last step size's inverse
	objective float64
	gap       float64
	steps     int
}

// newFold is the classifier trained on the rows of p that are not held out, as held reports by
// place; nil holds none.
func newFold(p *problem, params BACParams, held func(i int) bool) *fold {
	n := len(p.sign)
	f := &fold{cost: make([]float64, n), margin: make([]float64, n), alpha: make([]float64, n)}
	rows := map[float64]int{} // by class
	for i, y := range p.sign {
		if held == nil || !held(i) {
			f.cost[i] = params.C
			rows[y]++
		}
	}
	if params.Balanced {
		for i, y := range p.sign {
			f.cost[i] *= float64(rows[-1]+rows[1]) / float64(2*rows[y])
		}
	}
	if !params.NoOffset {
		f.b, _ = offset(p.sign, f.cost, f.margin, 0, f.alpha)
	}
	f.residuals(p)
	return f
}

// extend makes room for the features that p has got since.
func (f *fold) extend(p *problem) {
	f.w = append(f.w, make([]float64, len(p.slot)-len(f.w))...)
	f.weight = append(f.weight, make([]float64, len(p.features)-len(f.weight))...)
}

// residuals writes yᵢαᵢ = yᵢ·C·max(0, 1 − yᵢf(xᵢ)) of every row.
func (f *fold) residuals(p *problem) { hinge(p.sign, f.cost, f.margin, f.b, f.alpha) }

// hinge is half the summed squared hinge loss at margins plus b, its derivative
// by b and the second derivative; r gets yᵢαᵢ of every row.
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
