package lcif

import (
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// featureScores appends the feature-based confidence scores (definition 8, Algorithm 5) of a
// query to dst: FLⱼ = Σᵢ xᵢ·Sᵢⱼ^β / Σᵢ xᵢ, over the values above zero of features that any
// training row has: as in the training rows, values below zero are ignored. The length of a
// feature's column is part of its weight, that of a label's column is applied to the sum.
// Every sum has the order of the features. O(Σ labels of the features).
func (t *tally) featureScores(m *labels.Powers, beta float64, q vector.Sparse, dst *vector.Sparse) {
	total := divisor(m, q)
	if !(total > 0) {
		return
	}
	// Where most labels get a score, recording each costs more than reading all of them.
	t.all = t.most(m, q)
	raise := beta / m.Beta
	for i, f := range q.Index {
		if x := float64(q.Value[i]); x > 0 && m.Seen(int(f)) {
			t.feature(m, f, x*labels.Power(m.Feature[f], raise), raise)
		}
	}
	t.addAll()
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

// most reports whether the features of a query have values for all labels, or so many that most
// labels get a score.
func (t *tally) most(m *labels.Powers, q vector.Sparse) bool {
	entries := 0
	for i := range m.Parts {
		for _, f := range q.Index {
			set, _, all := m.Parts[i].Row(int(f))
			if entries += len(set); all || 4*entries > len(t.sum) {
				return true
			}
		}
	}
	return false
}

// feature adds x times the values of a feature, raised to a power, to the sums. Values for all
// labels are added by addAll, many features at once.
func (t *tally) feature(m *labels.Powers, f uint32, x, raise float64) {
	first, later := &m.Parts[0], m.Parts[1:]
	for i := range later {
		// A later part that has values of all labels has all pairs of the feature. The values of the
		// first few labels alone look like these.
		if set, _, all := later[i].Row(int(f)); all && 2*len(set) >= len(m.Label) {
			first, later = &later[i], later[i+1:]
			break
		}
	}
	set, value, all := first.Row(int(f))
	t.before = t.before[:0]
	for i := range later {
		if changed, _, _ := later[i].Row(int(f)); len(changed) > 0 {
			t.addAll()
			for _, l := range changed {
				t.before = append(t.before, t.sum[l])
			}
		}
	}
	if all && raise == 1 && len(t.before) == 0 {
		if len(value) != t.stride || first != t.from {
			t.addAll()
		}
		t.stride, t.from = len(value), first
		t.at, t.x = append(t.at, int(first.Start[f])), append(t.x, x)
		return
	}
	t.addAll()
	t.pairs(set, value, all, x, raise)
	// Entries of later parts replace earlier ones.
	before := t.before
	for i := range later {
		set, value, all := later[i].Row(int(f))
		for e, l := range set {
			t.sum[l] = before[e]
		}
		before = before[len(set):]
		t.pairs(set, value, all, x, raise)
	}
}

// addAll adds the values for all labels of the features that wait for it.
func (t *tally) addAll() {
	if len(t.at) > 0 {
		vector.AddRows(t.sum[:t.stride], t.from.Value, t.at, t.x)
		t.at, t.x = t.at[:0], t.x[:0]
	}
}

// pairs adds x times the values of labels, raised to a power, to the sums.
func (t *tally) pairs(set []uint32, value []float32, all bool, x, raise float64) {
	if raise == 1 && t.all && !all {
		value = value[:len(set)]
		for e, l := range set {
			// Rounded before it is added, as AddRows does.
			t.sum[l] += float64(x * float64(value[e]))
		}
		return
	}
	for e, l := range set {
		if all {
			e = int(l)
		}
		if w := float64(x * labels.Power(float64(value[e]), raise)); w > 0 {
			t.one(l, w)
		}
	}
}
