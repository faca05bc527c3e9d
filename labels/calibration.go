package labels

import (
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Buckets is the number of groups of labels by their frequency, see Bucket.
const Buckets = 4

// Bucket returns the group of a label that so many training rows have: under 10, under 50, under 200, or
// more. A model is too sure of rare labels or not sure enough, but in each group about equally.
func Bucket(rows int) int {
	switch {
	case rows < 10:
		return 0
	case rows < 50:
		return 1
	case rows < 200:
		return 2
	}
	return 3
}

// Calibration turns the scores of a label model into probabilities, by what held-out rows had.
type Calibration struct {
	// Curves map scores to probabilities, one for each group of labels (Bucket). Best maps the probability of a
	// row's best label to that of the best label: a label that no other one of the row exceeds is right more
	// often than others of its score, or less.
	Curves [Buckets]Isotonic `json:"curves"`
	Best   Isotonic          `json:"best"`
	// Cut is the least probability of labels that are predicted. LabelCuts, unless nil, are those of single
	// labels, by number; newer labels have Cut. KeepTop predicts a row's best label in any case.
	Cut       float32   `json:"cut"`
	LabelCuts []float32 `json:"label_cuts,omitempty"`
	KeepTop   bool      `json:"keep_top,omitempty"`
	// OwnSets is set if a model selects sets by thresholds of its own, and cuts are not used.
	OwnSets bool       `json:"own_sets,omitempty"`
	Recall  RecallCuts `json:"recall,omitempty"`
	// Propensity, if above zero, is a number of training rows: labels are ordered by probability times inverse
	// propensity (InversePropensities).
	Propensity int `json:"propensity,omitempty"`
	// Rows is the number of held-out rows with labels, Top how often their best label was right.
	Rows int         `json:"rows"`
	Top  Reliability `json:"top"`
}

// CalibrateOptions selects what sets a calibration predicts.
type CalibrateOptions struct {
	// Measure is what the cut is chosen by, larger being better; micro F1 if nil. ByLabel gives each label a
	// cut of its own, for its own F1.
	Measure func(r *Report) float64
	ByLabel bool
	// AllowEmpty allows sets without any label. OwnSets and Propensity are those of the calibration.
	AllowEmpty, OwnSets bool
	Propensity          int
}

// LeastCalibrationRows is the least number of held-out rows with labels that a calibration is made from.
const LeastCalibrationRows = 50

// leastHits is the least number of right labels of a group with a curve of its own. Smaller groups have the
// curve of more frequent labels.
const leastHits = 20

// Calibrate computes a calibration from the scores of rows that the model has not learned from, their labels,
// and the number of training rows of each label. Labels that a row has no score for do not take part. It
// returns nil for fewer than LeastCalibrationRows rows with labels, or if no score is that of a label that a
// row has.
//
// Errors: ErrShape; ErrInput for negative scores.
func Calibrate(truth *Matrix, scores *vector.CSR, rows []int, o CalibrateOptions) (*Calibration, error) {
	if err := checkScores(scores, truth.Rows(), truth.Labels()); err != nil {
		return nil, err
	}
	c := &Calibration{KeepTop: !o.AllowEmpty, OwnSets: o.OwnSets, Propensity: o.Propensity}
	for i := range truth.Rows() {
		if len(truth.Row(i)) > 0 {
			c.Rows++
		}
	}
	if c.Rows < LeastCalibrationRows || !c.fit(truth, scores, rows) {
		return nil, nil
	}
	prob := c.byCurves(scores, rows)
	c.fitBest(truth, prob)
	c.adjustBest(scores, prob)
	if err := c.chooseCuts(truth, prob, o); err != nil {
		return nil, err
	}
	eachBest(truth, prob, c.Top.Add)
	var err error
	c.Recall, err = FitRecallCuts(truth, prob)
	return c, err
}

// fit computes the curves and reports whether any label was right.
func (c *Calibration) fit(truth *Matrix, scores *vector.CSR, rows []int) bool {
	var lists [Buckets][]outcome
	var hits [Buckets]int
	for i := range truth.Rows() {
		x, set := scores.Row(i), truth.Row(i)
		for e, l := range x.Index {
			b, o := Bucket(rows[l]), outcome{score: x.Value[e], n: 1}
			if _, ok := slices.BinarySearch(set, l); ok {
				o.hits = 1
				hits[b]++
			}
			lists[b] = append(lists[b], o)
		}
	}
	if hits == [Buckets]int{} {
		return false
	}
	for b := range lists {
		list, right := lists[b], hits[b]
		for next := b + 1; right < leastHits && next < Buckets; next++ {
			list, right = append(slices.Clip(list), lists[next]...), right+hits[next]
		}
		for before := b - 1; right < leastHits && before >= 0; before-- {
			list, right = append(slices.Clip(list), lists[before]...), right+hits[before]
		}
		c.Curves[b] = fitIsotonic(slices.Clone(list))
	}
	return true
}

// Probability returns the probability of a label with a score that so many training rows have.
func (c *Calibration) Probability(score float32, rows int) float32 {
	return c.Curves[Bucket(rows)].At(score)
}

// eachBest calls f with the probability of the best label of each row that has one, and whether it is right.
func eachBest(truth *Matrix, prob *vector.CSR, f func(p float32, right bool)) {
	var top []Ranked
	for i := range truth.Rows() {
		if top = Rank(top[:0], prob.Row(i), 1); len(top) > 0 {
			_, right := slices.BinarySearch(truth.Row(i), top[0].Label)
			f(top[0].Score, right)
		}
	}
}

// fitBest computes the curve of the best labels from the probabilities of rows.
func (c *Calibration) fitBest(truth *Matrix, prob *vector.CSR) {
	var list []outcome
	eachBest(truth, prob, func(p float32, right bool) {
		o := outcome{score: p, n: 1}
		if right {
			o.hits = 1
		}
		list = append(list, o)
	})
	c.Best = fitIsotonic(list)
}

// BestProbability returns the probability of a row's best label by that of its score, Probability, and the
// largest one of the row's other labels, 0 for none: the best label stays the most probable.
func (c *Calibration) BestProbability(p, second float32) float32 { return max(c.Best.At(p), second) }

// Probabilities returns the probabilities of a matrix of scores; rows is the number of training rows by
// label.
func (c *Calibration) Probabilities(scores *vector.CSR, rows []int) *vector.CSR {
	out := c.byCurves(scores, rows)
	c.adjustBest(scores, out)
	return out
}

// Order returns the number that a label of a probability, which so many training rows have, is ordered by.
func (c *Calibration) Order(p float32, rows int) float32 {
	if c.Propensity == 0 {
		return p
	}
	return p * float32(inversePropensity(rows, c.Propensity))
}

// Orders returns the numbers that labels are ordered by for a matrix of probabilities.
func (c *Calibration) Orders(prob *vector.CSR, rows []int) *vector.CSR {
	out := *prob
	out.Value = make([]float32, len(prob.Value))
	for e, l := range prob.Index {
		out.Value[e] = c.Order(prob.Value[e], rows[l])
	}
	return &out
}

// byCurves returns the probabilities of scores by the curves of the groups.
func (c *Calibration) byCurves(scores *vector.CSR, rows []int) *vector.CSR {
	out := *scores
	out.Value = make([]float32, len(scores.Value))
	for e, l := range scores.Index {
		out.Value[e] = c.Probability(scores.Value[e], rows[l])
	}
	return &out
}

// adjustBest replaces the probability of the best label of each row: that of the largest probability, then of
// the largest score, then the first.
func (c *Calibration) adjustBest(scores, prob *vector.CSR) {
	for i := range prob.Rows() {
		p, score := prob.Row(i).Value, scores.Row(i).Value
		if len(p) == 0 {
			continue
		}
		best := 0
		for e := range p {
			if p[e] > p[best] || p[e] == p[best] && score[e] > score[best] {
				best = e
			}
		}
		second := float32(0)
		for e, x := range p {
			if e != best {
				second = max(second, x)
			}
		}
		p[best] = c.BestProbability(p[best], second)
	}
}

// CutOf returns the least probability with which a label is predicted.
func (c *Calibration) CutOf(label uint32) float32 {
	if int(label) < len(c.LabelCuts) {
		return c.LabelCuts[label]
	}
	return c.Cut
}

// Thresholds returns the thresholds of probabilities.
func (c *Calibration) Thresholds() *Thresholds {
	t := &Thresholds{KeepTop: c.KeepTop, Single: float64(c.Cut)}
	for _, cut := range c.LabelCuts {
		t.PerLabel = append(t.PerLabel, float64(cut))
	}
	return t
}

// cutSteps is the number of steps from 0 to 1 of the cuts that are tried.
const cutSteps = 50

// selectable returns the probabilities that any cut selects, and those of the best labels of rows.
func selectable(prob *vector.CSR) *vector.CSR {
	best := make([]float32, prob.Rows())
	for i := range best {
		for _, p := range prob.Row(i).Value {
			best[i] = max(best[i], p)
		}
	}
	return prob.Kept(func(row int, p float32) bool { return p == best[row] || p >= 1./cutSteps })
}

// chooseCuts chooses the cut that is best on the held-out rows, the middle one of several in a row, and how
// high the cuts by label are.
func (c *Calibration) chooseCuts(truth *Matrix, prob *vector.CSR, o CalibrateOptions) error {
	open := selectable(prob)
	value := func(t *Thresholds) (float64, error) {
		predicted, err := t.Predict(open)
		if err != nil {
			return 0, err
		}
		r, err := Evaluate(truth, predicted)
		switch {
		case err != nil:
			return 0, err
		case o.Measure == nil:
			return r.Mulan.Micro.F1, nil
		}
		return o.Measure(r), nil
	}
	best, first, last := -1., 0, 0
	for step := 1; step < cutSteps; step++ {
		m, err := value(&Thresholds{KeepTop: c.KeepTop, Single: float64(step) / cutSteps})
		switch {
		case err != nil:
			return err
		case m > best:
			best, first, last = m, step, step
		case m == best && step == last+1:
			last = step
		}
	}
	c.Cut = float32(first+last) / (2 * cutSteps)
	if !o.ByLabel {
		return nil
	}
	byLabel := c.cutsByLabel(prob, truth.Labels())
	c.LabelCuts = byLabel
	least, err := value(c.Thresholds())
	if err != nil {
		return err
	}
	least += cutGain
	chosen := byLabel
	for _, scale := range cutScales {
		c.LabelCuts = make([]float32, len(byLabel))
		for l, x := range byLabel {
			c.LabelCuts[l] = min(1, float32(math.Round(1000*scale*float64(x))/1000))
		}
		m, err := value(c.Thresholds())
		if err != nil {
			return err
		}
		if m > least {
			least, chosen = m, c.LabelCuts
		}
	}
	c.LabelCuts = chosen
	return nil
}

// cutScales are what the cuts by label may be multiplied by: where each row has one label the probabilities
// of labels that are not a row's best are too large. A single cut instead, the best of many, would be chosen
// by chance where few held-out rows have rare labels.
var cutScales = [...]float64{1.1, 1.25, 1.5, 2}

// cutGain is what a scale gains at least: rare labels make smaller gains by chance.
const cutGain = 0.005

// cutsByLabel returns the cut of each label with the largest expected F1 by its probabilities, which is
// half of that F1 (Lipton and others 2014): what the few rows of a label had says less.
func (c *Calibration) cutsByLabel(prob *vector.CSR, n int) []float32 {
	lists, total := make([][]float32, n), make([]float64, n)
	for e, l := range prob.Index {
		p := prob.Value[e]
		if total[l] += float64(p); p >= 1./cutSteps {
			lists[l] = append(lists[l], p)
		}
	}
	cuts := make([]float32, n)
	for l, list := range lists {
		slices.Sort(list)
		best, sum, chosen := 0., 0., 0
		for _, p := range slices.Backward(list) {
			sum, chosen = sum+float64(p), chosen+1
			best = max(best, 2*sum/(float64(chosen)+total[l]))
		}
		if cuts[l] = c.Cut; best > 0 { // in thousandths, since they are stored as text
			cuts[l] = float32(max(math.Round(best*500)/1000, 1./cutSteps))
		}
	}
	return cuts
}

// Validate checks what a file says. Errors: ErrInput.
func (c *Calibration) Validate() error {
	for b := range c.Curves {
		if err := c.Curves[b].Validate(); err != nil {
			return err
		}
	}
	for _, x := range append(slices.Clip(c.LabelCuts), c.Cut) {
		if !(x >= 0 && x <= 1) {
			return fmt.Errorf("%w: a cut at %g", ErrInput, x)
		}
	}
	if err := c.Best.Validate(); err != nil {
		return err
	}
	if c.Rows < 0 || c.Propensity < 0 {
		return fmt.Errorf("%w: a calibration by %d rows of %d", ErrInput, c.Rows, c.Propensity)
	}
	if err := c.Top.Validate(); err != nil {
		return err
	}
	return c.Recall.Validate()
}

// Reliability compares probabilities with how often labels were right: element i is of those from i tenths up
// to i+1 tenths.
type Reliability [10]ReliabilityBin

// ReliabilityBin has the number of labels of a bin, the sum of their probabilities, and how many were right.
type ReliabilityBin struct {
	N           int     `json:"n"`
	Probability float64 `json:"probability"`
	Right       int     `json:"right"`
}

// Add adds a label.
func (r *Reliability) Add(probability float32, right bool) {
	b := &r[min(int(probability*10), len(r)-1)]
	b.N++
	b.Probability += float64(probability)
	if right {
		b.Right++
	}
}

// Error returns the expected calibration error: the mean over labels of the distance of the mean probability
// of their bin from the share of labels in it that were right (Naeini and others 2015). 0 without labels.
func (r *Reliability) Error() float64 {
	n, sum := 0, 0.
	for _, b := range r {
		n += b.N
		sum += max(b.Probability-float64(b.Right), float64(b.Right)-b.Probability)
	}
	return sum / float64(max(n, 1))
}

// Validate checks that no count or sum is impossible. Errors: ErrInput.
func (r *Reliability) Validate() error {
	for _, b := range r {
		if b.N < 0 || b.Right < 0 || b.Right > b.N || !(b.Probability >= 0 && b.Probability <= float64(b.N)) {
			return fmt.Errorf("%w: %d labels with probabilities of %g, %d of them right",
				ErrInput, b.N, b.Probability, b.Right)
		}
	}
	return nil
}
