package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// peerCosts are what C is chosen among, thresholds from peerLowest on in steps of peerStep.
var peerCosts = []float64{0.1, 1, 10}

const (
	peerLowest, peerStep = -1.5, 0.05
	peerThresholds       = 51
)

// peer is one-against-rest by liblinear: -s 1, bias 1.
type peer struct {
	driver *liblinear.Driver
	y      *labels.Matrix // of training and test rows
	// values are the decision values of the judged rows, label by label, weights how many weights are not zero.
	values  [][]float32
	order   [][]uint32 // the labels of each judged row, best first
	weights uint64
	seconds float64
	// rows is the number of training rows of each label, trained that of all.
	rows    []int
	trained int
}

// measurePeer chooses C and one threshold for all labels on a fifth of the training rows, held out, and learns from
// all of them. A row has its best label at least.
func (s *set) measurePeer(driver *liblinear.Driver, o lcif.Objective, r *result) error {
	x, err := s.peerRows()
	if err != nil {
		return err
	}
	if err := driver.Load(x); err != nil {
		return err
	}
	n := s.train.Labels.Rows()
	var sets [][]uint32
	for _, m := range []*labels.Matrix{s.train.Labels, s.test.Labels} {
		for i := range m.Rows() {
			sets = append(sets, m.Row(i))
		}
	}
	p := &peer{driver: driver, rows: s.labelRows(), trained: n}
	if p.y, err = labels.FromSets(sets, s.train.Labels.Labels()); err != nil {
		return err
	}
	learn, held := lcifbench.HeldOut(n)
	var params liblinear.Params
	threshold, most := 0., -1e9
	for _, c := range peerCosts {
		q := liblinear.Params{Solver: liblinear.DualL2, C: c, Bias: 1}
		if err := p.train(q, learn, held); err != nil {
			return err
		}
		t, value, err := p.choose(o, p.y.Select(held))
		if err != nil {
			return err
		}
		if value > most {
			params, threshold, most = q, t, value
		}
	}
	all, test := make([]int, n), make([]int, s.test.Labels.Rows())
	for i := range all {
		all[i] = i
	}
	for i := range test {
		test[i] = n + i
	}
	if err := p.train(params, all, test); err != nil {
		return err
	}
	a, err := p.answer(threshold)
	if err != nil {
		return err
	}
	r.Seconds, r.PeakMB, r.FileMB = p.seconds, float64(driver.Peak())/1e6, 8*float64(p.weights)/1e6
	r.Note = fmt.Sprintf("C=%g threshold=%.2f", params.C, threshold)
	seconds, err := driver.AnswerSeconds(params, p.y, all, test, 1)
	if err != nil {
		return err
	}
	r.Micros = 1e6 * seconds / float64(len(test))
	return r.fill(s, a)
}

// peerRows are all rows, the training rows first, by tf-idf or, for dense sets, standardised, of unit length.
func (s *set) peerRows() (*vector.CSR, error) {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	switch {
	case s.texts[0] != nil && s.vectors[0] != nil:
		return nil, fmt.Errorf("liblinear has no rows of texts and vectors")
	case s.texts[0] != nil:
		terms(x, slices.Concat(s.texts[0], s.texts[1]))
	default:
		for _, p := range []*vector.CSR{s.train.Rows, s.test.Rows} {
			for i := range p.Rows() {
				x.Append(p.Row(i))
			}
			x.Cols = max(x.Cols, p.Cols)
		}
	}
	n := s.train.Labels.Rows()
	if s.dense {
		standardize(x, n)
	} else {
		smoothedTFIDF(x, n)
	}
	for i := range x.Rows() {
		row := x.Row(i)
		if norm := row.Norm(); norm > 0 {
			for e := range row.Value {
				row.Value[e] = float32(float64(row.Value[e]) / norm)
			}
		}
	}
	return x, nil
}

// smoothedTFIDF weighs counts by (1 + ln count)·(1 + ln((1 + n)/(1 + df))), where df of the first n rows have the
// feature. The smoothing matters where there are few rows.
func smoothedTFIDF(x *vector.CSR, n int) {
	df := make([]int, x.Cols)
	for _, f := range x.Index[:x.Ptr[n]] {
		df[f]++
	}
	for i := range x.Rows() {
		row := x.Row(i)
		for e, f := range row.Index {
			idf := 1 + math.Log(float64(1+n)/float64(1+df[f]))
			row.Value[e] = float32((1 + math.Log(max(1, float64(row.Value[e])))) * idf)
		}
	}
}

// terms counts the terms of texts.
func terms(x *vector.CSR, texts []string) {
	number := map[string]uint32{}
	for _, t := range texts {
		count := map[uint32]float32{}
		text.ByName(text.English)(t, func(token text.Token) {
			n, ok := number[token.Term]
			if !ok {
				n = uint32(len(number))
				number[token.Term] = n
			}
			count[n]++
		})
		var row vector.Sparse
		for n := range count {
			row.Index = append(row.Index, n)
		}
		slices.Sort(row.Index)
		for _, n := range row.Index {
			row.Value = append(row.Value, count[n])
		}
		x.Append(row)
	}
	x.Cols = len(number)
}

// train learns one classifier a label from some rows and judges others.
func (p *peer) train(q liblinear.Params, rows, judged []int) error {
	p.values, p.weights = nil, 0
	class := make([]int8, p.y.Rows())
	for label := range p.y.Labels() {
		for i := range class {
			class[i] = -1
		}
		for _, i := range p.y.Column(label) {
			class[i] = 1
		}
		n := 0
		for _, i := range rows {
			if class[i] > 0 {
				n++
			}
		}
		values := make([]float32, len(judged))
		if n == 0 || n == len(rows) { // the same answer for all rows
			for i := range values {
				values[i] = float32(2*min(n, 1)-1) * 1e6
			}
		} else {
			got, err := p.driver.Train(q, class, rows, judged)
			if err != nil {
				return err
			}
			for i, v := range got.Values {
				values[i] = float32(v)
			}
			p.seconds += got.Train
			p.weights += got.Weights
		}
		p.values = append(p.values, values)
	}
	p.rank(len(judged))
	return nil
}

// rank orders the labels of each judged row.
func (p *peer) rank(rows int) {
	p.order = make([][]uint32, rows)
	for i := range p.order {
		for l := range p.values {
			p.order[i] = append(p.order[i], uint32(l))
		}
		slices.SortFunc(p.order[i], func(a, b uint32) int {
			return cmp.Or(cmp.Compare(p.values[b][i], p.values[a][i]), cmp.Compare(a, b))
		})
	}
}

// choose returns the threshold of the best sets for an objective, and its value; an objective of rankings has the
// threshold of the best micro F1.
func (p *peer) choose(o lcif.Objective, truth *labels.Matrix) (threshold, value float64, err error) {
	value = -1e9
	var a answers
	for i := range peerThresholds {
		t := peerLowest + peerStep*float64(i)
		if a, err = p.answer(t); err != nil {
			return 0, 0, err
		}
		r, err := labels.Evaluate(truth, a.sets)
		if err != nil {
			return 0, 0, err
		}
		if v := o.OfSets(r); v > value {
			threshold, value = t, v
		}
	}
	if o >= lcif.PrecisionAt1 {
		value, err = o.OfRanking(truth, a.scores, p.rows, p.trained)
	}
	return threshold, value, err
}

// answer returns the labels whose value exceeds a threshold, and each row's best ones.
func (p *peer) answer(threshold float64) (a answers, err error) {
	n := len(p.values)
	sets := make([][]uint32, len(p.order))
	a.scores = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: n}
	for i, order := range p.order {
		above := 1
		for above < n && float64(p.values[order[above]][i]) > threshold {
			above++
		}
		sets[i] = slices.Sorted(slices.Values(order[:above]))
		a.scores.Append(lcifbench.Ranking(order[:min(n, slices.Max(rankedAt))]))
	}
	a.sets, err = labels.FromSets(sets, n)
	return a, err
}
