package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// trials measures settings on held-out rows. What settings share is computed
// once: neighbours for the largest k, of which smaller ones take the first, and
// the two kinds of scores by their own parameters, so that another λ or
// threshold costs a pass over cached scores.
type trials struct {
	data    *LCIFHeldOut
	workers int
	truth   *labels.Matrix // of all parts, one behind the other
	units   []*vector.CSR  // by part
	lists   []*nearLists   // by part, for deep neighbours
	deep    int
	// Scores by their parameters. Few are kept if they are large.
	instance map[instanceKey]*vector.CSR
	feature  map[float64]*vector.CSR
	none     *vector.CSR
}

type instanceKey struct {
	k             int
	alpha, second float64
}

// keepScores is how many scores of one kind may be kept, of several settings
// together: 128 MiB. Those of the last setting are kept whatever their number.
const keepScores = 16 << 20

func newTrials(data *LCIFHeldOut, workers int) (*trials, error) {
	if len(data.Parts) == 0 || data.Train == nil {
		return nil, fmt.Errorf("%w: nothing held out", ErrParams)
	}
	t := &trials{data: data, workers: workers, instance: map[instanceKey]*vector.CSR{}, feature: map[float64]*vector.CSR{}}
	all := vector.CSR{Ptr: []uint64{0}, Cols: data.Train.Labels()}
	for i, p := range data.Parts {
		if p.View == nil || p.Queries == nil || p.Truth == nil || p.Queries.Rows() != p.Truth.Rows() ||
			p.Truth.Labels() != all.Cols || p.View.Labels.Labels() != all.Cols {
			return nil, fmt.Errorf("%w: part %d does not fit: queries, their labels and the training labels differ", ErrParams, i)
		}
		for r := range p.Truth.Rows() {
			all.Index = append(all.Index, p.Truth.Row(r)...)
			all.Ptr = append(all.Ptr, uint64(len(all.Index)))
		}
		t.units = append(t.units, unitRows(p.Queries, p.View.Features, p.View.Keep))
	}
	t.none = &vector.CSR{Ptr: make([]uint64, len(all.Ptr)), Cols: all.Cols}
	var err error
	t.truth, err = labels.NewMatrix(all)
	return t, err
}

// neighbors searches for the k nearest rows of every query, unless they are
// there.
func (t *trials) neighbors(ctx context.Context, k int, progress func(done, total int)) error {
	if t.deep >= k {
		return nil
	}
	lists := make([]*nearLists, len(t.data.Parts))
	done, total := 0, t.truth.Rows()
	for i, p := range t.data.Parts {
		if p.View.Neighbors == nil {
			return fmt.Errorf("%w: part %d finds no neighbours", ErrMethod, i)
		}
		var err error
		lists[i], err = neighborLists(ctx, p.View.Neighbors, p.Queries, t.units[i], k, t.workers, func(n, _ int) { progress(done+n, total) })
		if err != nil {
			return err
		}
		done += p.Queries.Rows()
	}
	t.lists, t.deep = lists, k
	clear(t.instance)
	return nil
}

// eachPart makes rows of all parts: work gets the part, the row in it, and
// where to append its scores.
func (t *trials) eachPart(ctx context.Context, work func(part int) func(tally *tally, row int, dst *vector.Sparse)) (*vector.CSR, error) {
	rows := make([]vector.Sparse, t.truth.Rows())
	at := 0
	for i, p := range t.data.Parts {
		do := work(i)
		err := eachRow(ctx, p.Queries.Rows(), t.workers, func() func(int) {
			tally, dst := new(tally), new(vector.Sparse)
			tally.reset(t.truth.Labels())
			return func(r int) {
				clearSparse(dst)
				do(tally, r, dst)
				rows[at+r] = vector.Sparse{Index: slices.Clone(dst.Index), Value: slices.Clone(dst.Value)}
			}
		})
		if err != nil {
			return nil, err
		}
		at += p.Queries.Rows()
	}
	return stack(rows, t.truth.Labels()), nil
}

// instances is the instance scores of all rows for k, alpha and the weight of
// the second order.
func (t *trials) instances(ctx context.Context, key instanceKey, progress func(done, total int)) (*vector.CSR, error) {
	if m := t.instance[key]; m != nil {
		return m, nil
	}
	if err := t.neighbors(ctx, key.k, progress); err != nil {
		return nil, err
	}
	for i, p := range t.data.Parts {
		if key.second > 0 && p.View.Graph == nil {
			return nil, fmt.Errorf("%w: part %d has no graph for second-order scores", ErrMethod, i)
		}
	}
	m, err := t.eachPart(ctx, func(part int) func(*tally, int, *vector.Sparse) {
		v, lists := t.data.Parts[part].View, t.lists[part]
		return func(tally *tally, row int, dst *vector.Sparse) {
			list := lists.row(row)
			instanceScores(tally, v.Labels, v.Graph, list[:min(key.k, len(list))], key.alpha, key.second, dst)
		}
	})
	if err != nil {
		return nil, err
	}
	keep(t.instance, key, m)
	return m, nil
}

// features is the feature scores of all rows for beta.
func (t *trials) features(ctx context.Context, beta float64) (*vector.CSR, error) {
	if m := t.feature[beta]; m != nil {
		return m, nil
	}
	powers := make([]*vector.CSR, len(t.data.Parts))
	for i, p := range t.data.Parts {
		if p.Counts == nil {
			return nil, fmt.Errorf("%w: part %d has no feature–label counts", ErrMethod, i)
		}
		for _, x := range t.units[i].Value {
			if x < 0 {
				return nil, fmt.Errorf("%w: part %d has negative features, feature scores want none", ErrParams, i)
			}
		}
		var err error
		if powers[i], err = p.Counts.Powers(beta); err != nil {
			return nil, err
		}
	}
	m, err := t.eachPart(ctx, func(part int) func(*tally, int, *vector.Sparse) {
		return func(tally *tally, row int, dst *vector.Sparse) {
			featureScores(tally, powers[part], 1, t.units[part].Row(row), dst)
		}
	})
	if err != nil {
		return nil, err
	}
	keep(t.feature, beta, m)
	return m, nil
}

// keep puts scores into a cache, which is emptied first if they do not fit.
func keep[K comparable](cache map[K]*vector.CSR, key K, m *vector.CSR) {
	total := len(m.Index)
	for _, c := range cache {
		total += len(c.Index)
	}
	if total > keepScores {
		clear(cache)
	}
	cache[key] = m
}

// scoreBits is the resolution of the histogram of scores: the upper half of a
// float32, which orders those that are not negative.
const scoreBits = 15

// measure measures a setting with several cuts at once. thresholds[i] is what
// cuts[i] comes to.
func (t *trials) measure(ctx context.Context, s LCIFSetting, cuts []LCIFCut, progress func(done, total int)) ([]LCIFMeasures, []*labels.Thresholds, error) {
	instance, feature := t.none, t.none
	var err error
	if s.Lambda > 0 {
		if instance, err = t.instances(ctx, instanceKey{s.K, s.Alpha, s.SecondOrder}, progress); err != nil {
			return nil, nil, err
		}
	}
	if s.Lambda < 1 {
		if feature, err = t.features(ctx, s.Beta); err != nil {
			return nil, nil, err
		}
	}
	b := &blender{t, s.Lambda, instance, feature}
	precision, histogram, err := b.survey(ctx)
	if err != nil {
		return nil, nil, err
	}
	share, all := 0.0, false
	for _, c := range cuts {
		if c.PerLabel {
			all = true
		} else {
			share = max(share, c.Share)
		}
	}
	scores, err := b.above(ctx, lowest(histogram, share*t.data.Train.Cardinality()*float64(t.truth.Rows())))
	if err != nil {
		return nil, nil, err
	}
	// Thresholds by label may look at any score.
	every := scores
	if all {
		if every, err = b.above(ctx, 0); err != nil {
			return nil, nil, err
		}
	}
	measures, thresholds := make([]LCIFMeasures, len(cuts)), make([]*labels.Thresholds, len(cuts))
	for i, c := range cuts {
		scores := scores
		if c.PerLabel {
			scores = every
		}
		if thresholds[i], err = t.cut(scores, c); err != nil {
			return nil, nil, err
		}
		predicted, err := thresholds[i].Predict(scores)
		if err != nil {
			return nil, nil, err
		}
		r, err := labels.Evaluate(t.truth, predicted)
		if err != nil {
			return nil, nil, err
		}
		measures[i].setMeasures(r)
		measures[i].Precision = precision
		if err := t.macro(&measures[i], predicted); err != nil {
			return nil, nil, err
		}
	}
	return measures, thresholds, nil
}

// macroRows is how many rows macro averages are over at the least, if there are
// as many.
const macroRows = 256

// macro replaces the macro averages by the mean of those of the parts, weighted
// by rows. What a label counts that is absent depends on how many rows are
// looked at: the fewer, the more labels are absent, and the convention for 0/0
// decides. Folds are of the size of a test part rather than all of them
// together, unless they are so small that they go together.
func (t *trials) macro(m *LCIFMeasures, predicted *labels.Matrix) error {
	n := t.truth.Rows()
	if len(t.data.Parts) == 1 || n < 2*macroRows {
		return nil
	}
	m.MacroF1, m.MacroF1Zero = 0, 0
	var rows []int
	at := 0
	for _, p := range t.data.Parts {
		for range p.Truth.Rows() {
			rows = append(rows, at)
			at++
		}
		if len(rows) < macroRows || n-at < macroRows && at < n {
			continue
		}
		r, err := labels.Evaluate(t.truth.Select(rows), predicted.Select(rows))
		if err != nil {
			return err
		}
		weight := float64(len(rows)) / float64(n)
		m.MacroF1 += weight * r.Mulan.Macro.F1
		m.MacroF1Zero += weight * r.Zero.Macro.F1
		rows = rows[:0]
	}
	return nil
}

// cut makes thresholds of scores.
func (t *trials) cut(scores *vector.CSR, c LCIFCut) (*labels.Thresholds, error) {
	switch {
	case len(scores.Index) == 0:
		// Without scores nothing is predicted, whatever the threshold.
		return &labels.Thresholds{KeepTop: !c.NoTop}, nil
	case c.PerLabel:
		return labels.LabelThresholds(scores, t.data.Train, !c.NoTop)
	}
	return labels.SingleThreshold(scores, c.Share*t.data.Train.Cardinality(), !c.NoTop)
}

// blender goes over the combined scores of all rows, which are never stored:
// merging two sorted lists again is cheaper.
type blender struct {
	t                 *trials
	lambda            float64
	instance, feature *vector.CSR
}

// survey is precision@1, @3 and @5, and how many scores there are by their
// upper bits, without the best of each row.
func (b *blender) survey(ctx context.Context) (precision [3]float64, histogram []int, err error) {
	type partial struct {
		hits  [3]int
		count [1 << scoreBits]int
	}
	var mu sync.Mutex
	var partials []*partial
	err = eachRow(ctx, b.t.truth.Rows(), b.t.workers, func() func(int) {
		p := new(partial)
		mu.Lock()
		partials = append(partials, p)
		mu.Unlock()
		var row vector.Sparse
		var ranked []labels.Ranked
		return func(i int) {
			clearSparse(&row)
			combine(b.lambda, b.instance.Row(i), b.feature.Row(i), &row)
			ranked = labels.Rank(ranked[:0], row, 5)
			for place, r := range ranked {
				if _, ok := slices.BinarySearch(b.t.truth.Row(i), r.Label); !ok {
					continue
				}
				for j, k := range [...]int{1, 3, 5} {
					if place < k {
						p.hits[j]++
					}
				}
			}
			for _, x := range row.Value {
				p.count[math.Float32bits(x)>>(31-scoreBits)]++
			}
			if len(ranked) > 0 {
				p.count[math.Float32bits(ranked[0].Score)>>(31-scoreBits)]--
			}
		}
	})
	if err != nil {
		return precision, nil, err
	}
	histogram = make([]int, 1<<scoreBits)
	var hits [3]int
	for _, p := range partials {
		for i, n := range p.count {
			histogram[i] += n
		}
		for j, n := range p.hits {
			hits[j] += n
		}
	}
	for j, k := range [...]int{1, 3, 5} {
		if n := b.t.truth.Rows() * k; n > 0 {
			precision[j] = float64(hits[j]) / float64(n)
		}
	}
	return precision, histogram, nil
}

// lowest is a score that a threshold can depend on at the lowest if about want
// scores shall pass it: those equal in their upper bits to the last one to
// pass, and to the one below, which the threshold keeps a distance from.
func lowest(histogram []int, want float64) float32 {
	n, reached := 0, false
	for i := len(histogram) - 1; i >= 0; i-- {
		if histogram[i] == 0 {
			continue
		}
		if reached {
			return math.Float32frombits(uint32(i) << (31 - scoreBits))
		}
		n += histogram[i]
		reached = float64(n) >= want+1
	}
	return 0
}

// above is the scores of at least limit, and the best of each row: all that a
// threshold above the limit can tell apart.
func (b *blender) above(ctx context.Context, limit float32) (*vector.CSR, error) {
	rows := make([]vector.Sparse, b.t.truth.Rows())
	err := eachRow(ctx, len(rows), b.t.workers, func() func(int) {
		var row vector.Sparse
		return func(i int) {
			clearSparse(&row)
			combine(b.lambda, b.instance.Row(i), b.feature.Row(i), &row)
			top := float32(0)
			for _, x := range row.Value {
				top = max(top, x)
			}
			n := 0
			for j, x := range row.Value {
				// Labels that tie with the best stay: the smallest is the best.
				if x >= limit || x == top {
					row.Index[n], row.Value[n] = row.Index[j], x
					n++
				}
			}
			rows[i] = vector.Sparse{Index: slices.Clone(row.Index[:n]), Value: slices.Clone(row.Value[:n])}
		}
	})
	if err != nil {
		return nil, err
	}
	return stack(rows, b.t.truth.Labels()), nil
}
