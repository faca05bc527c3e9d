package budget

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// directLimit is the size of the feature space up to which an Index is a
// table with an entry for every feature, 16 MiB at most. Beyond it, the
// ascending list of selected features is searched.
const directLimit = 1 << 22

// Index finds the place of a feature among the selected ones (section 7). It
// is made once for a model and shared by its predictors.
type Index struct {
	model  *Model
	direct []int32 // of each feature its place, or -1; nil for very many features
	common int     // the label that most training rows have; -1 for none
}

// NewIndex prepares the model for prediction. O(m) up to 4 million features,
// O(1) beyond. The model must be valid.
func NewIndex(m *Model) *Index {
	x := &Index{model: m, common: -1}
	if m.KeepTop && m.Kind == AT {
		x.common = m.mostFrequent()
	}
	if m.Cols <= directLimit {
		x.direct = make([]int32, m.Cols)
		for f := range x.direct {
			x.direct[f] = -1
		}
		for i, f := range m.Features {
			x.direct[f] = int32(i)
		}
	}
	return x
}

// place is the place of a feature, or -1.
func (x *Index) place(f uint32) int {
	if x.direct != nil {
		if int(f) >= len(x.direct) {
			return -1
		}
		return int(x.direct[f])
	}
	i, ok := slices.BinarySearch(x.model.Features, f)
	if !ok {
		return -1
	}
	return i
}

// Predictor evaluates rows. It serves one goroutine at a time and allocates
// nothing once it is made, except where a result says so.
type Predictor struct {
	index  *Index
	m      *Model
	values []float32 // of each selected feature, in the row at hand
	set    []uint32  // places that are not zero
	queue  []reach
	mass   []float64 // of each label, for scores
	labels []uint32  // those whose mass is not zero
	scores vector.Sparse
	one    [1]uint32 // a set of the best label

	decisions int // those of the latest call
}

// NewPredictor makes a predictor: memory of the selected features.
func NewPredictor(x *Index) *Predictor {
	return &Predictor{
		index: x, m: x.model,
		values: make([]float32, len(x.model.Features)),
		set:    make([]uint32, 0, len(x.model.Features)),
	}
}

// load lays the row out over the selected features. O(entries of the row).
func (p *Predictor) load(x vector.Sparse) {
	for _, i := range p.set {
		p.values[i] = 0
	}
	p.set = p.set[:0]
	for e, f := range x.Index {
		if i := p.index.place(f); i >= 0 {
			v := float32(1)
			if x.Value != nil {
				v = x.Value[e]
			}
			p.values[i] = v
			p.set = append(p.set, uint32(i))
		}
	}
}

// searchFrom is how many times more features than the row's entries a node must
// have for it to be faster to look for each entry among them than to pass over
// them.
const searchFrom = 16

// add adds what entry e of the nodes' features has for the loaded row to the
// voters' sums.
func (p *Predictor) add(sums *[MaxVoters]float64, e int) {
	n := p.m.Voters
	x := float64(p.values[p.m.NodeFeature[e]])
	for v, w := range p.m.Weight[e*n : (e+1)*n] {
		sums[v] += float64(w) * x
	}
}

// decide is the decision of a node on the loaded row, and the mean margin of
// its classifiers above the threshold.
func (p *Predictor) decide(node int) (left bool, margin float64) {
	m := p.m
	lo, hi := m.NodePtr[node], m.NodePtr[node+1]
	wide := int(hi-lo) > searchFrom*len(p.set)
	if m.Voters == 1 && !wide {
		sum := float64(m.Offset[node])
		weight := m.Weight[lo:hi]
		for e, f := range m.NodeFeature[lo:hi] {
			sum += float64(weight[e]) * float64(p.values[f])
		}
		sum -= float64(m.Threshold)
		return sum > 0, sum
	}
	var sums [MaxVoters]float64
	n := m.Voters
	for v, b := range m.Offset[node*n : (node+1)*n] {
		sums[v] = float64(b)
	}
	if wide {
		for _, f := range p.set {
			if e, ok := slices.BinarySearch(m.NodeFeature[lo:hi], f); ok {
				p.add(&sums, int(lo)+e)
			}
		}
	} else {
		for e := lo; e < hi; e++ {
			if p.values[m.NodeFeature[e]] != 0 {
				p.add(&sums, int(e))
			}
		}
	}
	votes := 0
	for _, s := range sums[:n] {
		s -= float64(m.Threshold)
		margin += s
		if s > 0 {
			votes++
		}
	}
	return voteLeft(votes, n, margin), margin / float64(n)
}

// voteLeft reports whether more than half of n classifiers have voted yes; in a
// tie the sum of their margins decides.
func voteLeft(votes, n int, margins float64) bool {
	return 2*votes > n || 2*votes == n && margins > 0
}

// walk is the leaf of the loaded row in a tree, the number of decisions on the
// way and the margin of the last of them.
func (p *Predictor) walk(tree int) (leaf, decisions int, margin float64) {
	ref := p.m.Roots[tree]
	for ref >= 0 {
		var left bool
		left, margin = p.decide(int(ref))
		if left {
			ref = p.m.Left[ref]
		} else {
			ref = p.m.Right[ref]
		}
		decisions++
	}
	p.decisions += decisions
	return int(^ref), decisions, margin
}

// Leaf is the leaf that a row comes to in a tree, and how many decisions
// (annotations, as the paper calls them) that took. O(entries of the row +
// features of the nodes on the path).
func (p *Predictor) Leaf(x vector.Sparse, tree int) (leaf, decisions int) {
	p.load(x)
	p.decisions = 0
	leaf, decisions, _ = p.walk(tree)
	return leaf, decisions
}

// Decisions returns how many decisions the latest call of Leaf, Set or Class took in all trees.
func (p *Predictor) Decisions() int { return p.decisions }

// Set is the label set that a PT or AT answers for a row, ascending: a view into
// the model, which must not be changed, or into the predictor, which holds until
// its next call.
func (p *Predictor) Set(x vector.Sparse) []uint32 {
	leaf, _ := p.Leaf(x, 0)
	set := p.m.Set(leaf)
	if len(set) > 0 || !p.m.KeepTop || p.m.Kind != AT {
		return set
	}
	return p.best(x)
}

// best is the label of the highest score, ties to the smaller one, or the most
// frequent label; none if no training row had one.
func (p *Predictor) best(x vector.Sparse) []uint32 {
	scores := p.Scores(x, scoreCut)
	best := -1
	for i, v := range scores.Value {
		if best < 0 || v > scores.Value[best] {
			best = i
		}
	}
	switch {
	case best >= 0:
		p.one[0] = scores.Index[best]
	case p.index.common >= 0:
		p.one[0] = uint32(p.index.common)
	default:
		return nil
	}
	return p.one[:]
}

// mostFrequent is the label that most training rows of the first tree have, ties
// to the smaller one; -1 if none has any.
func (m *Model) mostFrequent() int {
	count := make([]int, m.Labels)
	best := -1
	for leaf, rows := range m.LeafRows {
		for _, l := range m.Set(leaf) {
			count[l] += int(rows)
		}
	}
	for l, n := range count {
		if n > 0 && (best < 0 || n > count[best]) {
			best = l
		}
	}
	return best
}

// Class is the class that an SBT answers for a row: 0 or 1 for two classes (1
// where training said +1), else the class whose tree has the largest score,
// ties to the smaller number. score is that of the answer's tree.
//
// The score of a tree is the mean margin of the last decision on the row's
// path, with the sign of the leaf's answer: the distance to the hyperplane that
// made the answer what it is. A tree without decisions scores ±1.
func (p *Predictor) Class(x vector.Sparse) (class int, score float64) {
	p.load(x)
	p.decisions = 0
	if len(p.m.Roots) == 1 {
		score = p.score(0)
		if score > 0 {
			class = 1
		}
		return class, score
	}
	score = math.Inf(-1)
	for t := range p.m.Roots {
		if s := p.score(t); s > score {
			class, score = t, s
		}
	}
	return class, score
}

// score is the score of the loaded row in a tree of an SBT. It is never zero,
// so that its sign is the answer.
func (p *Predictor) score(tree int) float64 {
	leaf, decisions, margin := p.walk(tree)
	s := 1.0
	if decisions > 0 {
		s = max(math.Abs(margin), math.SmallestNonzeroFloat32)
	}
	return s * float64(p.m.LeafClass[leaf])
}
