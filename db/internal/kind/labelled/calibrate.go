package labelled

import (
	"errors"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Models of up to fewRows rows are calibrated by the rows of ten folds, each by a model of the others, since
// models of few rows gain from each one; those of up to someRows by three, and larger ones by a tenth of the
// rows, at most MostHeldOut of them.
const fewRows, someRows = 5_000, 20_000

// MostHeldOut is the largest number of rows that are scored for a calibration alone, except in small sets.
const MostHeldOut = 5_000

// ErrUntrainable is returned by the function of Calibrate if no model can be learned from the rows.
var ErrUntrainable = errors.New("labelled: no model of these rows")

// Calibrate computes the calibration of a model from the scores of live rows, as the model sees them. score
// learns a model from some rows and returns the scores of others, which lack the features, from number first
// on, that no row of the model has: such words of a query are left out, too. The calibration is nil if there
// are too few rows, or if a model of most of them cannot be learned. Errors: those of score.
func (d *Rows) Calibrate(timer *kind.Timer, seed uint64, o labels.CalibrateOptions, first int,
	score func(train []int, test []vector.Sparse) (*vector.CSR, error)) (c *labels.Calibration, err error) {
	if d.Labelled() < labels.LeastCalibrationRows {
		return nil, nil
	}
	n, parts := 10, 10
	switch rows := len(d.Live); {
	case rows > someRows:
		parts = 1
	case rows > fewRows:
		n, parts = 3, 3
	}
	folds, err := labels.KFoldOf(d.Live, n, seed)
	if err != nil {
		return nil, err
	}
	err = timer.Run("calibrate", func(report func(int, int)) error {
		scores, tested := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}, []int(nil)
		for i, f := range folds[:parts] {
			report(i, parts)
			test := f.Sample(MostHeldOut)
			rows := d.asNew(f.Train, test, first)
			s, err := score(f.Train, rows)
			if err != nil {
				return err
			}
			for r := range test {
				x := s.Row(r)
				if rows[r].Len() == 0 {
					x = vector.Sparse{} // a prediction knows nothing of such rows
				}
				scores.Append(x)
			}
			tested = append(tested, test...)
		}
		scores.Cols = d.Sets.Labels() // the last labels may have no score
		c, err = labels.Calibrate(d.Sets.Select(tested), scores, labels.LabelRows[int](d.Sets), o)
		return err
	})
	if errors.Is(err, ErrUntrainable) {
		return nil, nil
	}
	return c, err
}

// asNew returns the rows of test without the features, from number first on, that no row of train has; their
// other values from there on are as long as all were.
func (d *Rows) asNew(train, test []int, first int) []vector.Sparse {
	out := make([]vector.Sparse, len(test))
	if first >= d.Rows.Cols {
		for i, row := range test {
			out[i] = d.Rows.Row(row)
		}
		return out
	}
	known := make([]bool, d.Rows.Cols)
	for _, row := range train {
		for _, f := range d.Rows.Row(row).Index {
			known[f] = true
		}
	}
	for i, row := range test {
		x := d.Rows.Row(row)
		at, _ := slices.BinarySearch(x.Index, uint32(first))
		if out[i] = x; !slices.ContainsFunc(x.Index[at:], func(f uint32) bool { return !known[f] }) {
			continue
		}
		left := vector.Sparse{Index: slices.Clone(x.Index[:at]), Value: slices.Clone(x.Value[:at])}
		all, kept := 0., 0.
		for e := at; e < len(x.Index); e++ {
			square := float64(x.Value[e]) * float64(x.Value[e])
			if all += square; known[x.Index[e]] {
				kept += square
				left.Index, left.Value = append(left.Index, x.Index[e]), append(left.Value, x.Value[e])
			}
		}
		for e, value := range left.Value[at:] { // the factor may exceed float32
			left.Value[at+e] = float32(float64(value) * math.Sqrt(all/kept))
		}
		out[i] = left
	}
	return out
}
