package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
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
	asked, x, err := s.asked(ctx, coll, q, o.Index)
	if err != nil {
		return nil, stats, err
	}
	stats.Unknown = asked.unknown
	out, stats.LCIFStats, err = x.open.(labelPredictor).predict(ctx, asked.features, o)
	return out, stats, err
}

// asked finds what a prediction asks and the label model it asks.
func (s *Snapshot) asked(ctx context.Context, coll string, q SparseQuery, index string) (asked askedFeatures, x *indexState, err error) {
	if err := ctx.Err(); err != nil {
		return asked, nil, wrapf(err, "predict")
	}
	st, err := s.collection(coll)
	if err != nil {
		return asked, nil, err
	}
	if asked, err = st.labelQuery(ctx, q); err != nil {
		return asked, nil, err
	}
	x, err = st.labelModel(ctx, index)
	return asked, x, err
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
	name, err := st.only(name, "", kind.predicts)
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
	if !x.m.kind().predicts() {
		return nil, fmt.Errorf("%w: index %q of %q is no label model", ErrKind, name, st.c.Name)
	}
	return x, nil
}
