package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

var predictors = sync.Pool{New: func() any { return &predictScratch{p: lcif.NewPredictor()} }}

type predictScratch struct {
	p      *lcif.Predictor
	found  []labels.Ranked
	ranked []ranked
	rows   vector.CSR // the queries of predictMany
}

func (m *labelModel) label(l uint32) string { return m.name(l) }
func (m *labelModel) labels() int           { return m.view.Labels.Labels() }

// predict predicts the labels of a query by nearest rows and features.
func (m *labelModel) predict(ctx context.Context, x vector.Sparse, o *labelAsk, a *labelAnswer) (err error) {
	if c := m.st.about(); o.strategy != postings.Auto && !c.Sparse {
		return fmt.Errorf("%w: strategy %v is for inverted indexes, %q is dense", fail.Option, o.strategy, c.Name)
	}
	p := m.paramsFor(o)
	x = m.prepare(x)
	sc := predictors.Get().(*predictScratch) // not returned to the pool if there is an error
	sc.p.SetStrategy(o.strategy)
	sc.found, a.stats, err = sc.p.Predict(ctx, m.view, x, &p, sc.found[:0])
	if err != nil {
		return predictError(m.st.about().Name, err)
	}
	a.labels = sc.rank(a.labels, &p, o)
	if o.explain {
		if a.evidence, err = m.explain(ctx, sc, x, &p); err != nil {
			return err
		}
	}
	predictors.Put(sc)
	return nil
}

// predictMany predicts the labels of all queries in one pass over the index and the
// similarities.
func (m *labelModel) predictMany(
	ctx context.Context, queries manyQueries, o *labelAsk, found func(i int, labels []ranked),
) (bool, error) {
	if o.strategy != postings.Auto && !m.st.about().Sparse {
		return false, nil
	}
	sc := predictors.Get().(*predictScratch) // not returned to the pool if there is an error
	sc.p.SetStrategy(o.strategy)
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
	_, err := sc.p.PredictRows(ctx, m.view, rows, &p, func(i int, of []labels.Ranked) {
		sc.found = append(sc.found[:0], of...)
		sc.ranked = sc.rank(sc.ranked[:0], &p, o)
		found(i, sc.ranked)
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
func (m *labelModel) paramsFor(o *labelAsk) lcif.Params {
	p := m.params
	if o.params != nil {
		p = m.grown(*o.params)
	}
	if o.top > 0 {
		p.Top = o.top
	}
	return p
}

// rank appends the labels found for the last query.
func (sc *predictScratch) rank(out []ranked, p *lcif.Params, o *labelAsk) []ranked {
	if p.Top > 0 && o.set {
		sc.found = sc.p.AppendSet(sc.found)
	}
	set := sc.p.Set()
	for _, f := range sc.found {
		_, predicted := slices.BinarySearch(set, f.Label)
		out = append(out, ranked{f, predicted})
	}
	return out
}

func predictError(coll string, err error) error {
	if errors.Is(err, query.ErrParams) || errors.Is(err, query.ErrMethod) || errors.Is(err, postings.ErrParams) {
		return fmt.Errorf("%w: predict in %q: %w", fail.Option, coll, fail.Inner{Err: err})
	}
	return fail.Wrapf(err, "predict in %q", coll)
}

// explain explains the labels found for the last query.
func (m *labelModel) explain(
	ctx context.Context, sc *predictScratch, x vector.Sparse, params *lcif.Params,
) ([]lcif.LabelExplanation, error) {
	which := make([]uint32, len(sc.found))
	for i, r := range sc.found {
		which[i] = r.Label
	}
	found, err := sc.p.ExplainLabels(ctx, m.view, x, params, which)
	if err != nil {
		return nil, predictError(m.st.about().Name, err)
	}
	if len(found) != len(which) {
		return nil, fmt.Errorf("db: %d explanations for %d labels", len(found), len(which))
	}
	return found, nil
}
