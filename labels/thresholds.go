package labels

import (
	"fmt"
	"math"

	"github.com/anndb/anndb/vector"
)

// Thresholds turn confidence scores into label sets. A label is predicted if its score is above
// zero and at least its threshold (definitions 10 and 11), or if it is the row's best label and
// KeepTop is set. All thresholds are finite.
type Thresholds struct {
	// Single is the threshold of all labels if PerLabel is nil.
	Single float64 `flag:"threshold"`
	// PerLabel holds a threshold for each label.
	PerLabel []float64
	// KeepTop predicts a row's best label (see Order; ties: the smaller) even if its score is below
	// the threshold, since almost every row of most data sets has a label.
	KeepTop bool
}

// Append appends the labels predicted from a row of scores, ascending, to dst. The row's labels
// must be below len(PerLabel), if that is set. O(scores).
func (t *Thresholds) Append(dst []uint32, scores vector.Sparse) []uint32 {
	order := t.Order(nil)
	return t.AppendBy(dst, scores, &order)
}

// Of returns the threshold of a label.
func (t *Thresholds) Of(label uint32) float64 {
	if t.PerLabel != nil {
		return t.PerLabel[label]
	}
	return t.Single
}

// Order returns the order of labels under the thresholds, which may be nil.
func (t *Thresholds) Order(before Before) Order {
	o := Order{Before: before}
	if t != nil {
		o.PerLabel = t.PerLabel
	}
	return o
}

// AppendBy is Append with the best label by an order.
func (t *Thresholds) AppendBy(dst []uint32, scores vector.Sparse, order *Order) []uint32 {
	top := -1
	if t.KeepTop {
		top = topOf(scores, order)
	}
	for i, l := range scores.Index {
		if v := scores.Value[i]; v > 0 && (float64(v) >= t.Of(l) || i == top) {
			dst = append(dst, l)
		}
	}
	return dst
}

// Predict returns the matrix of the labels predicted from each row of scores; the number of
// labels is scores.Cols. O(scores).
//
// Errors: ErrInput for scores that are negative or not finite; ErrShape for fewer thresholds
// than labels.
func (t *Thresholds) Predict(scores *vector.CSR) (*Matrix, error) {
	if err := checkScores(scores, scores.Rows(), scores.Cols); err != nil {
		return nil, err
	}
	if t.PerLabel != nil && len(t.PerLabel) < scores.Cols {
		return nil, fmt.Errorf("%w: %d thresholds for %d labels", ErrShape, len(t.PerLabel), scores.Cols)
	}
	m := vector.CSR{Ptr: make([]uint64, 1, len(scores.Ptr)), Cols: scores.Cols}
	for i := range scores.Rows() {
		m.Index = t.Append(m.Index, scores.Row(i))
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	}
	return &Matrix{rows: m, cols: m.Transpose()}, nil
}

// topOf returns the place of the best score above zero; -1 if there is none.
func topOf(scores vector.Sparse, order *Order) int {
	top := -1
	var best Ranked
	for i, l := range scores.Index {
		r := Ranked{l, scores.Value[i]}
		if r.Score > 0 && (top < 0 || order.Compare(r, best) < 0) {
			top, best = i, r
		}
	}
	return top
}

// SingleThreshold returns the threshold at which the mean number of predicted labels per row is
// nearest to cardinality, the mean number of labels per row in the training part (below
// definition 10). scores holds the labels' confidence scores for each of N rows. The rows must
// be held out: a row must not be among its own neighbours. Of two equally near numbers the
// smaller is chosen, and of the thresholds that give it the middle one.
//
// The paper tries 21 values; here the scores themselves give the exact optimum. O(c) for c
// scores.
//
// Errors: ErrInput for a cardinality or scores that are negative or not finite, or if no score
// is above zero, so that no threshold can be chosen.
func SingleThreshold(scores *vector.CSR, cardinality float64, keepTop bool) (*Thresholds, error) {
	if err := checkScores(scores, scores.Rows(), scores.Cols); err != nil {
		return nil, err
	}
	if !(cardinality >= 0) || math.IsInf(cardinality, 1) {
		return nil, fmt.Errorf("%w: label cardinality %v", ErrInput, cardinality)
	}
	t := &Thresholds{KeepTop: keepTop}
	// Only scores that the threshold decides on take part; the top labels, if kept, are
	// predicted in any case.
	var open []float32
	kept := 0
	least := float32(math.Inf(1))
	for i := range scores.Rows() {
		row := scores.Row(i)
		top := -1
		if keepTop {
			if top = topOf(row, new(Order)); top >= 0 {
				kept++
				least = min(least, row.Value[top])
			}
		}
		for j, v := range row.Value {
			if v > 0 && j != top {
				open = append(open, v)
			}
		}
	}
	switch {
	case len(open) > 0:
		t.Single = cut(open, cardinality*float64(scores.Rows())-float64(kept))
	case kept > 0:
		// Every row has one score, so the data do not show how large a second label's score
		// must be. The threshold is the smallest of the best scores.
		t.Single = float64(least)
	default:
		return nil, fmt.Errorf("%w: no score is above zero", ErrInput)
	}
	return t, nil
}

// SteppedThreshold is SingleThreshold as the paper computes it (section 5.1): the best of the
// thresholds 0, 0.1, …, 1, then the best of those in steps of 0.01 from 0.05 below it to 0.05
// above it. Of two equally good ones the larger is chosen. O(c). Errors: those of
// SingleThreshold.
func SteppedThreshold(scores *vector.CSR, cardinality float64, keepTop bool) (*Thresholds, error) {
	t, err := SingleThreshold(scores, cardinality, keepTop)
	if err != nil {
		return nil, err
	}
	// Counts of the scores by the number of steps that they reach, and of the rows' best
	// scores, which are predicted in any case.
	var reached [102]int
	kept := 0
	for i := range scores.Rows() {
		row := scores.Row(i)
		top := -1
		if keepTop {
			if top = topOf(row, new(Order)); top >= 0 {
				kept++
			}
		}
		for j, v := range row.Value {
			if v > 0 && j != top {
				reached[stepsOf(float64(v))]++
			}
		}
	}
	for s := len(reached) - 2; s >= 0; s-- {
		reached[s] += reached[s+1]
	}
	want := cardinality * float64(scores.Rows())
	nearest := func(from, to, by int) int {
		best := to
		for s := to; s >= from; s -= by {
			if math.Abs(float64(kept+reached[s])-want) < math.Abs(float64(kept+reached[best])-want) {
				best = s
			}
		}
		return best
	}
	first := nearest(0, 100, 10)
	t.Single = float64(nearest(max(0, first-5), min(100, first+5), 1)) / 100
	return t, nil
}

// stepsOf returns the largest number of hundredths, at most 100, that a score reaches.
func stepsOf(v float64) int {
	s := min(100, int(v*100))
	for s < 100 && v >= float64(s+1)/100 {
		s++
	}
	for s > 0 && v < float64(s)/100 {
		s--
	}
	return s
}

// LabelThresholds gives each label its own threshold (definition 11): the one at which the
// share of the N rows that it is predicted for is nearest to its prior, its share of the rows
// of the training part (proportional cut). That lowers the threshold of labels whose scores are
// all low, which is so for rare labels. Ties and the value between two scores are chosen as in
// [SingleThreshold], whose threshold a label without scores gets. The rule for top labels is
// applied afterwards and not taken into account here. O(c).
//
// Errors: as SingleThreshold; ErrShape if the training part has fewer labels.
func LabelThresholds(scores *vector.CSR, train *Matrix, keepTop bool) (*Thresholds, error) {
	if scores.Cols > train.Labels() {
		return nil, fmt.Errorf("%w: scores of %d labels, %d in training", ErrShape, scores.Cols,
			train.Labels())
	}
	t, err := SingleThreshold(scores, train.Cardinality(), keepTop)
	if err != nil {
		return nil, err
	}
	t.PerLabel = make([]float64, train.Labels())
	columns := scores.Transpose()
	var list []float32
	for j := range t.PerLabel {
		list = list[:0]
		if j < scores.Cols {
			for _, v := range columns.Row(j).Value {
				if v > 0 {
					list = append(list, v)
				}
			}
		}
		if len(list) == 0 {
			t.PerLabel[j] = t.Single
			continue
		}
		t.PerLabel[j] = cut(list, train.Density(j)*float64(scores.Rows()))
	}
	return t, nil
}

// ByName moves the values of labels, by the names that they had, to the numbers of names; labels that had
// none get another value.
func ByName[T any](values []T, had, names []string, other T) (out []T) {
	of := make(map[string]T, len(had))
	for i, name := range had[:min(len(had), len(values))] {
		of[name] = values[i]
	}
	for _, name := range names {
		x, ok := of[name]
		if !ok {
			x = other
		}
		out = append(out, x)
	}
	return out
}
