package lcif

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Objective selects the measure by which settings are chosen.
type Objective uint8

const (
	// MicroF1 is the F1 of all label decisions together.
	MicroF1 Objective = iota
	// MacroF1 is the mean F1 of the labels, 0/0 counted as 1 as in Mulan.
	MacroF1
	// Accuracy is the example-based accuracy.
	Accuracy
	// HammingLoss is the share of wrong decisions: the only measure for which smaller is
	// better.
	HammingLoss
	// PrecisionAt1, PrecisionAt3 and PrecisionAt5 rank labels.
	PrecisionAt1
	PrecisionAt3
	PrecisionAt5
	// NDCGAt5 is the normalized discounted cumulative gain of the best five. PropensityAt5 is the
	// propensity-scored precision@5 (labels.EvaluatePropensity), for which labels are ordered by probability
	// times inverse propensity.
	NDCGAt5
	PropensityAt5
)

var objectiveNames = [...]string{"micro-f1", "macro-f1", "accuracy", "hamming-loss", "p@1", "p@3",
	"p@5", "ndcg@5", "psp@5"}

// String returns the objective's name.
func (o Objective) String() string {
	if int(o) < len(objectiveNames) {
		return objectiveNames[o]
	}
	return fmt.Sprintf("objective(%d)", uint8(o))
}

// MarshalText writes the objective's name. Errors: ErrParams.
func (o Objective) MarshalText() ([]byte, error) {
	if int(o) >= len(objectiveNames) {
		return nil, fmt.Errorf("%w: %v", query.ErrParams, o)
	}
	return []byte(objectiveNames[o]), nil
}

// UnmarshalText reads an objective's name. Errors: ErrParams.
func (o *Objective) UnmarshalText(name []byte) error {
	i := slices.Index(objectiveNames[:], string(name))
	if i < 0 {
		return fmt.Errorf("%w: unknown objective %q, want one of %v", query.ErrParams, name, objectiveNames)
	}
	*o = Objective(i)
	return nil
}

// Measures are the measures of one setting on held-out rows, over all folds of a
// cross-validation together. Set measures count 0/0 as 1, as Mulan does, except for
// MacroF1Zero. Macro averages are over all labels of the training rows.
type Measures struct {
	Accuracy    float64 `json:"accuracy"`
	MicroF1     float64 `json:"micro_f1"`
	MacroF1     float64 `json:"macro_f1"`
	MacroF1Zero float64 `json:"macro_f1_zero"` // 0/0 counted as 0
	HammingLoss float64 `json:"hamming_loss"`
	// Precision is precision@1, @3 and @5 (definition 17).
	Precision [3]float64 `json:"precision"`
	// NDCG5 is nDCG@5, PSP5 propensity-scored precision@5 of the labels in the order of their scores times
	// inverse propensities, which is measured only where settings are chosen by it.
	NDCG5 float64 `json:"ndcg_5"`
	PSP5  float64 `json:"psp_5,omitempty"`
}

// Of returns the measure of an objective.
func (m *Measures) Of(o Objective) float64 {
	switch o {
	case MicroF1:
		return m.MicroF1
	case MacroF1:
		return m.MacroF1
	case Accuracy:
		return m.Accuracy
	case HammingLoss:
		return m.HammingLoss
	case NDCGAt5:
		return m.NDCG5
	case PropensityAt5:
		return m.PSP5
	}
	return m.Precision[o-PrecisionAt1]
}

// OfSets returns the measure of predicted sets, larger being better: micro F1 for those of rankings.
func (o Objective) OfSets(r *labels.Report) float64 {
	switch o {
	case MacroF1:
		return r.Mulan.Macro.F1
	case Accuracy:
		return r.Mulan.Accuracy
	case HammingLoss:
		return -r.HammingLoss
	}
	return r.Mulan.Micro.F1
}

// OfRanking returns the measure of rankings of labels, for objectives from PrecisionAt1 on, in all of so many
// training rows and in rows of each label. Errors: those of labels.EvaluateRanking.
func (o Objective) OfRanking(truth *labels.Matrix, scores *vector.CSR, rows []int, all int) (float64, error) {
	if o == PropensityAt5 {
		r, err := labels.EvaluatePropensity(truth, scores, []int{5}, labels.InversePropensities(rows, all))
		if err != nil {
			return 0, err
		}
		return r.Precision[0], nil
	}
	r, err := labels.EvaluateRanking(truth, scores, []int{1, 3, 5})
	switch {
	case err != nil:
		return 0, err
	case o == NDCGAt5:
		return r.NDCG[2], nil
	}
	return r.Precision[o-PrecisionAt1], nil
}

// Better reports whether m is better than n by an objective.
func (m *Measures) Better(n *Measures, o Objective) bool {
	if o == HammingLoss {
		return m.HammingLoss < n.HammingLoss
	}
	return m.Of(o) > n.Of(o)
}

// setMeasures sets the measures of predicted sets.
func (m *Measures) setMeasures(r *labels.Report) {
	m.Accuracy, m.MicroF1, m.MacroF1 = r.Mulan.Accuracy, r.Mulan.Micro.F1, r.Mulan.Macro.F1
	m.MacroF1Zero, m.HammingLoss = r.Zero.Macro.F1, r.HammingLoss
}

// Cut selects how thresholds are derived from the scores of held-out rows.
type Cut struct {
	// PerLabel gives each label its own threshold, by its prior (definition
	// 11); otherwise there is one (definition 10).
	PerLabel bool `json:"per_label,omitempty" flag:"cut-per-label" without:"threshold"`
	// Share is the mean number of labels per row that the single threshold aims at, divided by
	// the label cardinality of the training rows: 1 is the paper's. PerLabel does not read it.
	Share float64 `json:"share" flag:"cut-share" without:"cut-per-label threshold" min:"0"`
	// NoTop allows rows without any label; otherwise the best label is kept.
	NoTop bool `json:"no_top,omitempty"`
	// Steps takes the single threshold from the paper's 21 values in two passes
	// (section 5.1) instead of the exact optimum.
	Steps bool `json:"steps,omitempty"`
}

// String describes the cut in a few words.
func (c Cut) String() string {
	s := fmt.Sprintf("threshold for %.3g × the mean number of labels", c.Share)
	if c.PerLabel {
		s = "a threshold for each label"
	}
	if !c.NoTop {
		s += ", always the best"
	}
	return s
}

// check returns an error for a cut that gives no thresholds.
func (c Cut) check() error {
	switch {
	case !c.PerLabel && !(c.Share > 0) || math.IsInf(c.Share, 1):
		return fmt.Errorf("%w: cut at %g times the mean number of labels, want more than 0",
			query.ErrParams, c.Share)
	case c.PerLabel && c.Steps:
		return fmt.Errorf("%w: a cut by label has no steps", query.ErrParams)
	}
	return nil
}

// Setting is a point of the search space. Irrelevant numbers (K and Alpha at Lambda 0,
// Alpha at K 1, Beta at Lambda 1) are zero.
type Setting struct {
	Features    int     `json:"features,omitempty"` // 0: all
	K           int     `json:"k"`
	Alpha       float64 `json:"alpha"`
	Beta        float64 `json:"beta"`
	Lambda      float64 `json:"lambda"`
	SecondOrder float64 `json:"second_order,omitempty"`
	Cut         Cut     `json:"cut"`
}

// Parameters describes the setting on one line, without its cut and without irrelevant
// numbers.
func (s Setting) Parameters() string {
	out := fmt.Sprintf("λ=%.3g", s.Lambda)
	if s.Lambda > 0 {
		out += fmt.Sprintf(" k=%d α=%.3g", s.K, cmp.Or(s.Alpha, 1))
	}
	if s.Lambda < 1 {
		out += fmt.Sprintf(" β=%.3g", cmp.Or(s.Beta, 1))
	}
	if s.SecondOrder > 0 {
		out += fmt.Sprintf(" second-order=%.3g", s.SecondOrder)
	}
	if s.Features > 0 {
		out += fmt.Sprintf(" features=%d", s.Features)
	}
	return out
}

// canonical zeroes irrelevant numbers. With one neighbor, its weight is irrelevant.
func (s Setting) canonical() Setting {
	if s.K == 1 && s.SecondOrder == 0 {
		s.Alpha = 0
	}
	switch s.Lambda {
	case 0:
		s.K, s.Alpha, s.SecondOrder = 0, 0, 0
	case 1:
		s.Beta = 0
	}
	return s
}

// Point is a setting and its measurements.
type Point struct {
	Setting
	Measures
}

// Curve is the result of a tuner.
type Curve struct {
	Rows   int `json:"rows"`   // number of held-out rows
	Labels int `json:"labels"` // L
	// Points are all measured settings, in the order in which they were first tried.
	Points []Point `json:"points"`
	Best   Point   `json:"best"`   // by the objective
	Params Params  `json:"params"` // predict with the best setting, including its thresholds
	// Calibration is that of Params by the held-out rows, nil unless TuneOptions.Calibrate is set.
	Calibration *labels.Calibration `json:"-"`
}

// Validate returns an error for a curve that no tuner returns: for settings with which no model
// predicts, and for measures outside 0 to 1. Errors: query.ErrParams.
func (c *Curve) Validate() error {
	if err := c.Params.Validate(0); err != nil {
		return fmt.Errorf("choice: %w", err)
	}
	for i, point := range append(c.Points[:len(c.Points):len(c.Points)], c.Best) {
		s, m := &point.Setting, &point.Measures
		p := Params{K: s.K, Alpha: s.Alpha, Beta: s.Beta, Lambda: s.Lambda, SecondOrder: s.SecondOrder,
			Features: s.Features}
		if err := p.Validate(0); err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
		for _, x := range [...]float64{m.Accuracy, m.MicroF1, m.MacroF1, m.MacroF1Zero, m.HammingLoss,
			m.Precision[0], m.Precision[1], m.Precision[2], m.NDCG5, m.PSP5} {
			if !(x >= 0 && x <= 1) {
				return fmt.Errorf("%w: point %d has a measure of %g, want 0 to 1", query.ErrParams, i, x)
			}
		}
	}
	if min(c.Rows, c.Labels) < 0 {
		return fmt.Errorf("%w: %d rows and %d labels, want at least 0", query.ErrParams, c.Rows, c.Labels)
	}
	return nil
}
