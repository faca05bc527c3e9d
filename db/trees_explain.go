package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// TreePath is the path of a row through a budgeted tree (Liu 2017, section 6): the decisions
// from the root to a leaf, with the parts of each.
type TreePath struct {
	// Class is the class that the tree separates from the rest; empty if there is only one
	// tree.
	Class string
	// Path lists the decisions in order; empty for a tree that is a leaf.
	Path []TreeDecision
	// Labels is the answer of the leaf: a label set, which may be empty, or for SBT the
	// class, empty if it is the rest.
	Labels []string
	// Rows is the number of training rows in the leaf, Agree the number of those that have the
	// leaf's answer.
	Rows, Agree int
}

// TreeDecision is a decision on the path of a row.
type TreeDecision struct {
	// Node is the number of the decision's node in the index.
	Node int
	// Label is the label that a decision of AT is about; otherwise empty.
	Label string
	// Yes reports whether the decision is positive: if more than half of the Voters classifiers
	// have a margin above zero. Votes is their number; the mean margin decides ties.
	Yes           bool
	Votes, Voters int
	// Margin is the mean margin: the sum of Offset and all Contributions, except for rounding.
	Margin, Offset float64
	// Features is the number of features that the decision uses. Contributions lists those that
	// the row has, by decreasing magnitude.
	Features      int
	Contributions []TreeContribution
	// Always lists labels that all training rows of the node have (AT).
	Always []string
	// Rows is the number of training rows that reached the node, Errors the number of those
	// that cross-validation misclassified there (SBT).
	Rows, Errors int
}

// TreeContribution is the contribution of a feature of a row to a decision: its weight, the
// mean over the classifiers, times its value. The value is the one that the tree uses, weighed
// and scaled as TreeOptions select.
type TreeContribution struct {
	Feature       string
	Weight, Value float32
	Margin        float64
}

// treeModel returns the budgeted tree that the index name selects.
func (st *collState) treeModel(ctx context.Context, index string) (*treeModel, error) {
	state, err := st.labelModel(ctx, index)
	if err != nil {
		return nil, err
	}
	t, ok := state.open.(*treeModel)
	if !ok {
		return nil, fmt.Errorf("%w: index %q of %q is no tree", errKind, state.m.Info.Name, st.c.Name)
	}
	return t, nil
}

// path returns the path of a prepared row through a tree.
func (t *treeModel) path(p *budget.Predictor, x vector.Sparse, tree int) (*TreePath, error) {
	e := p.Explain(x, tree)
	out := &TreePath{Rows: e.Rows, Agree: e.Rows}
	several := len(t.model.Roots) > 1
	switch {
	case t.model.Kind != budget.SBT:
		out.Labels = t.labels(e.Set)
	case e.Class > 0:
		out.Agree = e.Positive
		if out.Labels = []string{t.label(1)}; several {
			out.Labels = []string{t.label(uint32(tree))}
		}
	default:
		out.Agree = e.Rows - e.Positive
		if !several {
			out.Labels = []string{t.label(0)}
		}
	}
	if several {
		out.Class = t.label(uint32(tree))
	}
	for _, d := range e.Path {
		to := TreeDecision{
			Node: d.Node, Yes: d.Left, Votes: d.Votes, Voters: d.Voters, Margin: d.Margin, Offset: d.Offset,
			Features: d.Selected, Always: t.labels(d.Ones), Rows: d.Rows, Errors: d.Errors,
		}
		if t.model.Kind == budget.AT {
			to.Label = t.label(d.Label)
		}
		for _, c := range d.Contributions {
			name, err := t.st.featureName(c.Feature)
			if err != nil {
				return nil, err
			}
			to.Contributions = append(to.Contributions, TreeContribution{name, c.Weight, c.Value, c.Margin})
		}
		out.Path = append(out.Path, to)
	}
	return out, nil
}

// predict predicts by the leaf that a row reaches.
func (t *treeModel) predict(
	_ context.Context, x vector.Sparse, o *PredictOptions,
) (out Predictions, err error) {
	if o.Params != nil {
		return out, fmt.Errorf("%w: Params are for label models of kind %s", errOption, kindLCIF)
	}
	if o.Strategy != postings.Auto {
		return out, fmt.Errorf("%w: strategy %v is for label models of kind %s", errOption, o.Strategy, kindLCIF)
	}
	x = t.prepare(x)
	p := t.pool.Get().(*budget.Predictor)
	defer t.pool.Put(p)
	answers := t.answers(p, x, o)
	for _, a := range answers {
		out.Labels = append(out.Labels, Prediction{Label: t.label(a.Label), Score: a.Score, Predicted: a.predicted})
	}
	if o.Explain {
		err = t.explain(p, x, answers, &out)
	}
	return out, err
}

// explain fills in the paths of a prepared row: for each label the path through its tree, and the
// path through the only tree or, with one tree per class, through that of the predicted class.
func (t *treeModel) explain(
	p *budget.Predictor, x vector.Sparse, answers []treeAnswer, out *Predictions,
) (err error) {
	several := len(t.model.Roots) > 1
	paths := map[int]*TreePath{}
	path := func(tree int) (*TreePath, error) {
		var err error
		if paths[tree] == nil {
			paths[tree], err = t.path(p, x, tree)
		}
		return paths[tree], err
	}
	predicted := 0
	if several {
		predicted, _ = p.Class(x)
	}
	if out.Tree, err = path(predicted); err != nil {
		return err
	}
	for i, a := range answers {
		tree := 0
		if several {
			tree = int(a.Label)
		}
		through, err := path(tree)
		if err != nil {
			return err
		}
		to := &out.Labels[i]
		to.Explanation = &PredictionExplanation{Tree: through, Decision: through.decides(to.Label)}
	}
	return nil
}

// predictMany does nothing: trees predict queries one by one.
func (t *treeModel) predictMany(
	context.Context, manyQueries, *PredictOptions, []Predictions,
) (bool, error) {
	return false, nil
}

// decides returns the index of the decision that found a label present, -1 if there is none.
func (p *TreePath) decides(label string) int {
	return slices.IndexFunc(p.Path, func(d TreeDecision) bool {
		return d.Yes && d.Label == label || slices.Contains(d.Always, label)
	})
}

// TreePicture returns a picture of a stored tree: the decisions with the names of their
// features and labels. nil options are the defaults; Names is ignored. classes selects trees if
// there is one per class.
//
// Errors: ErrNotFound, ErrInvalid for a name that no class has.
func (c Collection) TreePicture(
	index string, o *budget.PictureOptions, classes ...string,
) (picture *budget.Picture, err error) {
	if o == nil {
		o = &budget.PictureOptions{}
	}
	err = c.read(func(st *collState) error {
		t, err := st.treeModel(context.Background(), index)
		if err != nil {
			return err
		}
		picture, err = t.picture(*o, classes)
		return err
	})
	return picture, err
}

func (t *treeModel) picture(o budget.PictureOptions, classes []string) (_ *budget.Picture, err error) {
	for _, c := range classes {
		at := -1
		for i := range t.model.Roots {
			if len(t.model.Roots) > 1 && t.label(uint32(i)) == c {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("%w: collection %q has no tree for class %q", errOption, t.st.about().Name, c)
		}
		o.Trees = append(o.Trees, at)
	}
	o.Names = budget.Names{Label: t.label}
	if t.st.about().Renamed {
		o.Names.Feature = func(f uint32) string {
			name, e := t.st.featureName(f)
			if err == nil {
				err = e
			}
			return name
		}
	}
	picture := t.model.Picture(o)
	return picture, err
}
