package lcif

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// tally sums scores by label. Between uses it is all zeros, so that the cost of a use is that
// of the labels it touches.
type tally struct {
	sum []float64
	met []uint64 // a bit for each label with a sum
	all bool     // whether any label may have one
	// weights is scratch for the weights of neighbours.
	weights []float64

	before []float64 // scratch of adder
}

func (t *tally) reset(labels int) {
	if len(t.sum) < labels {
		t.sum = make([]float64, labels)
		t.met = make([]uint64, (labels+63)/64)
	}
}

// add adds w, which is above zero, to the scores of the labels in set.
func (t *tally) add(set []uint32, w float64) {
	for _, l := range set {
		t.one(l, w)
	}
}

func (t *tally) one(l uint32, w float64) {
	t.met[l/64] |= 1 << (l % 64) // no branch: it would be unpredictable
	t.sum[l] += w
}

// drain appends the sums divided by total, at most 1, to dst, ascending by label, and zeroes
// them. scale, if not nil, has a factor for each label, which is raised to the power raise.
// From here on scores are float32, so that the tuner, which caches them, uses the same scores
// as a prediction. Sums that underflow a float32 are omitted.
func (t *tally) drain(dst *vector.Sparse, total float64, scale []float64, raise float64) {
	score := func(l int, sum float64) float32 {
		if scale != nil {
			sum *= labels.Power(scale[l], raise)
		}
		return min(1, float32(sum/total))
	}
	if t.all {
		t.all = false
		for l, sum := range t.sum {
			if sum == 0 {
				continue
			}
			if score := score(l, sum); score > 0 {
				dst.Index = append(dst.Index, uint32(l))
				dst.Value = append(dst.Value, score)
			}
		}
		clear(t.sum)
		clear(t.met)
		return
	}
	for w, word := range t.met {
		if word == 0 {
			continue
		}
		t.met[w] = 0
		for ; word != 0; word &= word - 1 {
			l := w*64 + bits.TrailingZeros64(word)
			if score := score(l, t.sum[l]); score > 0 {
				dst.Index = append(dst.Index, uint32(l))
				dst.Value = append(dst.Value, score)
			}
			t.sum[l] = 0
		}
	}
}

// weighted adds x times the values to the scores of the labels. Afterwards drain reads all
// labels.
func (t *tally) weighted(set []uint32, value []float32, x float64) {
	t.all = true
	value = value[:len(set)]
	for e, l := range set {
		// Rounded before it is added, as in batches: the operations are not fused.
		t.sum[l] += float64(x * float64(value[e]))
	}
}

// instanceScores appends the instance-based confidence scores (definition 6,
// Algorithm 3) of the given neighbours, similarity sᵢ each, to dst:
//
//	INSⱼ = Σᵢ sᵢ^α·((1−w)·yᵢⱼ + w·zᵢⱼ) / Σᵢ sᵢ^α
//
// where w is the weight of the second order and zᵢⱼ is the score that definition 6 gives
// training row i itself from its own neighbours, without i: the labels that often occur
// together with those of i. With w = 0 it is definition 6. O(Σ labels of the neighbours), times
// the graph's degree if w > 0.
func instanceScores(t *tally, v *View, neighbors []near, alpha, w float64, dst *vector.Sparse) {
	sets := v.Labels
	total := 0.0
	t.weights = t.weights[:0]
	for _, n := range neighbors {
		weight := labels.Power(float64(n.sim), alpha)
		t.weights = append(t.weights, weight)
		total += weight
	}
	if !(total > 0) {
		return
	}
	for i, n := range neighbors {
		weight := t.weights[i]
		if !(weight > 0) || int(n.row) >= sets.Rows() {
			continue
		}
		if w < 1 {
			t.add(sets.Row(int(n.row)), (1-w)*weight)
		}
		if w > 0 {
			second, sum := secondOrder(v.Graph, n.row, alpha)
			for i, row := range second.Index {
				if share := w * weight * labels.Power(float64(second.Value[i]), alpha) / sum; share > 0 {
					t.add(sets.Row(int(row)), share)
				}
			}
		}
	}
	t.drain(dst, total, nil, 1)
}

// secondOrder returns the neighbours of a training row and the sum of their similarities to the
// power alpha; none if that sum is zero.
func secondOrder(graph *vector.CSR, row uint32, alpha float64) (vector.Sparse, float64) {
	if int(row) >= graph.Rows() {
		return vector.Sparse{}, 0
	}
	second := graph.Row(int(row))
	sum := 0.0
	for _, s := range second.Value {
		sum += labels.Power(float64(s), alpha)
	}
	if !(sum > 0) {
		return vector.Sparse{}, 0
	}
	return second, sum
}

// featureScores appends the feature-based confidence scores (definition 8, Algorithm 5) of a
// query to dst: FLⱼ = Σᵢ xᵢ·Sᵢⱼ^β / Σᵢ xᵢ, over the values above zero of features that any
// training row has: as in the training rows, values below zero are ignored. The length of a
// feature's column is part of its weight, that of a label's column is applied to the sum.
// Frequent features are added first. O(Σ labels of the features).
func featureScores(t *tally, m *labels.Powers, beta float64, q vector.Sparse, dst *vector.Sparse) {
	raise := beta / m.Beta
	total, entries, rare := divisor(m, q), 0, 0
	for _, f := range q.Index {
		entries += m.Pairs(int(f))
		if !frequent(m, f) {
			rare++
		}
	}
	if !(total > 0) {
		return
	}
	// Where most labels get a score, recording each costs more than reading all of them.
	a := adder{tally: t, raise: raise, dense: raise == 1 && entries > len(t.sum)/4}
	for _, first := range [...]bool{true, false} {
		if !first && rare == 0 {
			break
		}
		for i, f := range q.Index {
			if x := float64(q.Value[i]); x > 0 && frequent(m, f) == first {
				a.feature(m, f, weightOf(m, f, x, raise))
			}
		}
	}
	t.drain(dst, total, m.Label, raise)
}

// divisor returns Σᵢ xᵢ of definition 8.
func divisor(m *labels.Powers, q vector.Sparse) (total float64) {
	for i, f := range q.Index {
		if x := float64(q.Value[i]); x > 0 && m.Seen(int(f)) {
			total += x
		}
	}
	return total
}

// weightOf returns the weight of a query's value x of feature f, which includes the length of
// the feature's column.
func weightOf(m *labels.Powers, f uint32, x, raise float64) float64 {
	switch {
	case m.Feature == nil || int(f) >= len(m.Feature):
		return x
	case raise == 1:
		return x * m.Feature[f]
	}
	return x * labels.Power(m.Feature[f], raise)
}

// adder adds the shares of features to the scores of labels.
type adder struct {
	*tally
	raise float64
	dense bool
}

// feature adds x times the entries of a feature. Changed entries replace the original ones: the
// sums of their labels are restored before the changed entries are added.
func (a *adder) feature(m *labels.Powers, f uint32, x float64) {
	row, patch := m.Row(int(f))
	a.before = a.before[:0]
	for _, l := range patch.Index {
		a.before = append(a.before, a.sum[l])
	}
	a.add(row.Index, row.Value, x)
	for e, l := range patch.Index {
		a.sum[l] = a.before[e]
	}
	a.add(patch.Index, patch.Value, x)
}

// add adds x times the values, raised to the power, to the scores of the labels.
func (a *adder) add(set []uint32, value []float32, x float64) {
	switch {
	case len(set) == 0:
	case a.dense:
		a.weighted(set, value, x)
	case a.raise != 1:
		for e, l := range set {
			if w := x * labels.Power(float64(value[e]), a.raise); w > 0 {
				a.one(l, w)
			}
		}
	default:
		for e, l := range set {
			if w := float64(x * float64(value[e])); w > 0 {
				a.one(l, w)
			}
		}
	}
}

// blend returns the combined score (definition 9).
func blend(lambda float64, instance, feature float32) float32 {
	return float32(lambda*float64(instance) + (1-lambda)*float64(feature))
}

// combine appends the combined scores of the candidate labels, those with either score, to dst,
// ascending by label. O(labels of both).
func combine(lambda float64, instance, feature vector.Sparse, dst *vector.Sparse) {
	i, j := 0, 0
	for i < len(instance.Index) || j < len(feature.Index) {
		var l uint32
		var a, b float32
		switch {
		case j == len(feature.Index) || i < len(instance.Index) && instance.Index[i] < feature.Index[j]:
			l, a = instance.Index[i], instance.Value[i]
			i++
		case i == len(instance.Index) || feature.Index[j] < instance.Index[i]:
			l, b = feature.Index[j], feature.Value[j]
			j++
		default:
			l, a, b = instance.Index[i], instance.Value[i], feature.Value[j]
			i++
			j++
		}
		if score := blend(lambda, a, b); score > 0 {
			dst.Index = append(dst.Index, l)
			dst.Value = append(dst.Value, score)
		}
	}
}

// normalise sets unit to the features of q that a view knows and keeps, divided by the length
// of q. Without a selection of features the length is that of
// the complete q: a feature that no row has makes a query less similar to all rows. With a
// selection, the length is that of the kept features, as it is for the rows.
func normalise(unit *vector.Sparse, q vector.Sparse, features int, keep []uint64) {
	unit.Index, unit.Value = unit.Index[:0], unit.Value[:0]
	var sum float64
	for i, f := range q.Index {
		x := q.Value[i]
		switch {
		case x == 0:
		case int(f) < features && (keep == nil || keep[f/64]>>(f%64)&1 == 1):
			unit.Index = append(unit.Index, f)
			unit.Value = append(unit.Value, x)
			sum += float64(x) * float64(x)
		case int(f) >= features && keep == nil:
			sum += float64(x) * float64(x)
		}
	}
	norm := math.Sqrt(sum)
	if !(norm > 0) || math.IsInf(norm, 1) {
		unit.Index, unit.Value = unit.Index[:0], unit.Value[:0]
	}
	for i, x := range unit.Value {
		unit.Value[i] = float32(float64(x) / norm)
	}
}

func sortByRow(hits []postings.Hit) {
	slices.SortFunc(hits, func(a, b postings.Hit) int { return cmp.Compare(a.Row, b.Row) })
}
