package lcif

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// trials measures settings on held-out rows. Values that settings share are computed once:
// neighbors for the largest k (smaller k use the first of them), and the scores of the last
// setting, since consecutive ones differ in one parameter.
type trials struct {
	data    *HeldOut
	workers int
	truth   *labels.Matrix // of all parts, concatenated
	rows    []int          // training rows of each label
	weights []float64      // inverse propensities
	parts   []trialPart
	deep    int // number of neighbors in the lists
	// propensity is set if propensity-scored precision is measured, which takes as long as all other measures.
	propensity bool

	instance, best scored
	feature        map[float64]scoreRows // by β; few are kept if they are large
}

// trialPart holds the derived data of a part.
type trialPart struct {
	first int // the number of its first row among all rows
	units *vector.CSR
	lists [][]near          // of its rows, nearest first
	other map[uint32][]near // the neighbors of the rows in these lists, for second-order scores
}

// scored is the scores of all rows for a setting, without its cut.
type scored struct {
	of   Setting
	rows scoreRows
}

// scoreRows holds the scores of rows.
type scoreRows []vector.Sparse

// matrix returns the scores of so many labels in one matrix.
func (s scoreRows) matrix(labels int) *vector.CSR {
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: labels}
	for _, r := range s {
		m.Append(r)
	}
	return m
}

func (s scoreRows) bytes() (n int) {
	for _, r := range s {
		n += 8 * len(r.Index)
	}
	return n
}

const (
	// keepScores is the maximum memory in bytes of the cached feature scores of several β. The most
	// recently requested scores are kept whatever their size.
	keepScores = 64 << 20
	// Thresholds are derived from the keptLabels best labels of a row, and keptShare times the mean
	// number of labels more.
	keptLabels, keptShare = 64, 8
)

func newTrials(data *HeldOut, workers int) (*trials, error) {
	if len(data.Parts) == 0 || data.Train == nil {
		return nil, fmt.Errorf("%w: nothing held out", query.ErrParams)
	}
	t := &trials{
		data: data, workers: workers, rows: labels.LabelRows[int](data.Train), feature: map[float64]scoreRows{},
	}
	all := vector.CSR{Ptr: []uint64{0}, Cols: data.Train.Labels()}
	for i, p := range data.Parts {
		if p.View == nil || p.Queries == nil || p.Truth == nil || p.Queries.Rows() != p.Truth.Rows() ||
			p.Truth.Labels() != all.Cols || p.View.Labels.Labels() != all.Cols {
			return nil, fmt.Errorf("%w: part %d does not fit: queries, their labels and the training labels differ",
				query.ErrParams, i)
		}
		t.parts = append(t.parts, trialPart{first: all.Rows(), units: UnitRows(p.Queries, p.View)})
		for r := range p.Truth.Rows() {
			all.Index = append(all.Index, p.Truth.Row(r)...)
			all.Ptr = append(all.Ptr, uint64(len(all.Index)))
		}
	}
	t.weights = labels.InversePropensities(t.rows, data.Train.Rows())
	var err error
	t.truth, err = labels.NewMatrix(all)
	return t, err
}

// neighbors searches for the k nearest rows of every query, unless they are cached.
func (t *trials) neighbors(ctx context.Context, k int, progress func(done, total int)) error {
	if t.deep >= k {
		return nil
	}
	for i := range t.data.Parts {
		p := &t.data.Parts[i]
		if p.View.Neighbors == nil {
			return fmt.Errorf("%w: part %d finds no neighbours", query.ErrMethod, i)
		}
		part := &t.parts[i]
		lists, err := neighborLists(ctx, p, part.units, k, t.workers,
			func(n, _ int) { progress(part.first+n, t.truth.Rows()) })
		if err != nil {
			return err
		}
		part.lists, part.other = lists, nil
	}
	t.deep = k
	return nil
}

// score computes the scores of all rows: each returns those of row r of a part. prepare is called
// for each part by every worker.
func (t *trials) score(ctx context.Context,
	prepare func(part int) (each func(tally *tally, r int, dst *vector.Sparse), err error)) (scoreRows, error) {
	rows := make(scoreRows, t.truth.Rows())
	for i := range t.parts {
		each, err := prepare(i)
		if err != nil {
			return nil, err
		}
		err = eachRow(ctx, t.data.Parts[i].Queries.Rows(), t.workers, nil, func() func(int) error {
			tally, dst := new(tally), new(vector.Sparse)
			tally.reset(t.truth.Labels())
			return func(r int) error {
				clearSparse(dst)
				each(tally, r, dst)
				rows[t.parts[i].first+r] = vector.Sparse{Index: slices.Clone(dst.Index), Value: slices.Clone(dst.Value)}
				return nil
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// instanceRows returns the instance scores of all rows, whose neighbors are known.
func (t *trials) instanceRows(ctx context.Context, s Setting) (scoreRows, error) {
	of := Setting{K: s.K, Alpha: s.Alpha, SecondOrder: s.SecondOrder}
	if t.instance.rows != nil && t.instance.of == of {
		return t.instance.rows, nil
	}
	p := Params{Alpha: s.Alpha, SecondOrder: s.SecondOrder}
	p = p.filled()
	rows, err := t.score(ctx, func(i int) (func(*tally, int, *vector.Sparse), error) {
		view, part := t.data.Parts[i].View, &t.parts[i]
		if s.SecondOrder > 0 && part.other == nil {
			if view.Row == nil {
				return nil, fmt.Errorf("%w: part %d has no rows for second-order scores", query.ErrMethod, i)
			}
			var err error
			if part.other, err = otherLists(ctx, view, part.lists, t.workers); err != nil {
				return nil, err
			}
		}
		other := func(row uint32) []near { return part.other[row] }
		return func(tally *tally, r int, dst *vector.Sparse) {
			list := part.lists[r]
			tally.instanceScores(view.Labels, list[:min(s.K, len(list))], &p, other, dst)
		}, nil
	})
	t.instance = scored{of, rows}
	return rows, err
}

// featureRows returns the feature scores of all rows.
func (t *trials) featureRows(ctx context.Context, beta float64) (scoreRows, error) {
	if m := t.feature[beta]; m != nil {
		return m, nil
	}
	t.makeRoom()
	rows, err := t.score(ctx, func(i int) (func(*tally, int, *vector.Sparse), error) {
		part := &t.data.Parts[i]
		if part.Counts == nil {
			return nil, fmt.Errorf("%w: part %d has no feature–label counts", query.ErrMethod, i)
		}
		counts, err := part.Counts(ctx)
		if err != nil {
			return nil, err
		}
		powers, err := counts.Powers(beta)
		return func(tally *tally, r int, dst *vector.Sparse) {
			tally.featureScores(powers, beta, t.parts[i].units.Row(r), dst)
		}, err
	})
	if err == nil {
		t.feature[beta] = rows
	}
	return rows, err
}

// makeRoom drops the cached scores if those of one more β would be too many.
func (t *trials) makeRoom() {
	total, largest := 0, 0
	for _, s := range t.feature {
		total += s.bytes()
		largest = max(largest, s.bytes())
	}
	if total+largest > keepScores {
		clear(t.feature)
	}
}

// bestRows returns the scores of the best labels of all rows.
func (t *trials) bestRows(ctx context.Context, s Setting) (scoreRows, error) {
	of := s
	of.Cut = Cut{}
	if t.best.rows != nil && t.best.of == of {
		return t.best.rows, nil
	}
	var err error
	instance, feature := make(scoreRows, t.truth.Rows()), make(scoreRows, t.truth.Rows())
	if s.Lambda > 0 {
		if instance, err = t.instanceRows(ctx, s); err != nil {
			return nil, err
		}
	}
	if s.Lambda < 1 {
		if feature, err = t.featureRows(ctx, cmp.Or(s.Beta, 1)); err != nil {
			return nil, err
		}
	}
	n := keptLabels + int(math.Ceil(keptShare*t.data.Train.Cardinality()))
	rows, err := t.score(ctx, func(i int) (func(*tally, int, *vector.Sparse), error) {
		return func(tally *tally, r int, dst *vector.Sparse) {
			at := t.parts[i].first + r
			combine(s.Lambda, instance[at], feature[at], dst)
			tally.keepBest(dst, n)
		}, nil
	})
	t.best = scored{of, rows}
	return rows, err
}

// keepBest removes all but the n best scores; of equal ones those of smaller labels stay.
func (t *tally) keepBest(s *vector.Sparse, n int) {
	if s.Len() <= n {
		return
	}
	t.sorted = append(t.sorted[:0], s.Value...)
	least, larger := labels.NthBest(t.sorted, n-1)
	equal, at := n-larger, 0
	for e, x := range s.Value {
		if x < least || x == least && equal == 0 {
			continue
		}
		if x == least {
			equal--
		}
		s.Index[at], s.Value[at] = s.Index[e], x
		at++
	}
	s.Index, s.Value = s.Index[:at], s.Value[:at]
}

// trial is what was measured for a setting, and the thresholds that its cut gave.
type trial struct {
	Measures
	thresholds *labels.Thresholds
}

// measure measures a setting with its cut.
func (t *trials) measure(ctx context.Context, s Setting) (trial, error) {
	rows, err := t.bestRows(ctx, s)
	if err != nil {
		return trial{}, err
	}
	scores := rows.matrix(t.truth.Labels())
	thresholds, err := t.cut(scores, s.Cut)
	if err != nil {
		return trial{}, err
	}
	predicted, err := thresholds.Predict(scores)
	if err != nil {
		return trial{}, err
	}
	r, err := labels.Evaluate(t.truth, predicted)
	if err != nil {
		return trial{}, err
	}
	m := trial{thresholds: thresholds}
	m.setMeasures(r)
	return m, t.rank(&m.Measures, scores, thresholds)
}

// rank sets the measures of the labels in the order of thresholds.
func (t *trials) rank(m *Measures, scores *vector.CSR, thresholds *labels.Thresholds) error {
	order := thresholds.Order(nil)
	r, err := labels.EvaluateRanking(t.truth, order.Places(scores, 5), []int{1, 3, 5})
	if err != nil {
		return err
	}
	if m.Precision, m.NDCG5 = [3]float64(r.Precision), r.NDCG[2]; !t.propensity {
		return nil
	}
	weighed := t.strengths(scores, thresholds)
	for e, l := range weighed.Index {
		weighed.Value[e] *= float32(t.weights[l])
	}
	scored, err := labels.EvaluatePropensity(t.truth, weighed, []int{5}, t.weights)
	if err != nil {
		return err
	}
	m.PSP5 = scored.Precision[0]
	return nil
}

// strengths returns scores as calibrations map them (Strength).
func (t *trials) strengths(scores *vector.CSR, thresholds *labels.Thresholds) *vector.CSR {
	out := *scores
	out.Value = slices.Clone(scores.Value)
	for e, l := range out.Index {
		out.Value[e] = Strength(thresholds, labels.Ranked{Label: l, Score: out.Value[e]})
	}
	return &out
}

// cut derives thresholds from scores.
func (t *trials) cut(scores *vector.CSR, c Cut) (*labels.Thresholds, error) {
	switch {
	case len(scores.Index) == 0:
		// Without scores nothing is predicted, whatever the threshold.
		return &labels.Thresholds{KeepTop: !c.NoTop}, nil
	case c.PerLabel:
		return labels.LabelThresholds(scores, t.data.Train, !c.NoTop)
	case c.Steps:
		return labels.SteppedThreshold(scores, c.Share*t.data.Train.Cardinality(), !c.NoTop)
	}
	return labels.SingleThreshold(scores, c.Share*t.data.Train.Cardinality(), !c.NoTop)
}
