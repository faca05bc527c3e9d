package db

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// PredictOptions selects how Collection.Predict predicts labels.
type PredictOptions struct {
	Index string `json:"index,omitempty"` // the label model; the default one of the collection if empty
	Top   int    `json:"top,omitempty"`   // if above zero, that many best labels replace the predicted set
	Set   bool   `json:"set,omitempty"`   // with Top: also those of the set that are not among the Top best
	// MinProbability, if above 0, leaves out labels of a smaller probability, and predicts all others.
	// Recall, if above 0, predicts the smallest sets by probability that have at least that share of a row's
	// labels on average, as the guide explains. Models without probabilities refuse both, and a Recall above
	// what a model can promise is refused.
	MinProbability float64 `json:"min_probability,omitempty"`
	Recall         float64 `json:"recall,omitempty"`
	// Frequent gives a query without evidence (Predictions.Labels) the most frequent labels of the
	// collection, as many as a row has on average, scored by their shares of the rows.
	Frequent bool `json:"frequent,omitempty"`
	// Params replace those of a model of kind lcif. Another Beta than the model's is exact, but slow.
	Params *lcif.Params `json:"params,omitempty"`
	// Where restricts the neighbors of a model of kind lcif to rows that pass a filter. Trees refuse it.
	Where   *filter.Filter `json:"where,omitempty"`
	Explain bool           `json:"explain,omitempty"` // fill in Prediction.Why and, for trees, Predictions.Why
	Workers int            `json:"-"`                 // goroutines of PredictBatch; below 1, all processors
}

// Predictions is the answer to a prediction.
type Predictions struct {
	// Labels are the labels, best first. There are none if no label is probable enough, or if the model
	// knows nothing of the query (Stats.NoEvidence): no feature of it or, for lcif, no label of its nearest
	// rows and features.
	Labels []Prediction `json:"labels"`
	// Why is the path through a tree, of several that of the predicted class; otherwise nil.
	Why   *explain.Reason    `json:"why,omitempty"`
	Stats trace.PredictStats `json:"stats,omitzero"`
}

// Prediction is a label with its confidence score: 0 to 1, or for SBT the margin of the last
// decision, which is negative if the tree rejects it.
type Prediction struct {
	Label string  `json:"label"`
	Score float32 `json:"score"`
	// Probability is that of the label being right, by the held-out rows of the build. It is 0 if there were
	// fewer than 50 of them with labels, or with PredictOptions.Params.
	Probability float32 `json:"probability,omitempty"`
	// Predicted reports whether the label is in the set that the model predicts; true without Top.
	Predicted bool `json:"predicted"`
	// Why explains the score, with PredictOptions.Explain; it is the same for all labels of one tree.
	Why *explain.Reason `json:"why,omitempty"`
}

// Predict predicts the labels of a query with a label model, best first: by probability, for psp@5 times
// inverse propensity, or, if the model has none, by score or, with a threshold for each label, by score
// divided by its threshold; equal ones by name. A query by Key predicts from the stored row, which counts as
// its own neighbor. The guide explains the scores, and what they know of rows written since the build.
func (c Collection) Predict(ctx context.Context, q Query, o *PredictOptions) (out Predictions, err error) {
	if o == nil {
		o = &PredictOptions{}
	}
	m, s := c.span(trace.Predict, 1)
	err = c.read(ctx, func(st *state.Collection) error {
		s.Index = cmp.Or(o.Index, st.Entry.DefaultModel())
		rows, err := decidedRows(ctx, st, o.Where)
		if err == nil {
			out, err = predictLabels(ctx, st, rowAsk{q: q}, o, rows)
		}
		return err
	})
	s.Results, s.Err = len(out.Labels), err
	m.End(ctx, s)
	return out, err
}

// PredictBatch returns what Predict does for each query, in one state and in parallel. Errors name the first
// query that failed.
func (c Collection) PredictBatch(
	ctx context.Context, queries []Query, o *PredictOptions,
) ([]Predictions, error) {
	if o == nil {
		o = &PredictOptions{}
	}
	m, s := c.span(trace.Predict, len(queries))
	var rows *roaring.Bitmap
	work := par.Work{N: len(queries), Workers: o.Workers}
	out, err := batch(ctx, c, work, func(st *state.Collection) (err error) {
		s.Index = cmp.Or(o.Index, st.Entry.DefaultModel())
		x, err := labelModel(ctx, st, o.Index)
		if err != nil {
			return err
		}
		if err = askProbabilities(x.Manifest, o, new(kind.LabelAsk)); err != nil {
			return err
		}
		rows, err = decidedRows(ctx, st, o.Where)
		return err
	}, func(st *state.Collection, i int, to *Predictions) (err error) {
		*to, err = predictLabels(ctx, st, rowAsk{q: queries[i]}, o, rows)
		return err
	})
	for i := range out {
		s.Results += len(out[i].Labels)
	}
	s.Err = err
	m.End(ctx, s)
	return out, err
}

// predictLabels predicts the labels of the query of ask. rows holds the rows that may be neighbors, nil
// for all.
func predictLabels(
	ctx context.Context, st *state.Collection, ask rowAsk, o *PredictOptions, rows *roaring.Bitmap,
) (out Predictions, err error) {
	x, err := ask.withModel(ctx, st, o.Index)
	if err != nil {
		return out, err
	}
	to := kind.LabelAsk{
		Vector: ask.q.Vector, Top: o.Top, Set: o.Set, Params: o.Params, Explain: o.Explain,
		Rows: rows, Filtered: o.Where.Expr() != where.Every(true),
	}
	if err := askProbabilities(x.Manifest, o, &to); err != nil {
		return out, err
	}
	a := answers.Get().(*kind.LabelAnswer) // not returned to the pool if there is an error
	if err := x.Opened.(kind.LabelPredictor).Predict(ctx, ask.features.features, &to, a); err != nil {
		return out, err
	}
	for _, r := range a.Labels {
		out.Labels = append(out.Labels, Prediction{
			Label: r.Name, Score: r.Score, Probability: r.Probability, Predicted: r.Predicted,
		})
	}
	out.Stats = trace.PredictStats{Stats: a.Stats, Decisions: a.Decisions, Unknown: ask.features.unknown}
	out.Stats.NoVector = a.Stats.NoEvidence && x.Manifest.Uses != "" && !ask.byVector
	switch {
	case out.Stats.NoEvidence && o.Frequent:
		if out.Labels, err = frequentLabels(st, o); err != nil {
			return Predictions{}, err
		}
	case o.Explain && !out.Stats.NoEvidence:
		if err := explainLabels(st, &out, a); err != nil {
			return Predictions{}, err
		}
	}
	*a = kind.LabelAnswer{Labels: a.Labels[:0]}
	answers.Put(a)
	return out, nil
}

// askProbabilities asks for probabilities if the model has a calibration, which is not that of other
// parameters.
func askProbabilities(m *kind.Manifest, o *PredictOptions, to *kind.LabelAsk) (err error) {
	c := m.Info.Calibration
	if o.Params != nil {
		c = nil
	}
	switch p, r := o.MinProbability, o.Recall; {
	case !(p >= 0 && p <= 1) || !(r >= 0 && r <= 1):
		return fmt.Errorf("%w: a probability of %g and a recall of %g: want 0 to 1", fail.Option, p, r)
	case p > 0 && r > 0:
		return fmt.Errorf("%w: MinProbability and Recall exclude each other", fail.Option)
	case o.Params != nil && (p > 0 || r > 0):
		return fmt.Errorf("%w: label model %q has probabilities with its own parameters only",
			fail.Option, m.Info.Name)
	case c == nil && (p > 0 || r > 0):
		return fmt.Errorf("%w: label model %q has no probabilities: a build makes them from %d rows or more "+
			"with labels that other rows have, too", fail.Option, m.Info.Name, labels.LeastCalibrationRows)
	case c == nil:
		return nil
	case r > 0:
		if to.Limit, err = c.Recall.At(r); err != nil {
			return fmt.Errorf("%w: label model %q: %w", fail.Option, m.Info.Name, fail.Inner{Err: err})
		}
	default:
		to.Limit, to.Least = float32(p), float32(p)
	}
	to.Calibration = c
	return nil
}

var answers = sync.Pool{New: func() any { return new(kind.LabelAnswer) }}

// withModel resolves the query and returns the label model that the index name selects.
func (a *rowAsk) withModel(ctx context.Context, st *state.Collection, index string) (*state.Index, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail.Wrapf(err, "predict")
	}
	if err := resolveQuery(ctx, st, a); err != nil {
		return nil, err
	}
	if !st.Entry.Sparse {
		a.features.features = kind.Listed(a.q.Vector)
	}
	x, err := labelModel(ctx, st, index)
	if err != nil {
		return nil, err
	}
	if m := x.Manifest; st.Entry.Sparse && !a.byFeatures && m.Uses == "" {
		err = fmt.Errorf(
			"%w: label model %q of %q has learned from the text or features only, and the query has none",
			fail.Option, m.Info.Name, st.Entry.Name)
	}
	return x, err
}

// Model finds and opens a label model.
func labelModel(ctx context.Context, st *state.Collection, name string) (*state.Index, error) {
	if name = cmp.Or(name, st.Entry.DefaultModel()); name == "" {
		return nil, fmt.Errorf(
			"%w: collection %q has no label model (kinds lcif, labeltree, auto-labels, sbt, pt, at)",
			fail.NoIndex, st.Entry.Name)
	}
	r := st.Entry.Index(name)
	if r == nil {
		return nil, layout.NoIndex(st.Entry, name)
	}
	x, err := st.OpenIndex(ctx, r)
	if err != nil {
		return nil, err
	}
	if !x.Manifest.Of.Traits().Predicts {
		return nil, fmt.Errorf("%w: index %q of %q is no label model", fail.Kind, name, st.Entry.Name)
	}
	return x, nil
}
