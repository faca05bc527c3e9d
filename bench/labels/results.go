package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// rankedAt are the k of precision and nDCG, recalls the shares of a row's labels that sets are asked for.
var (
	rankedAt = []int{1, 3, 5}
	recalls  = [2]float64{0.8, 0.9}
)

// result is what was measured of one system on one set. Macro F1 is over all declared labels, with 0/0 = 0
// and, as Mulan and the papers have it, 1; F1 is that of rows, RareF1 the mean of labels with under five
// training rows that occur in test rows. CalibrationError is nil without probabilities.
type result struct {
	job
	Accuracy, F1, MicroF1, MacroF1, MulanMacroF1 float64
	Precision                                    []float64 // at rankedAt
	NDCG5, Propensity5, RareF1                   float64
	CalibrationError                             *float64 `json:",omitempty"`
	Delivered                                    [2]delivered
	Seconds, PeakMB, FileMB, Micros              float64
	Note                                         string `json:",omitempty"`

	heldOut int // rows that the calibration, and so the bounds of recalls, are from
}

// delivered is the mean share of a row's labels that sets have, the standard error of its distance from
// what is promised, and their mean size. A model that cannot promise the recall has no Size.
type delivered struct{ Recall, Error, Size float64 }

// fill computes the measures of answers.
func (r *result) fill(s *set, a answers) error {
	sets, err := labels.Evaluate(s.test.Labels, a.sets)
	if err != nil {
		return err
	}
	ranks, err := labels.EvaluateRanking(s.test.Labels, a.scores, rankedAt)
	if err != nil {
		return err
	}
	n := s.train.Labels.Rows()
	r.Propensity5, err = lcif.PropensityAt5.OfRanking(s.test.Labels, a.scores, s.labelRows(), n)
	if err != nil {
		return err
	}
	r.Accuracy, r.F1, r.MicroF1, r.MacroF1 = sets.Zero.Accuracy, sets.Zero.F1, sets.Zero.Micro.F1, sets.Zero.Macro.F1
	r.MulanMacroF1, r.Precision, r.NDCG5 = sets.Mulan.Macro.F1, ranks.Precision, ranks.NDCG[2]
	r.RareF1 = rareF1(s.test.Labels, a.sets, s.labelRows())
	if a.known {
		e := a.top.Error()
		r.CalibrationError = &e
	}
	return nil
}

// rareF1 returns the mean F1 of labels with one to four training rows that occur in the truth, 0 without any.
func rareF1(truth, sets *labels.Matrix, rows []int) float64 {
	sum, n := 0., 0.
	for l, count := range rows {
		right, found := truth.Column(l), sets.Column(l)
		if count == 0 || count > 4 || len(right) == 0 {
			continue
		}
		sum += 2 * float64(common(right, found)) / float64(len(right)+len(found))
		n++
	}
	return sum / max(1, n)
}

// common returns how many numbers two ascending lists share.
func common(a, b []uint32) (n int) {
	for _, x := range a {
		if _, ok := slices.BinarySearch(b, x); ok {
			n++
		}
	}
	return n
}

// labelRows returns the number of training rows of each label.
func (s *set) labelRows() []int { return labels.LabelRows[int](s.train.Labels) }

// deliver measures sets that were asked for with a recall, whose bound is from so many held-out rows: the
// promise is a mean over draws of these, too.
func deliver(truth, sets *labels.Matrix, heldOut int) (d delivered) {
	var sum, square, n float64
	for i := range truth.Rows() {
		if len(truth.Row(i)) == 0 {
			continue
		}
		share := float64(common(truth.Row(i), sets.Row(i))) / float64(len(truth.Row(i)))
		sum, square, n = sum+share, square+share*share, n+1
	}
	d = delivered{Recall: sum / max(1, n), Size: sets.Cardinality()}
	d.Error = math.Sqrt(max(0, square/max(1, n)-d.Recall*d.Recall) * (1/max(1, n) + 1/max(1, float64(heldOut))))
	return d
}

// append writes a result to the end of a file.
func (r *result) append(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}

// readResults reads a file of results, which may be missing.
func readResults(path string) (out []result, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// print writes the table of the jobs that have been measured, after each set the papers' figures.
func (c *config) print(w io.Writer, known []result) error {
	t := table.New("set", "system", "tuned_for", "accuracy:3", "f1_rows:3", "micro_f1:3", "macro_f1:3", "mulan:3", "p@1:3",
		"p@3:3", "p@5:3", "ndcg@5:3", "psp@5:3", "rare_f1:3", "ece:3", "at_0.8", "at_0.9", "user_s:1", "peak_mb:0", "file_mb:2",
		"micros:1")
	last := ""
	for _, j := range c.jobs() {
		for _, r := range known {
			if r.job != j {
				continue
			}
			if last != j.Set {
				addPapers(t, j.Set)
				last = j.Set
			}
			var ece any
			if r.CalibrationError != nil {
				ece = *r.CalibrationError
			}
			t.Add(r.Set, r.System, r.Objective, r.Accuracy, r.F1, r.MicroF1, r.MacroF1, r.MulanMacroF1, r.Precision[0],
				r.Precision[1], r.Precision[2], r.NDCG5, r.Propensity5, r.RareF1, ece, r.Delivered[0].String(),
				r.Delivered[1].String(), r.Seconds, r.PeakMB, r.FileMB, r.Micros)
		}
	}
	return table.Output{W: w, Format: table.Format(c.format)}.Print(t)
}

// String shows recall and mean size.
func (d delivered) String() string {
	if d.Size == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f±%.3f, %.1f", d.Recall, d.Error, d.Size)
}

// table8 is Table 8 of Liu and Tsang (2017) for the sets there are: the F1 of rows of PT and AT.
var table8 = map[string][2]float64{"cal500": {0.324, 0.362}, "corel5k": {0.123, 0.141}}

// addPapers adds the papers' figures, of their own divisions.
func addPapers(t *table.Table, set string) {
	line := func(system string, accuracy, f1, micro, mulan any) {
		t.Add(set, system, "", accuracy, f1, micro, nil, mulan, nil, nil, nil, nil, nil, nil, nil, "", "", nil, nil, nil, nil)
	}
	figure := func(o lcif.Objective) any {
		if v, ok := lcifbench.PaperTable2(set, o, lcifbench.Combined); ok {
			return v
		}
		return nil
	}
	if accuracy := figure(lcif.Accuracy); accuracy != nil {
		line("paper: lcif", accuracy, nil, figure(lcif.MicroF1), figure(lcif.MacroF1))
	}
	if f1, ok := table8[set]; ok {
		line("paper: pt", nil, f1[0], nil, nil)
		line("paper: at", nil, f1[1], nil, nil)
	}
}
