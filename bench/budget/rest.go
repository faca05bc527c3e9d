package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// linearCosts are what C of one-against-rest is chosen among.
var linearCosts = []float64{0.3, 1, 3, 10}

// sampleStep is how far apart the labels are by whose micro F1 C is chosen,
// where there are many.
const sampleStep = 50

// restModels are the decision values of one model a label.
type restModels struct {
	labels, rows int
	value        []float32 // label by label
	seconds      float64   // of training, CPU
	weights      uint64
}

// of is the values of one label.
func (m *restModels) of(label int) []float32 { return m.value[label*m.rows : (label+1)*m.rows] }

// chooseCost is the cost with the best micro F1 over a sample of the labels,
// with the CPU seconds that it took; known, if that is not zero: what an earlier
// run chose.
func chooseCost(l *liblinear.Driver, p liblinear.Params, y *labels.Matrix, rows, dev []int, known float64) (liblinear.Params, float64, error) {
	if known > 0 {
		p.C = known
		return p, 0, nil
	}
	step := 1
	if y.Labels() > 4*sampleStep {
		step = sampleStep
	}
	best, most, spent := p, -1.0, 0.0
	for _, p.C = range linearCosts {
		hit, listed, present := 0, 0, 0
		for label := 0; label < y.Labels(); label += step {
			class, n := against(y, label, rows)
			if n == 0 || n == len(rows) {
				continue
			}
			got, err := l.Train(p, class, rows, dev)
			if err != nil {
				return p, 0, err
			}
			spent += got.Train
			for i, v := range got.Values {
				if class[dev[i]] > 0 {
					present++
				}
				if v > 0 {
					listed++
					if class[dev[i]] > 0 {
						hit++
					}
				}
			}
		}
		if f1 := float64(2*hit) / float64(max(1, listed+present)); f1 > most {
			best, most = p, f1
		}
	}
	return best, spent, nil
}

// against is a label's class of every row, and how many of the given rows have
// the label.
func against(y *labels.Matrix, label int, rows []int) (class []int8, n int) {
	class = make([]int8, y.Rows())
	for i := range class {
		class[i] = -1
	}
	for _, r := range y.Column(label) {
		class[r] = 1
	}
	for _, r := range rows {
		if class[r] > 0 {
			n++
		}
	}
	return class, n
}

// each trains one model a label, in order, and keeps the decision values of
// some rows.
func each(
	l *liblinear.Driver, p liblinear.Params, y *labels.Matrix, rows, judged []int,
) (*restModels, error) {
	m := &restModels{labels: y.Labels(), rows: len(judged)}
	for label := range m.labels {
		class, n := against(y, label, rows)
		var got liblinear.Result
		if n == 0 || n == len(rows) {
			got.Values = slices.Repeat([]float64{math.Inf(2*n - 1)}, len(judged))
		} else {
			var err error
			if got, err = l.Train(p, class, rows, judged); err != nil {
				return nil, err
			}
		}
		for _, v := range got.Values {
			m.value = append(m.value, float32(v))
		}
		m.seconds += got.Train
		m.weights += got.Weights
	}
	return m, nil
}

// sets are the labels whose value exceeds a threshold, of the rows from first
// on; the best label alone where only one is wanted.
func (m *restModels) sets(first, n int, threshold float32, one bool) (*labels.Matrix, error) {
	sets := make([][]uint32, n)
	if one {
		for i, best := range m.best(first, n, 1) {
			sets[i] = best
		}
		return labels.FromSets(sets, m.labels)
	}
	for label := range m.labels {
		for i, v := range m.of(label)[first : first+n] {
			if v > threshold {
				sets[i] = append(sets[i], uint32(label))
			}
		}
	}
	return labels.FromSets(sets, m.labels)
}

// best is the k labels of the largest values of each row, best first, ties to
// the smaller label.
func (m *restModels) best(first, n, k int) [][]uint32 {
	out := make([][]uint32, n)
	order := make([]uint32, m.labels)
	values := make([]float32, m.labels)
	for i := range out {
		for label := range order {
			order[label] = uint32(label)
			values[label] = m.of(label)[first+i]
		}
		slices.SortFunc(order, func(a, b uint32) int {
			return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
		})
		out[i] = slices.Clone(order[:min(k, len(order))])
	}
	return out
}

// scores ranks the five best labels of each row.
func (m *restModels) scores(first, n int) *vector.CSR {
	out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m.labels}
	for _, best := range m.best(first, n, 5) {
		out.Append(lcifbench.Ranking(best))
	}
	return out
}

// oneAgainstRest is liblinear's L2-SVM, one a label, C chosen on dev. Where rows
// have one label each, the best is the answer; else those whose value exceeds the
// threshold that is best on a public dev part, as that of AT is.
func oneAgainstRest(s *settings, set *textSet) (*entrant, error) {
	if s.linear == nil {
		return nil, fmt.Errorf("%w liblinear: no peer", errSkipped)
	}
	if err := s.linear.Load(set.x); err != nil {
		return nil, err
	}
	learn, dev, err := set.tuning()
	if err != nil {
		return nil, err
	}
	p, spent, err := chooseCost(s.linear, liblinear.Params{Solver: liblinear.DualL2, Bias: 1}, set.y, learn, dev, s.peerCost)
	if err != nil {
		return nil, err
	}
	judged := slices.Concat(set.dev, set.test)
	m, err := each(s.linear, p, set.y, set.train, judged)
	if err != nil {
		return nil, err
	}
	e := &entrant{name: "liblinear", train: m.seconds, features: set.x.Cols, bytes: 8 * int(m.weights)}
	e.note = fmt.Sprintf("-s 1 -c %g -B 1 (C chosen in %.0f s); KiB: its weights that are not zero, 8 bytes each", p.C, spent)
	one := set.oneLabelEach()
	threshold := float32(0)
	if !one && len(set.dev) > 0 {
		if _, threshold, err = m.bestThreshold(0, set.y.Select(set.dev), linearThresholds); err != nil {
			return nil, err
		}
		plain, err := m.f1(len(set.dev), set.y.Select(set.test), 0)
		if err != nil {
			return nil, err
		}
		e.note += fmt.Sprintf("; threshold %g, F1 at 0: %.3f", threshold, plain)
	}
	if e.sets, err = m.sets(len(set.dev), len(set.test), threshold, one); err != nil {
		return nil, err
	}
	e.scores = m.scores(len(set.dev), len(set.test))
	// Its own evaluation of all labels at once takes the same time whatever the
	// weights are, so one label is enough to measure it.
	seconds, err := s.linear.AnswerSeconds(p, set.y, set.train, set.test, 1)
	e.answer = 1e6 * seconds / float64(len(set.test))
	return e, err
}

// linearThresholds are what decision values must exceed.
var linearThresholds = []float32{-0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0, 0.1, 0.2}

// bestThreshold is the best F1 of the rows from first on, and the threshold that
// has it.
func (m *restModels) bestThreshold(first int, truth *labels.Matrix, thresholds []float32) (f1 float64, best float32, err error) {
	f1 = -1
	for _, t := range thresholds {
		got, err := m.f1(first, truth, t)
		if err != nil {
			return 0, 0, err
		}
		if got > f1 {
			f1, best = got, t
		}
	}
	return f1, best, nil
}

// f1 is the example-based F1 of the rows from first on.
func (m *restModels) f1(first int, truth *labels.Matrix, threshold float32) (float64, error) {
	sets, err := m.sets(first, truth.Rows(), threshold, false)
	if err != nil {
		return 0, err
	}
	report, err := labels.Evaluate(truth, sets)
	if err != nil {
		return 0, err
	}
	return report.Zero.F1, nil
}
