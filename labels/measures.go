package labels

import (
	"fmt"
)

// PRF is precision, recall and their harmonic mean (definition 15).
type PRF struct {
	Precision, Recall, F1 float64
}

// SetMeasures are the measures of predicted label sets whose quotients may be 0/0.
type SetMeasures struct {
	Accuracy float64 // example-based: mean |y ∩ ŷ| / |y ∪ ŷ| (definition 14)
	F1       float64 // example-based: mean 2|y ∩ ŷ| / (|y| + |ŷ|)
	Micro    PRF     // from the sums over all labels (definition 16)
	Macro    PRF     // mean of the labels' own values (definition 16)
}

// Report is the result of [Evaluate]. All measures are in 0…1; only for HammingLoss smaller is
// better.
type Report struct {
	Rows, Labels int
	// HammingLoss is the share of the N·L decisions that are wrong (definition 14).
	HammingLoss float64
	// Cardinality and Predicted are the mean numbers of true and of predicted labels per row.
	Cardinality, Predicted float64
	// Mulan counts a label that neither occurs nor is predicted, and a row with two empty sets,
	// as perfect: 1. The Mulan library does so, and therefore also the published figures of
	// LCIF.
	Mulan SetMeasures
	// Zero counts them as 0 and is otherwise the same. Where many labels are absent from the
	// test part the two differ widely.
	Zero SetMeasures
	// AbsentLabels is the number of labels that neither occur nor are predicted, EmptyRows the
	// number of rows with two empty sets.
	AbsentLabels, EmptyRows int
}

// Evaluate compares predicted label sets with the true ones. It reports both conventions for
// 0/0: see [Report]. The precision of a label that occurs but is never predicted is 0 in both,
// and so is the recall of a label that is predicted but never occurs. O(N + L + entries).
//
// Errors: ErrShape.
func Evaluate(truth, predicted *Matrix) (*Report, error) {
	n, l := truth.Rows(), truth.Labels()
	if predicted.Rows() != n || predicted.Labels() != l {
		return nil, fmt.Errorf("%w: %d×%d labels, %d×%d predicted", ErrShape, n, l,
			predicted.Rows(), predicted.Labels())
	}
	r := &Report{Rows: n, Labels: l, Cardinality: truth.Cardinality(), Predicted: predicted.Cardinality()}
	var all counts
	var accuracy, f1 float64
	for i := range n {
		c := count(truth.Row(i), predicted.Row(i))
		all.tp += c.tp
		all.fp += c.fp
		all.fn += c.fn
		if c.empty() {
			r.EmptyRows++
			continue
		}
		accuracy += float64(c.tp) / float64(c.tp+c.fp+c.fn)
		f1 += c.prf().F1
	}
	var macro PRF
	for j := range l {
		c := count(truth.Column(j), predicted.Column(j))
		if c.empty() {
			r.AbsentLabels++
			continue
		}
		p := c.prf()
		macro.Precision += p.Precision
		macro.Recall += p.Recall
		macro.F1 += p.F1
	}
	if n > 0 && l > 0 {
		r.HammingLoss = float64(all.fp+all.fn) / (float64(n) * float64(l))
	}
	finish := func(perfect float64) SetMeasures {
		m := SetMeasures{Micro: all.prf()}
		if all.empty() {
			m.Micro = PRF{perfect, perfect, perfect}
		}
		if n > 0 {
			lift := perfect * float64(r.EmptyRows)
			m.Accuracy, m.F1 = (accuracy+lift)/float64(n), (f1+lift)/float64(n)
		}
		if l > 0 {
			lift := perfect * float64(r.AbsentLabels)
			m.Macro = PRF{
				(macro.Precision + lift) / float64(l),
				(macro.Recall + lift) / float64(l),
				(macro.F1 + lift) / float64(l),
			}
		}
		return m
	}
	r.Mulan, r.Zero = finish(1), finish(0)
	return r, nil
}

// counts are true positives, false positives and false negatives.
type counts struct{ tp, fp, fn int }

// count compares two ascending lists.
func count(truth, predicted []uint32) counts {
	tp := 0
	for i, j := 0, 0; i < len(truth) && j < len(predicted); {
		switch {
		case truth[i] < predicted[j]:
			i++
		case truth[i] > predicted[j]:
			j++
		default:
			tp++
			i++
			j++
		}
	}
	return counts{tp, len(predicted) - tp, len(truth) - tp}
}

func (c counts) empty() bool { return c.tp+c.fp+c.fn == 0 }

// prf returns the measures with 0/0 = 0.
func (c counts) prf() PRF {
	if c.tp == 0 {
		return PRF{}
	}
	tp := float64(c.tp)
	return PRF{tp / float64(c.tp+c.fp), tp / float64(c.tp+c.fn), 2 * tp / float64(2*c.tp+c.fp+c.fn)}
}
