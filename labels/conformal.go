package labels

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// RecallCuts are thresholds of probabilities by the recall that they promise: element i is the threshold for
// (i+1) hundredths, the sets of which have the expected share of a row's labels that are found of at least
// that, if rows are exchangeable with those that the thresholds were computed from. Recalls after the last
// element cannot be promised: models give some labels no score.
type RecallCuts []float32

// ErrRecall is returned for a recall of labels that cannot be promised.
var ErrRecall = errors.New("labels: no promise of this recall")

// FitRecallCuts returns the largest thresholds that obey conformal risk control (Angelopoulos and others
// 2022, arXiv 2208.02814, theorem 1): with the mean share L of the labels of n rows that are below the
// threshold, n/(n+1)·L + 1/(n+1) ≤ 1 - recall. Rows without labels lose nothing and are left out.
// O(entries log entries).
//
// Errors: ErrShape; ErrInput for negative probabilities.
func FitRecallCuts(truth *Matrix, prob *vector.CSR) (RecallCuts, error) {
	if err := checkScores(prob, truth.Rows(), truth.Labels()); err != nil {
		return nil, err
	}
	type found struct {
		p     float32
		share float64 // of the labels of its row
	}
	var all []found
	n, missing := 0., 0.
	for i := range truth.Rows() {
		set, row := truth.Row(i), prob.Row(i)
		if len(set) == 0 {
			continue
		}
		n++
		share := 1 / float64(len(set))
		for _, l := range set {
			if at, ok := slices.BinarySearch(row.Index, l); ok && row.Value[at] > 0 {
				all = append(all, found{row.Value[at], share})
			} else {
				missing += share
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(b.p, a.p) })
	var cuts RecallCuts
	kept := 0.
	for i, f := range all {
		kept += f.share
		if i+1 < len(all) && all[i+1].p == f.p {
			continue
		}
		for len(cuts) < 99 && n-kept+1 <= (1-float64(len(cuts)+1)/100)*(n+1)+roundOff {
			cuts = append(cuts, f.p)
		}
	}
	return cuts, nil
}

// roundOff is more than what sums of shares are rounded by.
const roundOff = 1e-9

// At returns the threshold for a recall above 0, rounded up to hundredths. Errors: ErrRecall.
func (c RecallCuts) At(recall float64) (float32, error) {
	i := int(math.Ceil(recall*100-roundOff)) - 1
	if i < 0 || i >= len(c) {
		return 0, fmt.Errorf("%w: %g (at most %g here)", ErrRecall, recall, float64(len(c))/100)
	}
	return c[i], nil
}

// Validate checks that the thresholds are some. Errors: ErrInput.
func (c RecallCuts) Validate() error {
	if len(c) > 99 {
		return fmt.Errorf("%w: thresholds for %d recalls", ErrInput, len(c))
	}
	for i, t := range c {
		if !(t > 0 && t <= 1) || i > 0 && t > c[i-1] {
			return fmt.Errorf("%w: a threshold of %g for the recall %g", ErrInput, t, float64(i+1)/100)
		}
	}
	return nil
}
