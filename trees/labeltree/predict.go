package labeltree

import (
	"cmp"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// beam is the largest number of nodes of a level that a prediction follows.
const beam = 10

// leastShare is the least score of a node that is followed, as a share of the best one of its level: labels
// below others are as good as never among the best ones.
const leastShare = 0.1

// slope is that of the logistic function that turns a margin into a factor of a score.
const slope = 8

// nodePower is the power of the factors of nodes. The margins of labels repeat most of the doubts of the
// nodes above, which must not count twice.
const nodePower = 0.3

// Predictor predicts labels by a model. One goroutine may use it at a time; once its memory has grown it
// allocates nothing.
type Predictor struct {
	m          *Model
	width      int // of the beam
	leastShare float64
	margins    []float32
	beam, next []place
	found      []place
}

// place is a node, or a label, with the logarithm of its score.
type place struct {
	at    uint32
	score float64
}

// compare orders by score, best first, then by number.
func compare(a, b place) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.at, b.at))
}

// NewPredictor returns a predictor.
func NewPredictor(m *Model) *Predictor { return &Predictor{m: m, width: beam, leastShare: leastShare} }

// Predict appends the labels of the nodes that a beam ends at, ascending, with their scores between 0 and 1.
// Labels whose score is too small for a float32 are left out. Features of x that the model does not know are
// ignored. O(levels · beam · (features of x · log features of a node + weights)).
func (p *Predictor) Predict(x vector.Sparse, dst *vector.Sparse) {
	last := p.follow(x, p.m.Inner)
	p.found = p.found[:0]
	for _, b := range last {
		p.found = p.expand(p.found, b, x)
	}
	slices.SortFunc(p.found, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	for _, f := range p.found {
		if score := float32(math.Exp(f.score)); score > 0 {
			dst.Index, dst.Value = append(dst.Index, f.at), append(dst.Value, score)
		}
	}
}

// follow returns the best nodes among those from number inner on that the beam reaches.
func (p *Predictor) follow(x vector.Sparse, inner int) []place {
	p.beam = append(p.beam[:0], place{})
	for int(p.beam[0].at) < inner {
		p.next = p.next[:0]
		for _, b := range p.beam {
			p.next = p.expand(p.next, b, x)
		}
		slices.SortFunc(p.next, compare)
		p.next = p.next[:min(len(p.next), p.width)]
		least := p.next[0].score + math.Log(p.leastShare)
		for p.next[len(p.next)-1].score < least {
			p.next = p.next[:len(p.next)-1]
		}
		p.beam, p.next = p.next, p.beam
	}
	return p.beam
}

// expand appends the children of a node with their scores.
func (p *Predictor) expand(dst []place, b place, x vector.Sparse) []place {
	first, _ := p.m.children(int(b.at))
	power := 1.0
	if int(b.at) < p.m.Inner {
		power = nodePower
	}
	for c, margin := range p.score(int(b.at), x) {
		// The logistic function of a margin far below zero is its exponential.
		s := -math.Log1p(math.Exp(-slope * float64(margin)))
		if -slope*float64(margin) > 500 {
			s = slope * float64(margin)
		}
		dst = append(dst, place{p.m.Target[first+c], b.score + power*s})
	}
	return dst
}

// score returns the margins of the children of a node.
func (p *Predictor) score(node int, x vector.Sparse) []float32 {
	m := p.m
	first, end := m.children(node)
	p.margins = append(p.margins[:0], m.Offset[first:end]...)
	out := p.margins
	from := int(m.FeaturePtr[node])
	list := m.Feature[from:m.FeaturePtr[node+1]]
	at := 0
	for i, f := range x.Index {
		n, found := slices.BinarySearch(list[at:], f)
		if at += n; at == len(list) {
			break
		}
		if !found {
			continue
		}
		value := x.Value[i]
		for _, w := range m.Weight[m.WeightPtr[from+at]:m.WeightPtr[from+at+1]] {
			out[w>>16] += value * weightOf(w)
		}
	}
	return out
}

// Step is a classifier on the path to a label.
type Step struct {
	Node           int
	Margin, Offset float64
	Contributions  []Contribution // by falling magnitude, then by feature; with Offset they add up to Margin
}

// Contribution is what a feature adds to a margin, with the fields of budget.Contribution.
type Contribution struct {
	Feature       uint32
	Weight, Value float32
	Margin        float64 // Weight·Value
}

// Explain returns the classifiers on the path to a label, from the root on; nil for a label that the model
// does not have. O(classifiers + features).
func (p *Predictor) Explain(x vector.Sparse, label uint32) (path []Step) {
	m := p.m
	target, leaf := label, true
	for {
		c := -1
		for i := len(m.Target) - 1; i >= 0 && c < 0; i-- {
			if m.Target[i] == target && (i >= int(m.ClassPtr[m.Inner])) == leaf {
				c = i
			}
		}
		if c < 0 {
			return nil
		}
		node, found := slices.BinarySearch(m.ClassPtr, uint32(c))
		if !found {
			node--
		}
		path = append(path, p.step(x, node, c))
		if node == 0 {
			slices.Reverse(path)
			return path
		}
		target, leaf = uint32(node), false
	}
}

// step explains the margin of a child.
func (p *Predictor) step(x vector.Sparse, node, child int) Step {
	m := p.m
	own := uint32(child) - m.ClassPtr[node]
	s := Step{Node: node, Offset: float64(m.Offset[child])}
	s.Margin = s.Offset
	from := m.FeaturePtr[node]
	list := m.Feature[from:m.FeaturePtr[node+1]]
	for i, f := range x.Index {
		at, found := slices.BinarySearch(list, f)
		if !found {
			continue
		}
		e := int(from) + at
		for _, w := range m.Weight[m.WeightPtr[e]:m.WeightPtr[e+1]] {
			if w>>16 == own {
				weight, value := weightOf(w), x.Value[i]
				c := Contribution{f, weight, value, float64(weight) * float64(value)}
				s.Margin += c.Margin
				s.Contributions = append(s.Contributions, c)
			}
		}
	}
	slices.SortStableFunc(s.Contributions, func(a, b Contribution) int {
		return cmp.Compare(math.Abs(b.Margin), math.Abs(a.Margin))
	})
	return s
}
