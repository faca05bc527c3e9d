package lcif

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// TestCalibrate: the calibration of a tuner is that of the parameters that it chose, and that of the strengths of
// predictions one by one.
func TestCalibrate(t *testing.T) {
	x, y := topicSet(t, 300, 5)
	queries, truth := topicSet(t, 120, 6)
	data := heldOut(x, y, queries, truth, 1)
	for name, cuts := range map[string][]Cut{"single": {{Share: 1}}, "by label": {{PerLabel: true}}} {
		o := &labels.CalibrateOptions{Measure: Accuracy.OfSets}
		curve, err := Tune(t.Context(), data, TuneOptions{Ks: []int{5, 10}, Cuts: cuts, Calibrate: o})
		must(t, err)
		same, err := Calibrate(t.Context(), data, &curve.Params, o, 2, func(string, int, int) {})
		must(t, err)
		held, err := data(context.Background(), 0)
		must(t, err)
		view := held.Parts[0].View
		counts, err := held.Parts[0].Counts(t.Context())
		must(t, err)
		must(t, view.SetPower(counts, max(curve.Params.Beta, 1e-9)))
		p, scores := NewPredictor(), &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		for i := range queries.Rows() {
			_, _, err := p.Predict(t.Context(), view, queries.Row(i), &curve.Params, nil)
			must(t, err)
			s := p.Scores()
			row := vector.Sparse{Index: slices.Clone(s.Index)}
			for e, l := range s.Index {
				strength := s.Value[e]
				if th := curve.Params.Thresholds.PerLabel; th != nil {
					strength = float32(float64(strength) / th[l])
				}
				row.Value = append(row.Value, strength)
			}
			scores.Append(row)
		}
		scores.Cols = y.Labels()
		var rows []int
		for l := range y.Labels() {
			rows = append(rows, len(y.Column(l)))
		}
		want, err := labels.Calibrate(truth, scores, rows, *o)
		must(t, err)
		if want == nil || !reflect.DeepEqual(same, want) || !reflect.DeepEqual(curve.Calibration, want) {
			t.Errorf("%s: %+v, tuned %+v, want %+v", name, same, curve.Calibration, want)
		}
	}
}

// TestOfSets: the objective of sets is larger for better ones.
func TestOfSets(t *testing.T) {
	r := &labels.Report{HammingLoss: 0.1}
	r.Mulan.Micro.F1, r.Mulan.Macro.F1, r.Mulan.Accuracy = 0.2, 0.3, 0.4
	for o, want := range map[Objective]float64{MicroF1: 0.2, MacroF1: 0.3, Accuracy: 0.4, HammingLoss: -0.1, PrecisionAt3: 0.2} {
		if got := o.OfSets(r); got != want {
			t.Errorf("%v: %g, want %g", o, got, want)
		}
	}
}
