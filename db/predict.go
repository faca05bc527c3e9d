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
	"github.com/anndb/anndb/vector"
)

// PredictOptions says how Snapshot.Predict predicts labels.
type PredictOptions struct {
	// Index is the label model to ask; the collection's only one if empty.
	Index string
	// Top asks for the Top best labels instead of the set that the thresholds
	// make of the scores.
	Top int
	// Set, beside Top, adds the labels of that set that are not among the Top
	// best: one call for both.
	Set bool
	// Params, when given, are used in place of those the model was built with.
	// A Beta other than the model's is right but slow.
	Params *query.LCIFParams
	// Strategy is how the inverted index of a label model over sparse rows is
	// searched for neighbours. All strategies find the same rows; postings.Auto
	// lets the planner choose.
	Strategy postings.Strategy
	// Explain fills Prediction.Explanation.
	Explain bool
}

// Prediction is a label with its confidence score: 0 to 1, or for KindSBT the
// margin of the last decision, which is negative where the tree says no.
type Prediction struct {
	Label string
	Score float32
	// Predicted says whether the label is in the set that the model predicts,
	// as it is for all labels unless the Top best were asked for.
	Predicted bool
	// Explanation says what carried the label; nil unless asked for.
	Explanation *PredictionExplanation
}

// PredictionExplanation says what a label's score is made of: for KindLCIF the
// rows and features with a share in it (Feremans 2020, definition 9), which
// together are the score, but for rounding; for trees the decisions.
type PredictionExplanation struct {
	// Tree is the row's path through the tree, which all labels of one tree
	// share; nil for KindLCIF, and all that follows is empty for trees. Decision
	// is the place in Tree.Path of the decision that found the label present; -1
	// where it was none, because the label is not in the leaf's answer or the
	// leaf alone has it.
	Tree     *TreePath
	Decision int
	// Instance and Feature are the parts of the score from nearest rows and
	// from features.
	Instance, Feature float64
	// Prior is the score of a label that is predicted by its frequency, because
	// nothing speaks for any label; all else is zero then.
	Prior float64
	// Neighbors and Features are those with a share, largest first.
	Neighbors []NeighborEvidence
	Features  []FeatureEvidence
}

// NeighborEvidence is the part of a label's score that a row carries.
type NeighborEvidence struct {
	Key               []byte
	Row               uint32
	Similarity, Share float64
	// Indirect is the part of Share from labels that the row's own nearest rows
	// have: its second-order score.
	Indirect float64
}

// FeatureEvidence is the part of a label's score that a feature carries.
type FeatureEvidence struct {
	Feature string
	Share   float64
}

// PredictStats counts the work of one prediction.
type PredictStats struct {
	query.LCIFStats
	// Unknown are the features of a query to a sparse collection that no row ever
	// had: names in ascending order, or numbers as the collection's Numbering has
	// them.
	Unknown []string
}

var predictors = sync.Pool{New: func() any { return &predictScratch{p: query.NewPredictor()} }}

type predictScratch struct {
	p     *query.Predictor
	found []labels.Ranked
	rows  vector.CSR // of a batch
}

// Predict predicts the labels of a query by a label model, highest score first.
//
// A model of kind lcif sees what was written and deleted since its build as
// neighbours: new rows are compared one by one, with their labels, which may be
// new, too; deleted ones are gone. Feature–label similarities are those of the
// build or the last maintenance: until then a new label has no similarity to any
// feature, and new features count in the length of rows and queries only. So do
// features that no row has. A model that weighs values or keeps a selection of
// features leaves both out. Thresholds, and weights and selection
// of features, are those of the build; a new label has the threshold of all. Where
// nothing speaks for any label, as for a query without known features, scores are
// the shares of the rows that have each label, as of the build or the last
// maintenance. Of
// labels with equal scores the one whose name is less, byte by byte, comes first.
// Second-order scores use the nearest rows of rows as of the build or the last
// maintenance; rows written since count with their own labels only.
// In feature scores a coordinate below zero counts as zero, as it does in rows.
// Trees see only the rows that they were learned from.
//
// The score of an annotation or powerset tree is the chance of coming to a leaf
// that has the label, that of a tree of kind sbt the margin of its last
// decision; without Top such trees answer one class.
//
// Errors: ErrNoCollection, ErrKind, ErrNoIndex, ErrFeatures, ErrOption,
// ErrCorrupt, ErrClosed and the context's.
func (s *Snapshot) Predict(ctx context.Context, coll string, q SparseQuery, o *PredictOptions) (out []Prediction, stats PredictStats, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if o == nil {
		o = &PredictOptions{}
	}
	if err := checkStrategy(o.Strategy); err != nil {
		return nil, stats, err
	}
	st, asked, state, err := s.asked(ctx, coll, q, o.Index)
	if err != nil {
		return nil, stats, err
	}
	x := asked.features
	stats.Unknown = asked.unknown
	if state.tree != nil {
		if o.Params != nil {
			return nil, stats, fmt.Errorf("%w: Params are for label models of kind %s", ErrOption, KindLCIF)
		}
		if o.Strategy != postings.Auto {
			return nil, stats, fmt.Errorf("%w: strategy %v is for label models of kind %s", ErrOption, o.Strategy, KindLCIF)
		}
		out, err = st.predictTree(state.tree, x, o)
		return out, stats, err
	}
	m := state.model
	if o.Strategy != postings.Auto && !st.c.Sparse {
		return nil, stats, fmt.Errorf("%w: strategy %v is for inverted indexes, %q is dense", ErrOption, o.Strategy, coll)
	}
	p := m.asked(o)
	x = m.prepare(x)
	sc := predictors.Get().(*predictScratch)
	sc.p.SetStrategy(o.Strategy)
	sc.found, stats.LCIFStats, err = sc.p.Predict(ctx, m.view, x, &p, sc.found[:0])
	if err != nil {
		return nil, stats, predictError(coll, err)
	}
	out = sc.predictions(nil, m.name, &p, o)
	if o.Explain {
		if err := st.explain(ctx, sc, m, x, &p, out); err != nil {
			return nil, stats, err
		}
	}
	predictors.Put(sc)
	return out, stats, nil
}

// prepare weighs or scales a query as the rows of the model were, in memory of its
// own.
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

// asked is the parameters that options ask for.
func (m *labelModel) asked(o *PredictOptions) query.LCIFParams {
	p := m.params
	if o.Params != nil {
		p = m.grown(*o.Params)
	}
	if o.Top > 0 {
		p.Top = o.Top
	}
	return p
}

// predictions appends what was found for the last query, with names.
func (sc *predictScratch) predictions(out []Prediction, name func(label uint32) string, p *query.LCIFParams, o *PredictOptions) []Prediction {
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
		return fmt.Errorf("%w: predict in %q: %w", ErrOption, coll, innerError{err})
	}
	return wrapf(err, "predict in %q", coll)
}

// labelQuery checks a query and lists its features by number.
func (st *collState) labelQuery(ctx context.Context, q SparseQuery) (asked askedFeatures, err error) {
	if st.c.Sparse {
		_, asked, err = st.sparseQuery(ctx, q)
		return asked, err
	}
	if q.Sparse.Len() > 0 || len(q.Features) > 0 {
		return asked, fmt.Errorf("%w: %q is dense", ErrKind, st.c.Name)
	}
	if err := checkQuery(q.Vector, st.c.Dim); err != nil {
		return asked, err
	}
	return askedFeatures{features: listed(q.Vector)}, nil
}

// labelModel finds and loads a label model.
func (st *collState) labelModel(ctx context.Context, name string) (*indexState, error) {
	name, err := st.only(name, "", (*manifest).predicts)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("%w: collection %q has no label model: build one of kind %s", ErrNoIndex, st.c.Name, KindLCIF)
	}
	r := st.c.index(name)
	if r == nil {
		return nil, wrapf(noIndex(st.c, name), "label model")
	}
	x, err := st.index(ctx, r)
	if err != nil {
		return nil, err
	}
	if !x.m.predicts() {
		return nil, fmt.Errorf("%w: index %q of %q is no label model", ErrKind, name, st.c.Name)
	}
	return x, nil
}

// explain fills in the explanations of predictions.
func (st *collState) explain(ctx context.Context, sc *predictScratch, m *labelModel, x vector.Sparse, params *query.LCIFParams, out []Prediction) error {
	which := make([]uint32, len(sc.found))
	for i, r := range sc.found {
		which[i] = r.Label
	}
	found, err := sc.p.ExplainLabels(ctx, m.view, x, params, which)
	if err != nil {
		return predictError(st.c.Name, err)
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
			e.Neighbors = append(e.Neighbors, NeighborEvidence{slices.Clone(key), n.Row, n.Similarity, n.Share, n.Indirect})
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
