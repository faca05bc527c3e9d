package lcifindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

var predictors = sync.Pool{New: func() any { return &predictScratch{p: lcif.NewPredictor()} }}

type predictScratch struct {
	p     *lcif.Predictor
	found []labels.Ranked
	all   []kind.Ranked // with a score, for probabilities
}

// Names returns the names of the labels.
func (m *labelModel) Names() []string {
	out := make([]string, m.view.Labels.Labels())
	for l := range out {
		out[l] = m.name(uint32(l))
	}
	return out
}

// Predict predicts the labels of a query by nearest rows and features.
func (m *labelModel) Predict(
	ctx context.Context, x vector.Sparse, o *kind.LabelAsk, a *kind.LabelAnswer,
) (err error) {
	view := m.among(o.Rows)
	p := m.paramsFor(o)
	x = m.prepare(x)
	sc := predictors.Get().(*predictScratch) // not returned to the pool if there is an error
	if m.view.Vector != nil {
		sc.p.Vector = o.Vector
	}
	sc.found, a.Stats, err = sc.p.Predict(ctx, view, x, &p, sc.found[:0])
	if err != nil {
		return predictError(m.st.Collection().Name, err)
	}
	a.Labels = m.rank(sc, a.Labels, &p, o)
	if o.Explain {
		o.Cuts(a, func(label uint32) kind.Cut {
			if p.Thresholds == nil {
				return kind.Cut{Rule: "the best label is predicted", Best: true}
			}
			return kind.Cut{Least: float32(p.Thresholds.Of(label)), OfScore: true}
		})
		if a.Evidence, err = m.explain(ctx, sc, view, x, &p); err != nil {
			return err
		}
	}
	sc.p.Vector = nil
	predictors.Put(sc)
	return nil
}

// among returns the view of the model whose neighbors are only rows of a set, nil for all.
func (m *labelModel) among(rows *roaring.Bitmap) *lcif.View {
	if rows == nil {
		return m.view
	}
	return m.view.Among(rows)
}

// row returns the features of a row, weighed or scaled as those of queries are.
func (m *labelModel) row(row uint32) vector.Sparse { return m.prepare(m.rows.Row(row)) }

// paramsFor returns the parameters that the options select.
func (m *labelModel) paramsFor(o *kind.LabelAsk) lcif.Params {
	p := m.params
	if o.Params != nil {
		p = m.grown(*o.Params)
	}
	switch {
	case o.Calibration != nil:
		p.Top = 1 // all labels are ranked by probability
	case o.Top > 0:
		p.Top = o.Top
	}
	return p
}

// rank appends the labels found for the last query.
func (m *labelModel) rank(
	sc *predictScratch, out []kind.Ranked, p *lcif.Params, o *kind.LabelAsk,
) []kind.Ranked {
	if o.Calibration != nil {
		return m.choose(sc, out, p, o)
	}
	if p.Top > 0 && o.Set {
		sc.found = sc.p.AppendSet(sc.found)
	}
	set := sc.p.Set()
	for _, f := range sc.found {
		_, predicted := slices.BinarySearch(set, f.Label)
		out = append(out, kind.Ranked{Ranked: f, Name: m.name(f.Label), Predicted: predicted})
	}
	return out
}

// choose appends the labels of the last query that are requested, by their probabilities.
func (m *labelModel) choose(
	sc *predictScratch, out []kind.Ranked, p *lcif.Params, o *kind.LabelAsk,
) []kind.Ranked {
	var set []uint32
	if o.Calibration.OwnSets {
		set = sc.p.Set()
	}
	sc.all, sc.found = sc.all[:0], sc.found[:0]
	scores := sc.p.Scores()
	for i, l := range scores.Index {
		r := kind.Ranked{Ranked: labels.Ranked{Label: l, Score: scores.Value[i]}}
		r.Probability = o.Calibration.Probability(lcif.Strength(p.Thresholds, r.Ranked), m.rowsWith(l))
		if r.Predicted = len(set) > 0 && set[0] == l; r.Predicted {
			set = set[1:]
		}
		sc.all = append(sc.all, r)
	}
	at, ask := len(out), *o
	ask.Top = cmp.Or(ask.Top, m.params.Top)
	out = ask.Choose(out, sc.all, m.rowsWith, m.view.Before)
	for i := range out[at:] {
		r := &out[at+i]
		r.Name = m.name(r.Label)
		sc.found = append(sc.found, r.Ranked)
	}
	return out
}

// rowsWith returns the number of rows of the segments that have a label.
func (m *labelModel) rowsWith(label uint32) int {
	if int(label) >= len(m.rowsOf) {
		return 0
	}
	return m.rowsOf[label]
}

func predictError(coll string, err error) error {
	if errors.Is(err, query.ErrParams) || errors.Is(err, query.ErrMethod) || errors.Is(err, postings.ErrParams) {
		return fmt.Errorf("%w: predict in %q: %w", fail.Option, coll, fail.Inner{Err: err})
	}
	return fail.Wrapf(err, "predict in %q", coll)
}

// explain explains the labels found for the last query.
func (m *labelModel) explain(
	ctx context.Context, sc *predictScratch, view *lcif.View, x vector.Sparse, params *lcif.Params,
) ([]lcif.LabelExplanation, error) {
	which := make([]uint32, len(sc.found))
	for i, r := range sc.found {
		which[i] = r.Label
	}
	found, err := sc.p.ExplainLabels(ctx, view, x, params, which)
	if err != nil {
		return nil, predictError(m.st.Collection().Name, err)
	}
	if len(found) != len(which) {
		return nil, fmt.Errorf("db: %d explanations for %d labels", len(found), len(which))
	}
	return found, m.count(ctx, found)
}

// count counts the rows with the features and labels of explanations, if rows have features.
func (m *labelModel) count(ctx context.Context, found []lcif.LabelExplanation) error {
	if m.segments == nil {
		return nil
	}
	with := map[uint32]*roaring.Bitmap{}
	for i := range found {
		e := &found[i]
		labelled, err := m.st.CachedLabel(m.name(e.Label))
		if err != nil {
			return err
		}
		if labelled == nil {
			continue
		}
		if m.rows.Deleted != nil {
			labelled = roaring.AndNot(labelled, m.rows.Deleted)
		}
		e.Labelled = int(labelled.GetCardinality())
		for j := range e.Features {
			f := &e.Features[j]
			if with[f.Feature] == nil {
				with[f.Feature], err = postingsindex.RowsWith(ctx, m.segments, m.rows.Set, m.covered, f.Feature)
				if err != nil {
					return err
				}
			}
			f.Rows = int(with[f.Feature].GetCardinality())
			f.Labelled = int(with[f.Feature].AndCardinality(labelled))
		}
	}
	return nil
}
