package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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
	rows  vector.CSR // the queries of predictMany
}

// predict predicts the labels of a query by nearest rows and features.
func (m *labelModel) predict(
	ctx context.Context, x vector.Sparse, o *PredictOptions,
) (out Predictions, err error) {
	if c := m.st.about(); o.Strategy != postings.Auto && !c.Sparse {
		return out, fmt.Errorf("%w: strategy %v is for inverted indexes, %q is dense",
			errOption, o.Strategy, c.Name)
	}
	p := m.paramsFor(o)
	x = m.prepare(x)
	sc := predictors.Get().(*predictScratch)
	sc.p.SetStrategy(o.Strategy)
	sc.found, out.Stats.Stats, err = sc.p.Predict(ctx, m.view, x, &p, sc.found[:0])
	if err != nil {
		return out, predictError(m.st.about().Name, err)
	}
	out.Labels = sc.predictions(nil, m.name, &p, o)
	if o.Explain {
		if err := m.explain(ctx, sc, x, &p, out.Labels); err != nil {
			return out, err
		}
	}
	predictors.Put(sc)
	return out, nil
}

// predictMany predicts the labels of all queries in one pass over the index and the
// similarities.
func (m *labelModel) predictMany(
	ctx context.Context, queries manyQueries, o *PredictOptions, out []Predictions,
) (bool, error) {
	if o.Strategy != postings.Auto && !m.st.about().Sparse {
		return false, nil
	}
	sc := predictors.Get().(*predictScratch) // not returned to the pool if there is an error
	sc.p.SetStrategy(o.Strategy)
	rows := &sc.rows
	rows.Ptr, rows.Index, rows.Cols = append(rows.Ptr[:0], 0), rows.Index[:0], 0
	rows.Value = append(rows.Value[:0], 0)[:0]
	for i := range queries.n {
		x, err := queries.query(i)
		if err != nil {
			return true, err
		}
		at := len(rows.Index)
		if m.scale != nil {
			x = m.prepare(x)
		}
		rows.Append(x)
		if m.idf != nil {
			weigh(vector.Sparse{Index: rows.Index[at:], Value: rows.Value[at:]}, m.idf)
		}
	}
	p := m.paramsFor(o)
	names := make([]string, m.view.Labels.Labels()) // of the predicted labels: all queries share one string
	name := func(label uint32) string {
		if names[label] == "" {
			names[label] = m.name(label)
		}
		return names[label]
	}
	var room []Prediction // shared by the predictions of several queries
	_, err := sc.p.PredictRows(ctx, m.view, rows, &p, func(i int, found []labels.Ranked) {
		sc.found = append(sc.found[:0], found...)
		at := len(room)
		room = sc.predictions(room, name, &p, o)
		if n := len(room); n > at {
			out[i].Labels = room[at:n:n]
		}
		if cap(room)-len(room) < len(found) {
			room = make([]Prediction, 0, max(queries.n, 4*len(found)))
		}
	})
	if err != nil {
		return true, err
	}
	predictors.Put(sc)
	return true, nil
}

// prepare returns a copy of a query, weighed or scaled as the rows of the model are.
func (m *labelModel) prepare(x vector.Sparse) vector.Sparse {
	switch {
	case m.scale != nil:
		dense := make([]float32, len(m.scale.Mean))
		for i, j := range x.Index {
			dense[j] = x.Value[i]
		}
		return listed(m.scale.Apply(make([]float32, 0, len(dense)), dense))
	case m.idf != nil:
		x = vector.Sparse{Index: slices.Clone(x.Index), Value: slices.Clone(x.Value)}
		weigh(x, m.idf)
	}
	return x
}

// paramsFor returns the parameters that the options select.
func (m *labelModel) paramsFor(o *PredictOptions) lcif.Params {
	p := m.params
	if o.Params != nil {
		p = m.grown(*o.Params)
	}
	if o.Top > 0 {
		p.Top = o.Top
	}
	return p
}

// predictions appends the labels found for the last query, with names.
func (sc *predictScratch) predictions(
	out []Prediction, name func(label uint32) string, p *lcif.Params, o *PredictOptions,
) []Prediction {
	if p.Top > 0 && o.Set {
		sc.found = sc.p.AppendSet(sc.found)
	}
	set := sc.p.Set()
	for _, f := range sc.found {
		_, predicted := slices.BinarySearch(set, f.Label)
		out = append(out, Prediction{Label: name(f.Label), Score: f.Score, Predicted: predicted})
	}
	return out
}

func predictError(coll string, err error) error {
	if errors.Is(err, query.ErrParams) || errors.Is(err, query.ErrMethod) || errors.Is(err, postings.ErrParams) {
		return fmt.Errorf("%w: predict in %q: %w", errOption, coll, innerError{err})
	}
	return wrapf(err, "predict in %q", coll)
}

// explain fills in the explanations of predictions.
func (m *labelModel) explain(
	ctx context.Context, sc *predictScratch, x vector.Sparse, params *lcif.Params, out []Prediction,
) error {
	st := m.st
	which := make([]uint32, len(sc.found))
	for i, r := range sc.found {
		which[i] = r.Label
	}
	found, err := sc.p.ExplainLabels(ctx, m.view, x, params, which)
	if err != nil {
		return predictError(st.about().Name, err)
	}
	if len(found) != len(out) {
		return fmt.Errorf("db: %d explanations for %d labels", len(found), len(out))
	}
	for i, f := range found {
		e := &PredictionExplanation{Instance: f.Instance, Feature: f.Feature, Prior: f.Prior}
		for _, n := range f.Neighbors {
			key, err := st.key(n.Row)
			if err != nil {
				return err
			}
			e.Neighbors = append(e.Neighbors,
				NeighborEvidence{slices.Clone(key), n.Row, n.Similarity, n.Share, n.Indirect})
		}
		for _, n := range f.Features {
			name, err := st.featureName(n.Feature)
			if err != nil {
				return err
			}
			e.Features = append(e.Features, FeatureEvidence{name, n.Share})
		}
		out[i].Explanation = e
	}
	return nil
}
