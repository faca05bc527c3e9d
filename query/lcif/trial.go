package lcif

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// trials measures settings on held-out rows. Shared values are computed once: neighbours for
// the largest k (smaller k use the first of them), and the two kinds of scores by their own
// parameters, so that another λ or threshold costs a pass over cached scores.
type trials struct {
	data    *HeldOut
	workers int
	truth   *labels.Matrix // of all parts, concatenated
	units   []*vector.CSR  // unit vectors by part
	lists   [][][]near     // neighbours by part and row, nearest first, deep of them per row
	deep    int
	// feature holds the feature scores by β. Few are kept if they are large.
	feature map[float64]scoreRows
}

// keepScores is the maximum memory in bytes of the cached feature scores of several β. The most
// recently requested scores are kept whatever their size.
const keepScores = 64 << 20

func newTrials(data *HeldOut, workers int) (*trials, error) {
	if len(data.Parts) == 0 || data.Train == nil {
		return nil, fmt.Errorf("%w: nothing held out", query.ErrParams)
	}
	t := &trials{data: data, workers: workers, feature: map[float64]scoreRows{}}
	all := vector.CSR{Ptr: []uint64{0}, Cols: data.Train.Labels()}
	for i, p := range data.Parts {
		if p.View == nil || p.Queries == nil || p.Truth == nil || p.Queries.Rows() != p.Truth.Rows() ||
			p.Truth.Labels() != all.Cols || p.View.Labels.Labels() != all.Cols {
			return nil, fmt.Errorf("%w: part %d does not fit: queries, their labels and the training labels differ",
				query.ErrParams, i)
		}
		for r := range p.Truth.Rows() {
			all.Index = append(all.Index, p.Truth.Row(r)...)
			all.Ptr = append(all.Ptr, uint64(len(all.Index)))
		}
		t.units = append(t.units, unitRows(p.Queries, p.View.Features, p.View.Keep))
	}
	var err error
	t.truth, err = labels.NewMatrix(all)
	return t, err
}

// neighbors searches for the k nearest rows of every query, unless they are cached.
func (t *trials) neighbors(ctx context.Context, k int, progress func(done, total int)) error {
	if t.deep >= k {
		return nil
	}
	lists := make([][][]near, len(t.data.Parts))
	done, total := 0, t.truth.Rows()
	for i, p := range t.data.Parts {
		if p.View.Neighbors == nil {
			return fmt.Errorf("%w: part %d finds no neighbours", query.ErrMethod, i)
		}
		var err error
		lists[i], err = neighborLists(ctx, p.View.Neighbors, p.Queries, t.units[i], k, t.workers,
			func(n, _ int) { progress(done+n, total) })
		if err != nil {
			return err
		}
		done += p.Queries.Rows()
	}
	t.lists, t.deep = lists, k
	return nil
}

// features returns the feature scores of all rows for beta.
func (t *trials) features(ctx context.Context, beta float64) (scoreRows, error) {
	if m := t.feature[beta]; m != nil {
		return m, nil
	}
	t.makeRoom()
	for i, p := range t.data.Parts {
		if p.Counts == nil {
			return nil, fmt.Errorf("%w: part %d has no feature–label counts", query.ErrMethod, i)
		}
	}
	scores := make(scoreRows, t.truth.Rows())
	rows := scores
	for i, p := range t.data.Parts {
		counts, err := p.Counts(ctx)
		if err != nil {
			return nil, err
		}
		powers, err := counts.Powers(beta)
		if err != nil {
			return nil, err
		}
		err = eachRow(ctx, p.Queries.Rows(), t.workers, func() func(int) {
			tally, dst := new(tally), new(vector.Sparse)
			tally.reset(t.truth.Labels())
			return func(r int) {
				clearSparse(dst)
				featureScores(tally, powers, beta, t.units[i].Row(r), dst)
				rows[r] = vector.Sparse{Index: slices.Clone(dst.Index), Value: slices.Clone(dst.Value)}
			}
		})
		if err != nil {
			return nil, err
		}
		rows = rows[p.Queries.Rows():]
	}
	t.feature[beta] = scores
	return scores, nil
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

// scoreRows holds the scores of rows.
type scoreRows []vector.Sparse

func (s scoreRows) bytes() int {
	n := 0
	for _, r := range s {
		n += 4*len(r.Index) + 4*len(r.Value)
	}
	return n
}

// trial is what was measured for a setting, and the thresholds that its cut gave.
type trial struct {
	Measures
	thresholds *labels.Thresholds
}

// measure measures settings, each with its own cut. Consecutive settings that differ only in k, λ and
// the cut share their scores.
func (t *trials) measure(ctx context.Context, settings []Setting,
	progress func(done, total int)) ([]trial, error) {
	out := make([]trial, 0, len(settings))
	for len(out) < len(settings) {
		s := t.newSweep(settings[len(out):])
		if err := s.run(ctx, progress); err != nil {
			return nil, err
		}
		found := make([]trial, len(s.settings))
		errs := make([]error, len(s.settings))
		err := eachRow(ctx, len(s.settings), t.workers, func() func(int) {
			return func(i int) {
				found[i], errs[i] = t.apply(s.scores(s.jobs[s.job[i]]), s.settings[i].Cut)
			}
		})
		if err := errors.Join(append(errs, err)...); err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// keep returns the number of labels of a row whose scores the thresholds of a cut are derived from: four
// times those that they predict for a row, or the least number.
func (t *trials) keep(c Cut) int {
	least := keptLabels
	if c.PerLabel {
		least = keptByLabel
	}
	need := math.Ceil(4 * c.Share * t.data.Train.Cardinality())
	return int(min(max(need, float64(least)), float64(t.truth.Labels())))
}

// apply derives thresholds from scores and measures their predictions.
func (t *trials) apply(scores *vector.CSR, c Cut) (trial, error) {
	thresholds, err := t.cut(scores, c)
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
	m := Measures{Precision: t.precision(scores, thresholds)}
	m.setMeasures(r)
	return trial{m, thresholds}, nil
}

// precision returns precision@1, @3 and @5 of the labels in the order of the thresholds.
func (t *trials) precision(scores *vector.CSR, thresholds *labels.Thresholds) (out [3]float64) {
	order := thresholds.Order(nil)
	at, hits := [...]int{1, 3, 5}, [3]int{}
	var ranked []labels.Ranked
	for r := range scores.Rows() {
		ranked = order.Rank(ranked[:0], scores.Row(r), 5)
		for place, x := range ranked {
			if _, ok := slices.BinarySearch(t.truth.Row(r), x.Label); !ok {
				continue
			}
			for i, k := range at {
				if place < k {
					hits[i]++
				}
			}
		}
	}
	for i, k := range at {
		out[i] = float64(hits[i]) / float64(k*max(1, scores.Rows()))
	}
	return out
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
