package treeindex

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Predict predicts by the leaf that a row reaches: its label set, or the top labels by the probability of
// reaching a leaf that has them, or both.
func (t *Model) Predict(_ context.Context, x vector.Sparse, o *kind.LabelAsk, a *kind.LabelAnswer) error {
	if err := o.RefuseNeighbors("trees"); err != nil {
		return err
	}
	x = t.Prepare(x)
	if a.Stats.NoEvidence = !t.knows(x); a.Stats.NoEvidence {
		return nil
	}
	p := t.pool.Get().(*budget.Predictor)
	defer t.pool.Put(p)
	list, decisions := t.scored(p, x)
	if c := o.Calibration; c != nil {
		t.probable(list, c)
	} else {
		slices.SortStableFunc(list, byScore)
	}
	t.Answer(o, list, a)
	a.Decisions = decisions
	if o.Explain {
		cut := kind.Cut{Rule: "the labels of the leaf are predicted"}
		if t.Model.Kind == budget.SBT {
			cut = kind.Cut{Rule: "the best class is predicted", Best: true}
		}
		o.Cuts(a, func(uint32) kind.Cut { return cut })
		t.explain(p, x, a)
	}
	return nil
}

// knows reports whether a prepared query has any feature that the training rows had. Every vector of a
// dense collection has.
func (t *Model) knows(x vector.Sparse) bool {
	if !t.st.Collection().Sparse {
		return true
	}
	for i, f := range x.Index {
		_, known := slices.BinarySearch(t.known, f)
		if x.Value[i] != 0 && int(f) < t.Model.Cols && (known || t.known == nil) {
			return true
		}
	}
	return false
}

// explain fills in the paths of a prepared row: for each label the path through its tree, and the
// path through the only tree or, with one tree per class, through that of the predicted class.
func (t *Model) explain(p *budget.Predictor, x vector.Sparse, a *kind.LabelAnswer) {
	several := len(t.Model.Roots) > 1
	paths := map[int]*kind.TreePath{}
	path := func(tree int) *kind.TreePath {
		if paths[tree] == nil {
			paths[tree] = t.path(p, x, tree)
		}
		return paths[tree]
	}
	predicted := 0
	if several {
		predicted, _ = p.Class(x)
	}
	a.Tree = path(predicted)
	for _, r := range a.Labels {
		tree := 0
		if several {
			tree = int(r.Label)
		}
		a.Paths = append(a.Paths, path(tree))
	}
}

// path returns the path of a prepared row through a tree.
func (t *Model) path(p *budget.Predictor, x vector.Sparse, tree int) *kind.TreePath {
	e := p.Explain(x, tree)
	out := &kind.TreePath{Rows: e.Rows, Agree: e.Rows}
	several := len(t.Model.Roots) > 1
	switch {
	case t.Model.Kind != budget.SBT:
		out.Labels = t.NamesOf(e.Set)
	case e.Class > 0:
		out.Agree = e.Positive
		if out.Labels = []string{t.Name(1)}; several {
			out.Labels = []string{t.Name(uint32(tree))}
		}
	default:
		out.Agree = e.Rows - e.Positive
		if !several {
			out.Labels = []string{t.Name(0)}
		}
	}
	if several {
		out.Class = t.Name(uint32(tree))
	}
	for _, d := range e.Path {
		to := kind.TreeDecision{Decision: d, Always: t.NamesOf(d.Ones)}
		if t.Model.Kind == budget.AT {
			to.Label = t.Name(d.Label)
		}
		out.Path = append(out.Path, to)
	}
	return out
}

// Picture returns a picture of the trees, or of those of the classes, with the names of labels.
func (t *Model) Picture(o budget.PictureOptions, classes []string) (*budget.Picture, error) {
	for _, c := range classes {
		at := -1
		for i := range t.Model.Roots {
			if len(t.Model.Roots) > 1 && t.Name(uint32(i)) == c {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("%w: collection %q has no tree for class %q",
				fail.Option, t.st.Collection().Name, c)
		}
		o.Trees = append(o.Trees, at)
	}
	o.Names.Label = t.Name
	return t.Model.Picture(o), nil
}
