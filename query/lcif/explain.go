package lcif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// NeighborShare is the contribution of one neighbour to a label's score.
type NeighborShare struct {
	Row        uint32  `json:"row"`
	Similarity float64 `json:"similarity"`
	// Share is the part of the label's score: λ·s^α / Σs^α if the row has the
	// label and there is no second order (definition 6).
	Share float64 `json:"share"`
	// Indirect is the part of Share that comes from the row's own neighbours.
	Indirect float64 `json:"indirect,omitempty"`
	// Shared are the features that the row and the query have, by what each adds to the similarity, largest
	// first. It is nil if features are not compared, as in dense rows. They add up to the similarity, unless
	// vectors add to it too.
	Shared []SharedFeature `json:"shared,omitempty"`
}

// SharedFeature is a feature of two rows, and what it adds to their similarity.
type SharedFeature struct {
	Feature uint32  `json:"feature"`
	Adds    float64 `json:"adds"`
}

// FeatureShare is the contribution of one feature of the query to a label's score.
type FeatureShare struct {
	Feature uint32 `json:"feature"`
	// Value is the feature's value in the unit-length query.
	Value float64 `json:"value"`
	// Power is the cosine of the feature's and the label's column to the power β.
	Power float64 `json:"power"`
	// Share is the part of the label's score: (1−λ)·x·Power / Σx (definition 8), with
	// Σx over the features that any training row has. Most is that of a power of 1.
	Share float64 `json:"share"`
	Most  float64 `json:"most"`
	// Rows and Labelled are the numbers of rows that have the feature, and of these with the label; 0 if they
	// are not counted.
	Rows     int `json:"rows,omitempty"`
	Labelled int `json:"labelled,omitempty"`
}

// LabelExplanation describes the parts of a label's score. The shares sum to the score, up to
// rounding to float32.
type LabelExplanation struct {
	Label uint32  `json:"label"`
	Score float64 `json:"score"`
	// Predicted reports whether the label is among those that Predict returns.
	Predicted bool `json:"predicted"`
	// Instance and Feature are the two terms of definition 9, including their weights.
	Instance float64 `json:"instance"`
	Feature  float64 `json:"feature"`
	// Neighbors are those with a share, Features those of the query that any training row has, largest share
	// first, ties by number.
	Neighbors []NeighborShare `json:"neighbors,omitempty"`
	Features  []FeatureShare  `json:"features,omitempty"`
	// Without are the neighbors that do not have the label. Share is what each would add if it had it.
	Without []NeighborShare `json:"without,omitempty"`
	// Labelled is the number of rows with the label, 0 if they are not counted.
	Labelled int `json:"labelled,omitempty"`
}

// ExplainLabels predicts the labels of q again and explains the given ones, in the given order,
// whether predicted or not; nil explains the predicted ones. Cost: a prediction, and for each
// label a pass over the neighbours' label sets and the query's features. Errors: those of
// Predict; ErrParams for a label that does not exist.
func (p *Predictor) ExplainLabels(ctx context.Context, v *View, q vector.Sparse,
	params *Params, which []uint32) ([]LabelExplanation, error) {
	predicted, _, err := p.Predict(ctx, v, q, params, nil)
	if err != nil {
		return nil, err
	}
	if which == nil {
		for _, r := range predicted {
			which = append(which, r.Label)
		}
	}
	out := make([]LabelExplanation, 0, len(which))
	shared := p.sharedFeatures(v)
	for _, l := range which {
		if int64(l) >= int64(v.Labels.Labels()) {
			return nil, fmt.Errorf("%w: label %d of %d", query.ErrParams, l, v.Labels.Labels())
		}
		e := LabelExplanation{Label: l}
		if i, ok := slices.BinarySearch(p.scores.Index, l); ok {
			e.Score = float64(p.scores.Value[i])
		}
		e.Predicted = slices.ContainsFunc(predicted, func(r labels.Ranked) bool { return r.Label == l })
		p.explainNeighbors(v, &e, shared)
		p.explainFeatures(v, &e)
		out = append(out, e)
	}
	return out, nil
}

// sharedFeatures returns NeighborShare.Shared of all neighbours.
func (p *Predictor) sharedFeatures(v *View) [][]SharedFeature {
	out, weight := make([][]SharedFeature, len(p.near)), 1.0
	switch n := v.Neighbors.(type) {
	case *PostingsNeighbors:
	case *BothNeighbors:
		weight -= n.Weight
	default:
		return out
	}
	if v.Row == nil {
		return out
	}
	var unit vector.Sparse
	for i, n := range p.near {
		normalise(&unit, v.Row(n.row), v.Features, v.Keep)
		for j, f := range p.unit.Index {
			if x := float64(p.unit.Value[j]) * float64(unit.At(f)); x > 0 {
				out[i] = append(out[i], SharedFeature{f, weight * x})
			}
		}
		slices.SortFunc(out[i], func(a, b SharedFeature) int {
			return cmp.Or(cmp.Compare(b.Adds, a.Adds), cmp.Compare(a.Feature, b.Feature))
		})
	}
	return out
}

// explainNeighbors divides the instance score by neighbour. shared has the features of each.
func (p *Predictor) explainNeighbors(v *View, e *LabelExplanation, shared [][]SharedFeature) {
	has := func(row uint32) bool {
		if int(row) >= v.Labels.Rows() {
			return false
		}
		_, ok := slices.BinarySearch(v.Labels.Row(int(row)), e.Label)
		return ok
	}
	alpha, w := p.params.Alpha, p.params.SecondOrder
	total := sumOf(p.near, alpha)
	for i, n := range p.near {
		weight := p.params.Lambda * labels.Power(float64(n.sim), alpha) / total
		s := NeighborShare{Row: n.row, Similarity: float64(n.sim), Share: (1 - w) * weight, Shared: shared[i]}
		if !has(n.row) {
			if s.Share > 0 {
				e.Without = append(e.Without, s)
			}
			s.Share = 0
		}
		if w > 0 {
			others := p.second.of(n.row)
			sum := sumOf(others, alpha)
			for _, o := range others {
				if has(o.row) {
					s.Indirect += w * weight * labels.Power(float64(o.sim), alpha) / sum
				}
			}
			s.Share += s.Indirect
		}
		if s.Share > 0 {
			e.Neighbors = append(e.Neighbors, s)
			e.Instance += s.Share
		}
	}
	byShare := func(a, b NeighborShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Row, b.Row))
	}
	slices.SortFunc(e.Neighbors, byShare)
	slices.SortFunc(e.Without, byShare)
}

// explainFeatures divides the feature score by feature.
func (p *Predictor) explainFeatures(v *View, e *LabelExplanation) {
	if p.params.Lambda == 1 {
		return
	}
	m := v.Powers
	total := divisor(m, p.unit)
	for i, f := range p.unit.Index {
		x := float64(p.unit.Value[i])
		if !(x > 0) || !m.Seen(int(f)) {
			continue
		}
		c := labels.Power(m.At(int(f), int(e.Label)), p.params.Beta/m.Beta)
		s := FeatureShare{Feature: f, Value: x, Power: c, Most: (1 - p.params.Lambda) * x / total}
		s.Share = s.Most * c
		e.Features = append(e.Features, s)
		e.Feature += s.Share
	}
	slices.SortFunc(e.Features, func(a, b FeatureShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Feature, b.Feature))
	})
}
