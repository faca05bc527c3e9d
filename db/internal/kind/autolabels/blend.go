package autolabels

import (
	"cmp"
	"slices"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

const buckets = labels.Buckets

// The weights of a bucket are chosen by its labels and by all labels, which count like priorHits right ones:
// few right labels say little, and a bucket may have none.
const priorHits = 40

// leastProbability is the least probability, by any member, of a pair that is weighed. Most pairs have less.
const leastProbability = 1. / 500

// weights are the shares of members in the probability of a label, by bucket.
type weights [][buckets]float64

// held holds the scores of members for the held-out rows, their calibration, and the pairs of row and label
// to which any member gives a score.
type held struct {
	truth      *labels.Matrix
	rows       []int // of each label
	n          int   // number of training rows
	objective  lcif.Objective
	allowEmpty bool
	curves     []curves   // of members
	pairs      vector.CSR // without values
	prob       [][]float32
}

// curves map scores to probabilities, by bucket.
type curves [buckets]labels.Isotonic

// uncalibrated are the curves of models with too few held-out rows: scores are from 0 to 1.
var uncalibrated = func() (c curves) {
	for b := range c {
		c[b] = labels.Isotonic{X: []float32{0, 1}, Y: []float32{0, 1}}
	}
	return c
}()

// newHeld calibrates members on their scores for the held-out rows, of all that there are to learn from.
func newHeld(
	truth *labels.Matrix, rows []int, n int, o *index.Auto, scores []*vector.CSR,
) (*held, error) {
	h := &held{truth: truth, rows: rows, n: n, objective: o.Objective, allowEmpty: o.AllowEmpty}
	h.pairs = vector.CSR{Ptr: []uint64{0}, Cols: truth.Labels()}
	for _, s := range scores {
		c, err := labels.Calibrate(truth, s, rows, h.sets())
		if err != nil {
			return nil, err
		}
		if h.curves = append(h.curves, uncalibrated); c != nil {
			h.curves[len(h.curves)-1] = c.Curves
		}
	}
	var all []uint32
	for r := range truth.Rows() {
		all = all[:0]
		for m, s := range scores {
			x := s.Row(r)
			for i, l := range x.Index {
				if h.curves[m][labels.Bucket(rows[l])].At(x.Value[i]) >= leastProbability {
					all = append(all, l)
				}
			}
		}
		slices.Sort(all)
		h.pairs.Index = append(h.pairs.Index, slices.Compact(all)...)
		h.pairs.Ptr = append(h.pairs.Ptr, uint64(len(h.pairs.Index)))
	}
	for m, s := range scores {
		prob := make([]float32, len(h.pairs.Index))
		for r := range truth.Rows() {
			at, own, next := h.pairs.Ptr[r], s.Row(r), 0
			for i, l := range h.pairs.Row(r).Index {
				for next < len(own.Index) && own.Index[next] < l {
					next++
				}
				if next < len(own.Index) && own.Index[next] == l {
					prob[at+uint64(i)] = h.curves[m][labels.Bucket(rows[l])].At(own.Value[next])
				}
			}
		}
		h.prob = append(h.prob, prob)
	}
	return h, nil
}

// compose returns the weighed probabilities of all pairs.
func (h *held) compose(w weights) *vector.CSR {
	out := h.pairs
	out.Value = make([]float32, len(out.Index))
	for i, l := range out.Index {
		bucket := labels.Bucket(h.rows[l])
		p := float64(0)
		for m := range w {
			p += w[m][bucket] * float64(h.prob[m][i])
		}
		out.Value[i] = float32(p)
	}
	return &out
}

// likely returns the probabilities that are not tiny, so that a calibration does not depend on the pairs of
// members without weight.
func likely(prob *vector.CSR) *vector.CSR {
	return prob.Kept(func(_ int, p float32) bool { return p >= leastProbability })
}

// moments are sums over pairs of the products of the probabilities of two members, and of those of a member
// and the truth: the squared error of any weights follows from them.
type moments struct {
	product [][]float64
	hits    []float64
}

// newMoments returns those of no pairs, for n members.
func newMoments(n int) moments {
	m := moments{hits: make([]float64, n)}
	for range n {
		m.product = append(m.product, make([]float64, n))
	}
	return m
}

// moments returns those of each bucket, and with them, as priorHits has it, those of all.
func (h *held) moments() (out [buckets]moments) {
	n := len(h.prob)
	for b := range out {
		out[b] = newMoments(n)
	}
	all := newMoments(n)
	for r := range h.truth.Rows() {
		truth := h.truth.Row(r)
		for e := h.pairs.Ptr[r]; e < h.pairs.Ptr[r+1]; e++ {
			l := h.pairs.Index[e]
			_, hit := slices.BinarySearch(truth, l)
			to := &out[labels.Bucket(h.rows[l])]
			for i := range n {
				p := float64(h.prob[i][e])
				if hit {
					to.hits[i] += p
				}
				for j := range n {
					to.product[i][j] += p * float64(h.prob[j][e])
				}
			}
		}
	}
	for b := range out {
		all.add(&out[b], 1)
	}
	times := priorHits / max(1, h.truth.Cardinality()*float64(h.truth.Rows()))
	for b := range out {
		out[b].add(&all, times)
	}
	return out
}

// error returns the squared error of weights, less that of weights of zero.
func (m *moments) error(w []float64) (sum float64) {
	for i, x := range w {
		for j, y := range w {
			sum += x * y * m.product[i][j]
		}
		sum -= 2 * x * m.hits[i]
	}
	return sum
}

// add adds the moments of other pairs, each as often as times says.
func (m *moments) add(other *moments, times float64) {
	for i := range m.hits {
		m.hits[i] += times * other.hits[i]
		for j := range m.hits {
			m.product[i][j] += times * other.product[i][j]
		}
	}
}

// weightSteps is the number of steps of a weight from 0 to 1.
const weightSteps = 10

// simplex calls f with all weights of members, whose sum is 1; others have none.
func simplex(n int, members []int, f func(w []float64)) {
	w := make([]float64, n)
	var fill func(i, left int)
	fill = func(i, left int) {
		if i == len(members)-1 {
			w[members[i]] = float64(left) / weightSteps
			f(w)
			return
		}
		for x := range left + 1 {
			w[members[i]] = float64(x) / weightSteps
			fill(i+1, left-x)
		}
	}
	fill(0, weightSteps)
}

// least returns the weights of members with the least squared error.
func (m *moments) least(members []int) (best []float64) {
	var least float64
	simplex(len(m.hits), members, func(w []float64) {
		if e := m.error(w); best == nil || e < least {
			best, least = slices.Clone(w), e
		}
	})
	return best
}

// byBucket returns the weights of members with the least squared error in each bucket, and that error.
func byBucket(of *[buckets]moments, members []int) (out weights, e float64) {
	out = make(weights, len(of[0].hits))
	for b := range of {
		w := of[b].least(members)
		for m, x := range w {
			out[m][b] = x
		}
		e += of[b].error(w)
	}
	return out, e
}

// blended is a choice of weights, its calibration, nil if there are too few held-out rows, and the objective
// and the squared error on these.
type blended struct {
	weights     weights
	calibration *labels.Calibration
	thresholds  *labels.Thresholds
	value, loss float64
}

// sets returns how calibrations select sets.
func (h *held) sets() labels.CalibrateOptions { return lcif.SetsBy(h.objective, h.n, h.allowEmpty) }

// measure calibrates weighed probabilities and computes their objective.
func (h *held) measure(w weights) (b blended, err error) {
	scores := likely(h.compose(w))
	b.weights = w
	if b.calibration, err = labels.Calibrate(h.truth, scores, h.rows, h.sets()); err != nil {
		return b, err
	}
	switch c := b.calibration; {
	case c != nil:
		scores, b.thresholds = c.Probabilities(scores, h.rows), c.Thresholds()
	case len(scores.Index) == 0: // no label of a held-out row can be learned from the others
		b.thresholds = &labels.Thresholds{KeepTop: !h.allowEmpty}
	default:
		b.thresholds, err = labels.SingleThreshold(scores, h.truth.Cardinality(), !h.allowEmpty)
		if err != nil {
			return b, err
		}
	}
	if o := h.objective; o >= lcif.PrecisionAt1 {
		if c := b.calibration; c != nil {
			scores = c.Orders(scores, h.rows)
		}
		b.value, err = o.OfRanking(h.truth, scores, h.rows, h.n)
		return b, err
	}
	sets, err := b.thresholds.Predict(scores)
	if err != nil {
		return b, err
	}
	r, err := labels.Evaluate(h.truth, sets)
	if err == nil {
		b.value = h.objective.OfSets(r)
	}
	return b, err
}

// choose returns the weights of the set of members, by their numbers, with the least squared error,
// smaller sets first. A larger one has to explain more by a share of gain. The objective on few rows is a
// worse guide: what it prefers is chance.
func (h *held) choose(sets [][]int, gain float64) (blended, error) {
	of := h.moments()
	var best weights
	least, size := 0., 0
	for _, members := range sets {
		w, e := byBucket(&of, members)
		better := e < least
		if len(members) > size {
			better = e < least*(1+gain)
		}
		if best == nil || better {
			best, least, size = w, e, len(members)
		}
	}
	b, err := h.measure(best)
	b.loss = least
	return b, err
}

// subsets returns the sets of n members, smaller ones first.
func subsets(n int) (out [][]int) {
	for set := 1; set < 1<<n; set++ {
		var list []int
		for m := range n {
			if set>>m&1 == 1 {
				list = append(list, m)
			}
		}
		out = append(out, list)
	}
	slices.SortStableFunc(out, func(a, b []int) int { return cmp.Compare(len(a), len(b)) })
	return out
}

// members returns the numbers of the members with any weight.
func (b *blended) members() (out []int) {
	for m, w := range b.weights {
		if w != [buckets]float64{} {
			out = append(out, m)
		}
	}
	return out
}
