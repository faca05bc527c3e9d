package budget

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Sizes of the look-ahead: features kept by the screening, features tried as
// splits, iterations of the screening.
const (
	screened   = 32
	candidates = 6
	iterations = 12
)

// enough is how few cross-validation errors the classifiers below a split
// must have for it to be preferred to the node's own classifier. Where that has
// learned nothing beyond the majority's class, by two standard deviations of
// the count, two standard deviations fewer do; where it has learned something,
// but has more than half of the majority's errors, half of its own. A better
// classifier is kept: no count is low enough.
func enough(errors, minority int) float64 {
	e, m := float64(errors), float64(minority)
	switch {
	case e > m-2*math.Sqrt(m):
		least := min(e, m)
		return least - 2*math.Sqrt(least)
	case 2*e > m:
		return e / 2
	}
	return 0
}

// enoughForTree is the same for a greedy tree, whose depth is chosen by its
// errors: four standard deviations fewer than the node's own classifier or the
// majority's class.
func enoughForTree(errors, minority int) float64 {
	least := float64(min(errors, minority))
	return least - 4*math.Sqrt(least)
}

// split divides rows by one feature: values above the threshold go left. Each side
// may have a further split.
type split struct {
	feature     uint32
	threshold   float32
	left, right *split
}

// apply makes the split the decision of a node, the same for every voter.
func (a *split) apply(g *grown, voters int) {
	g.split = true
	g.features = []uint32{a.feature}
	g.weights = slices.Repeat([]float32{1}, voters)
	g.offsets = slices.Repeat([]float32{-a.threshold}, voters)
}

// goesLeft reports whether row r goes left, as a node of the model decides.
func (a *split) goesLeft(x *vector.CSR, r int32) bool {
	return valueOf(x, r, a.feature) > a.threshold
}

// named replaces features that are places in a list by those of the list.
func (a *split) named(features []uint32) *split {
	if a == nil {
		return nil
	}
	return &split{features[a.feature], a.threshold, a.left.named(features), a.right.named(features)}
}

// valueOf is x[r][f].
func valueOf(x *vector.CSR, r int32, f uint32) float32 {
	lo, hi := x.Ptr[r], x.Ptr[r+1]
	i, ok := slices.BinarySearch(x.Index[lo:hi], f)
	if !ok {
		return 0
	}
	return entry(x, lo+uint64(i))
}

// looksAhead reports whether a node whose classifiers are trained looks for a
// split instead: the option is on for a node of its size, and the classifiers have
// learned little.
func (s *sbt) looksAhead(p *problem, folds []*fold, g *grown) bool {
	if len(folds) < 2 || len(p.rows) > s.params.LookAheadRows {
		return false
	}
	return enough(heldErrors(p, folds), g.minority()) > 0
}

// expand grows a node as the splits say, and appends the tasks of the nodes below
// them.
func (s *sbt) expand(tasks []task, n *sbtNode, by *split) []task {
	g := n.g
	by.apply(g, s.params.Folds)
	var parted sides
	for _, at := range n.train {
		parted.add(&parted.train, at, by.goesLeft(s.x, s.rows[at]))
	}
	for _, at := range n.test {
		parted.add(&parted.test, at, by.goesLeft(s.x, s.rows[at]))
	}
	g.left, g.right = &grown{}, &grown{}
	right, left := n.child(g.right, &parted, 1), n.child(g.left, &parted, 0)
	return s.below(s.below(tasks, &right, by.right), &left, by.left)
}

// below is expand for a side of a split; without a further split, training
// continues there.
func (s *sbt) below(tasks []task, n *sbtNode, by *split) []task {
	if by == nil || n.depth == s.params.MaxDepth {
		return append(tasks, s.task(*n))
	}
	s.count(n)
	return s.expand(tasks, n, by)
}

// lookAhead looks for a split after which classifiers can separate the classes
// where none can before, as with exclusive or: every single feature has the same
// distribution in both classes then, but products of features do not. Features are
// screened by the difference of the two classes' covariance matrices, in whose
// leading eigenvectors features with such products have large entries; the matrix
// is never formed, a product with it costs a pass over the rows. Two kinds of split
// are then compared by the cross-validation errors of what follows them, over the
// screened features: each of the best few features at its median, with linear
// classifiers on both sides; and a greedy tree, for classes in more pieces than two
// levels can separate, which is taken with all of its splits. lookAhead returns the
// one with the fewest errors if they are few enough compared with those of the
// node's own classifiers, folds; else nil. Some 30 passes over the rows' entries.
func (s *sbt) lookAhead(ctx context.Context, p *problem, folds []*fold, seed uint64) (*split, error) {
	own, positive := heldErrors(p, folds), 0
	for _, y := range p.y {
		if y > 0 {
			positive++
		}
	}
	minority := min(positive, len(p.rows)-positive)
	features := p.screen(seed)
	if len(features) < 2 {
		return nil, nil
	}
	small := p.restrict(features)
	var found *split
	least := enough(own, minority)
	if a, n := greedy(small, p.y, s.params.Folds, seed); float64(n) < enoughForTree(own, minority) {
		found, least = a, min(least, float64(n))
	}
	rows, scratch := positions(len(p.rows)), newScratch(small.Cols)
	params := s.params
	params.BAC.Rounds = min(params.BAC.Rounds, 3)
	for k := range features[:min(candidates, len(features))] {
		a, ok := median(small, rows, uint32(k))
		if !ok {
			continue
		}
		var divided sides
		for _, r := range rows {
			divided.add(&divided.train, r, a.goesLeft(small, r))
		}
		below := 0
		for _, side := range divided.train {
			y := make([]int8, len(side))
			for i, r := range side {
				y[i] = p.y[r]
			}
			n, err := newProblem(small, side, y, scratch).leastErrors(ctx, params, seed)
			if err != nil {
				return nil, err
			}
			below += n
		}
		if float64(below) < least {
			found, least = a, float64(below)
		}
	}
	return found.named(features), nil
}

// leastErrors is the least of the cross-validation errors and the minority of a
// side of a split.
func (p *problem) leastErrors(ctx context.Context, params Params, seed uint64) (int, error) {
	positive := 0
	for _, y := range p.y {
		if y > 0 {
			positive++
		}
	}
	minority := min(positive, len(p.rows)-positive)
	if minority == 0 || len(p.rows) < params.MinRows {
		return minority, nil
	}
	folds, err := p.embedded(ctx, params, seed)
	if err != nil {
		return 0, err
	}
	return min(minority, heldErrors(p, folds)), nil
}

// screen is the features that stand out in the leading eigenvectors of
// Σᵢ aᵢ(xᵢ − x̄)(xᵢ − x̄)ᵀ, aᵢ = ±1/n_class, best first. Eigenvalues may come
// in pairs ±λ, between whose vectors the power iteration wavers; so the last
// two iterates count together.
func (p *problem) screen(seed uint64) []uint32 {
	n := len(p.rows)
	var count [restRows]float64
	for _, y := range p.y {
		count[classOf(y)]++
	}
	mean, v := p.scratch.sum, p.scratch.total
	next := make([]float64, p.x.Cols)
	rng := rand.New(rand.NewPCG(seed, 3))
	var present []uint32
	for _, r := range p.rows {
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		for e, j := range p.x.Index[lo:hi] {
			if p.scratch.local[j] < 0 {
				p.scratch.local[j] = 0
				present = append(present, j)
			}
			mean[j] += float64(entry(p.x, lo+uint64(e))) / float64(n)
		}
	}
	slices.Sort(present)
	for _, j := range present {
		v[j] = rng.NormFloat64()
	}
	score := make(map[uint32]float64, len(present))
	for it := range iterations {
		p.multiply(mean, v, next, present, count)
		norm := 0.0
		for _, j := range present {
			norm += next[j] * next[j]
		}
		if norm == 0 {
			break
		}
		norm = math.Sqrt(norm)
		for _, j := range present {
			v[j], next[j] = next[j]/norm, 0
			if it >= iterations-2 {
				score[j] += v[j] * v[j]
			}
		}
	}
	var top topFeatures
	top.limit = screened
	for _, j := range present {
		if score[j] > 0 {
			top.push(scored{j, score[j]})
		}
		mean[j], v[j], p.scratch.local[j] = 0, 0, -1
	}
	slices.SortFunc(top.heap, scored.before)
	features := make([]uint32, len(top.heap))
	for i, f := range top.heap {
		features[i] = f.feature
	}
	return features
}

// multiply adds the product of the matrix of screen with v to out.
func (p *problem) multiply(mean, v, out []float64, present []uint32, count [restRows]float64) {
	middle := 0.0
	for _, j := range present {
		middle += mean[j] * v[j]
	}
	shift := 0.0
	for i, r := range p.rows {
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		t := -middle
		for e, j := range p.x.Index[lo:hi] {
			t += v[j] * float64(entry(p.x, lo+uint64(e)))
		}
		t *= float64(p.y[i]) / count[classOf(p.y[i])]
		shift += t
		for e, j := range p.x.Index[lo:hi] {
			out[j] += t * float64(entry(p.x, lo+uint64(e)))
		}
	}
	for _, j := range present {
		out[j] -= shift * mean[j]
	}
}

// restrict is the problem's rows over the given features only, which are
// renumbered by their places in the list.
func (p *problem) restrict(features []uint32) *vector.CSR {
	local := p.scratch.local
	for k, f := range features {
		local[f] = int32(k)
	}
	small := &vector.CSR{Ptr: make([]uint64, 1, len(p.rows)+1), Cols: len(features)}
	var row []scored
	for _, r := range p.rows {
		lo, hi := p.x.Ptr[r], p.x.Ptr[r+1]
		row = row[:0]
		for e, j := range p.x.Index[lo:hi] {
			if k := local[j]; k >= 0 {
				row = append(row, scored{uint32(k), float64(entry(p.x, lo+uint64(e)))})
			}
		}
		slices.SortFunc(row, func(a, b scored) int { return int(a.feature) - int(b.feature) })
		for _, e := range row {
			small.Index = append(small.Index, e.feature)
			small.Value = append(small.Value, float32(e.value))
		}
		small.Ptr = append(small.Ptr, uint64(len(small.Index)))
	}
	for _, f := range features {
		local[f] = -1
	}
	return small
}

// median is the split on a feature that parts the rows most evenly: at the
// median, or below it where nothing lies above. Not ok when the feature is
// constant.
func median(x *vector.CSR, rows []int32, f uint32) (*split, bool) {
	values := make([]float32, len(rows))
	for i, r := range rows {
		values[i] = valueOf(x, r, f)
	}
	slices.Sort(values)
	at := values[(len(values)-1)/2]
	if at == values[len(values)-1] {
		i, _ := slices.BinarySearch(values, at)
		if i == 0 {
			return nil, false
		}
		at = values[i-1]
	}
	return &split{feature: f, threshold: at}, true
}
