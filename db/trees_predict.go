package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// predict predicts by the leaf that a row reaches.
func (t *treeModel) predict(_ context.Context, x vector.Sparse, o *labelAsk, a *labelAnswer) error {
	if o.params != nil {
		return fmt.Errorf("%w: Params are for label models of kind lcif", fail.Option)
	}
	if o.strategy != postings.Auto {
		return fmt.Errorf("%w: strategy %v is for label models of kind lcif", fail.Option, o.strategy)
	}
	x = t.prepare(x)
	p := t.pool.Get().(*budget.Predictor)
	defer t.pool.Put(p)
	a.labels = t.answers(p, x, o, a.labels)
	if o.explain {
		t.explain(p, x, a)
	}
	return nil
}

// predictMany does nothing: trees predict queries one by one.
func (t *treeModel) predictMany(
	context.Context, manyQueries, *labelAsk, func(int, []ranked),
) (bool, error) {
	return false, nil
}

// explain fills in the paths of a prepared row: for each label the path through its tree, and the
// path through the only tree or, with one tree per class, through that of the predicted class.
func (t *treeModel) explain(p *budget.Predictor, x vector.Sparse, a *labelAnswer) {
	several := len(t.model.Roots) > 1
	paths := map[int]*treePath{}
	path := func(tree int) *treePath {
		if paths[tree] == nil {
			paths[tree] = t.path(p, x, tree)
		}
		return paths[tree]
	}
	predicted := 0
	if several {
		predicted, _ = p.Class(x)
	}
	a.tree = path(predicted)
	for _, r := range a.labels {
		tree := 0
		if several {
			tree = int(r.Label)
		}
		a.paths = append(a.paths, path(tree))
	}
}

// path returns the path of a prepared row through a tree.
func (t *treeModel) path(p *budget.Predictor, x vector.Sparse, tree int) *treePath {
	e := p.Explain(x, tree)
	out := &treePath{rows: e.Rows, agree: e.Rows}
	several := len(t.model.Roots) > 1
	switch {
	case t.model.Kind != budget.SBT:
		out.labels = t.labelNames(e.Set)
	case e.Class > 0:
		out.agree = e.Positive
		if out.labels = []string{t.label(1)}; several {
			out.labels = []string{t.label(uint32(tree))}
		}
	default:
		out.agree = e.Rows - e.Positive
		if !several {
			out.labels = []string{t.label(0)}
		}
	}
	if several {
		out.class = t.label(uint32(tree))
	}
	for _, d := range e.Path {
		to := treeDecision{Decision: d, always: t.labelNames(d.Ones)}
		if t.model.Kind == budget.AT {
			to.label = t.label(d.Label)
		}
		out.path = append(out.path, to)
	}
	return out
}

// decisions returns the number of decisions that a row takes in all trees.
func (t *treeModel) decisions(x vector.Sparse) (n int) {
	x = t.prepare(x)
	p := t.pool.Get().(*budget.Predictor)
	defer t.pool.Put(p)
	for tree := range t.model.Roots {
		_, steps := p.Leaf(x, tree)
		n += steps
	}
	return n
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
			return nil, fmt.Errorf("%w: collection %q has no tree for class %q", fail.Option, t.st.about().Name, c)
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
