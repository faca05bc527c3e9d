package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Contribution is what a feature adds to a decision's margin: the mean of its
// classifiers' weights, times the row's value.
type Contribution struct {
	Feature       uint32
	Weight, Value float32
	Margin        float64 // Weight·Value
}

// Decision is a node on a row's path.
type Decision struct {
	Node     int
	Label    uint32  // AT: the label in question
	Left     bool    // the decision is positive
	Margin   float64 // mean over the classifiers, above the threshold
	Offset   float64 // what of it is there for every row: mean offset − threshold
	Votes    int     // classifiers with a positive margin
	Voters   int
	Rows     int // training rows that reached the node
	Errors   int // SBT: cross-validation errors there
	Selected int // features of the node
	Present  int // those with a value other than zero in the row
	// Contributions lists the latter, by falling magnitude, ties by feature. With
	// Offset they add up to Margin, but for rounding.
	Contributions []Contribution
	Ones          []uint32 // AT: labels recorded at the node as always present
}

// Explanation is the path of a row in one tree, and the answer at its end.
type Explanation struct {
	Path []Decision
	Leaf int
	Rows int // training rows in the leaf
	// Positive and Class are, for SBT, how many of them are positive and the
	// answer ±1; Score is that of Predictor.Class.
	Positive int
	Class    int8
	Score    float64
	Set      []uint32 // PT, AT: the answer
}

// Explain returns the decisions on the row's path through a tree. It allocates
// what it returns. O(as Leaf).
func (p *Predictor) Explain(x vector.Sparse, tree int) *Explanation {
	p.load(x)
	m := p.m
	e := &Explanation{}
	ref := m.Roots[tree]
	for ref >= 0 {
		d := p.explainNode(int(ref))
		e.Path = append(e.Path, d)
		if d.Left {
			ref = m.Left[ref]
		} else {
			ref = m.Right[ref]
		}
	}
	e.Leaf = int(^ref)
	e.Rows = int(m.LeafRows[e.Leaf])
	if m.Kind == SBT {
		e.Positive, e.Class = int(m.LeafPositive[e.Leaf]), m.LeafClass[e.Leaf]
		e.Score = p.score(tree)
	} else {
		e.Set = slices.Clone(m.Set(e.Leaf))
	}
	return e
}

func (p *Predictor) explainNode(node int) Decision {
	m := p.m
	left, margin := p.decide(node)
	d := Decision{
		Node: node, Left: left, Margin: margin, Offset: m.meanOffset(node) - float64(m.Threshold),
		Voters: m.Voters, Rows: int(m.NodeRows[node]), Errors: int(m.NodeErrors[node]),
		Selected: int(m.NodePtr[node+1] - m.NodePtr[node]), Ones: slices.Clone(m.Ones(node)),
	}
	if m.Kind == AT {
		d.Label = m.NodeLabel[node]
	}
	sums := make([]float64, m.Voters)
	for v := range sums {
		sums[v] = float64(m.Offset[node*m.Voters+v]) - float64(m.Threshold)
	}
	for e := int(m.NodePtr[node]); e < int(m.NodePtr[node+1]); e++ {
		value := p.values[m.NodeFeature[e]]
		if value == 0 {
			continue
		}
		for v := range sums {
			sums[v] += float64(m.Weight[e*m.Voters+v]) * float64(value)
		}
		w := m.meanWeight(e)
		feature := m.Features[m.NodeFeature[e]]
		d.Contributions = append(d.Contributions, Contribution{feature, float32(w), value, w * float64(value)})
	}
	for _, s := range sums {
		if s > 0 {
			d.Votes++
		}
	}
	d.Present = len(d.Contributions)
	slices.SortFunc(d.Contributions, func(a, b Contribution) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Margin), math.Abs(a.Margin)), cmp.Compare(a.Feature, b.Feature))
	})
	return d
}

// meanWeight is the mean of entry e's weights over the classifiers.
func (m *Model) meanWeight(e int) float64 {
	sum := 0.0
	for _, w := range m.Weight[e*m.Voters : (e+1)*m.Voters] {
		sum += float64(w)
	}
	return sum / float64(m.Voters)
}

// meanOffset is the mean offset of a node's classifiers.
func (m *Model) meanOffset(node int) float64 {
	sum := 0.0
	for _, b := range m.Offset[node*m.Voters : (node+1)*m.Voters] {
		sum += float64(b)
	}
	return sum / float64(m.Voters)
}
