package labelled

import (
	"errors"

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

// Calibrate computes the calibration of a model from the scores of live rows. score learns a model from some
// rows and returns the scores of others. The calibration is nil if there are too few rows, or if a model of
// most of them cannot be learned. Errors: those of score.
func (d *Rows) Calibrate(timer *kind.Timer, seed uint64, o labels.CalibrateOptions,
	score func(train, test []int) (*vector.CSR, error)) (c *labels.Calibration, err error) {
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
			s, err := score(f.Train, test)
			if err != nil {
				return err
			}
			for r, row := range test {
				x := s.Row(r)
				if d.Rows.Row(row).Len() == 0 {
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
