package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
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

// treeReader is a budgeted tree, which has decisions to count and to draw.
type treeReader interface {
	// Decisions returns the number of decisions that a row takes in all trees.
	Decisions(x vector.Sparse) int
	Picture(o budget.PictureOptions, classes []string) (*budget.Picture, error)
}

// Model returns the budgeted tree that the index name selects.
func treeModel(ctx context.Context, st *state.Collection, index string) (treeReader, error) {
	model, err := labelModel(ctx, st, index)
	if err != nil {
		return nil, err
	}
	t, ok := model.Opened.(treeReader)
	if !ok {
		return nil, fmt.Errorf("%w: index %q of %q is no tree", fail.Kind, model.Manifest.Info.Name, st.Entry.Name)
	}
	return t, nil
}

// TreePath returns the public form of a path through a tree.
func treePath(st *state.Collection, p *kind.TreePath) (*TreePath, error) {
	out := &TreePath{Class: p.Class, Labels: p.Labels, Rows: p.Rows, Agree: p.Agree}
	for _, d := range p.Path {
		to := TreeDecision{
			Node: d.Node, Label: d.Label, Yes: d.Left, Votes: d.Votes, Voters: d.Voters, Margin: d.Margin,
			Offset: d.Offset, Features: d.Selected, Always: d.Always, Rows: d.Rows, Errors: d.Errors,
		}
		for _, c := range d.Contributions {
			name, err := st.FeatureName(c.Feature)
			if err != nil {
				return nil, err
			}
			to.Contributions = append(to.Contributions, TreeContribution{name, c.Weight, c.Value, c.Margin})
		}
		out.Path = append(out.Path, to)
	}
	return out, nil
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
	err = c.read(func(st *state.Collection) error {
		t, err := treeModel(context.Background(), st, index)
		if err != nil {
			return err
		}
		picture, err = t.Picture(*o, classes)
		return err
	})
	return picture, err
}
