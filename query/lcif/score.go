package lcif

import (
	"math"
	"math/bits"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// tally sums scores by label. Between uses it is all zeros, so that the cost of a use is that
// of the labels it touches.
type tally struct {
	sum []float64
	met []uint64 // a bit for each label with a sum
	all bool     // whether any label may have one

	// The features whose values for all labels are still to be added: the part that has them, offsets and
	// weights, and the number of values of each.
	from   *labels.Pairs
	at     []int
	x      []float64
	stride int

	before []float64 // scratch of feature
	sorted []float32 // scratch of keepBest
}

func (t *tally) reset(labels int) {
	if n := (labels + vector.RowCells - 1) / vector.RowCells * vector.RowCells; len(t.sum) < n {
		t.sum = make([]float64, n)
		t.met = make([]uint64, (n+63)/64)
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
	score := func(l int) {
		sum := t.sum[l]
		if scale != nil {
			sum *= labels.Power(scale[l], raise)
		}
		if score := min(1, float32(sum/total)); score > 0 {
			dst.Index = append(dst.Index, uint32(l))
			dst.Value = append(dst.Value, score)
		}
		t.sum[l] = 0
	}
	if t.all {
		t.all = false
		for l, sum := range t.sum {
			if sum != 0 {
				score(l)
			}
		}
		clear(t.met)
		return
	}
	for w, word := range t.met {
		t.met[w] = 0
		for ; word != 0; word &= word - 1 {
			score(w*64 + bits.TrailingZeros64(word))
		}
	}
}

// instanceScores appends the instance-based confidence scores (definition 6,
// Algorithm 3) of the given neighbours, similarity sᵢ each, to dst:
//
//	INSⱼ = Σᵢ sᵢ^α·((1−w)·yᵢⱼ + w·zᵢⱼ) / Σᵢ sᵢ^α
//
// where w is the weight of the second order and zᵢⱼ is the score that definition 6 gives
// training row i itself from its own neighbours, without i: the labels that often occur
// together with those of i. second returns these neighbours of row i; it is not called for
// w = 0, which is definition 6. O(Σ labels of the neighbours).
func (t *tally) instanceScores(sets LabelSets, list []near, p *Params, second func(row uint32) []near,
	dst *vector.Sparse) {
	total := sumOf(list, p.Alpha)
	if !(total > 0) {
		return
	}
	w := p.SecondOrder
	for _, n := range list {
		weight := labels.Power(float64(n.sim), p.Alpha)
		if !(weight > 0) || int(n.row) >= sets.Rows() {
			continue
		}
		if w < 1 {
			t.add(sets.Row(int(n.row)), (1-w)*weight)
		}
		if w == 0 {
			continue
		}
		others := second(n.row)
		sum := sumOf(others, p.Alpha)
		for _, o := range others {
			if share := w * weight * labels.Power(float64(o.sim), p.Alpha) / sum; share > 0 {
				t.add(sets.Row(int(o.row)), share)
			}
		}
	}
	t.drain(dst, total, nil, 1)
}

// sumOf returns the sum of the similarities to the power alpha.
func sumOf(list []near, alpha float64) (total float64) {
	for _, n := range list {
		total += labels.Power(float64(n.sim), alpha)
	}
	return total
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
