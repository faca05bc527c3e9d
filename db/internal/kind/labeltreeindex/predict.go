package labeltreeindex

import (
	"context"
	"slices"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/labeltree"
	"github.com/anndb/anndb/vector"
)

// scratch is the memory of a prediction.
type scratch struct {
	p         *labeltree.Predictor
	x, scores vector.Sparse
	room      []float32
	all       []kind.Ranked
}

// certain is the score from which a label is predicted by a model without probabilities: as likely as not.
const certain = 0.5

// Predict implements kind.LabelPredictor.
func (t *model) Predict(_ context.Context, x vector.Sparse, o *kind.LabelAsk, a *kind.LabelAnswer) error {
	if err := o.RefuseNeighbors("linear classifiers"); err != nil {
		return err
	}
	s := t.pool.Get().(*scratch)
	defer t.pool.Put(s)
	t.input.encode(&s.x, x, o.Vector, &s.room)
	if a.Stats.NoEvidence = len(s.x.Index) == 0; a.Stats.NoEvidence {
		return nil
	}
	s.scores.Index, s.scores.Value = s.scores.Index[:0], s.scores.Value[:0]
	s.p.Predict(s.x, &s.scores)
	t.Answer(o, t.ranked(s, o.Calibration), a)
	if o.Explain {
		o.Cuts(a, func(uint32) kind.Cut { return kind.Cut{Least: certain, OfScore: true} })
		t.explain(s.p, s.x, a)
	}
	return nil
}

// ranked returns the labels with a score, best first unless they have probabilities.
func (t *model) ranked(s *scratch, c *labels.Calibration) []kind.Ranked {
	s.all = s.all[:0]
	for i, l := range s.scores.Index {
		r := kind.Ranked{Ranked: labels.Ranked{Label: l, Score: s.scores.Value[i]}}
		if r.Predicted = r.Score >= certain; c != nil {
			r.Probability = c.Probability(r.Score, t.RowsWith(l))
		}
		s.all = append(s.all, r)
	}
	if c == nil {
		order := labels.Order{Before: t.Before}
		slices.SortFunc(s.all, func(a, b kind.Ranked) int { return order.Compare(a.Ranked, b.Ranked) })
		if len(s.all) > 0 && !t.opts.AllowEmpty {
			s.all[0].Predicted = true
		}
	}
	return s.all
}

// explain fills in the path through the tree to each label.
func (t *model) explain(p *labeltree.Predictor, x vector.Sparse, a *kind.LabelAnswer) {
	for _, r := range a.Labels {
		out := &kind.TreePath{Labels: []string{r.Name}, Rows: t.RowsWith(r.Label), Linear: true}
		path := p.Explain(x, r.Label)
		for i, step := range path {
			d := kind.TreeDecision{Decision: budget.Decision{
				Node: step.Node, Left: step.Margin > 0, Margin: step.Margin, Offset: step.Offset, Voters: 1,
			}}
			if i == len(path)-1 {
				d.Label = r.Name
			}
			for _, c := range step.Contributions {
				if c.Feature < uint32(t.input.Vectors) {
					d.Vector += c.Margin
					continue
				}
				c.Feature -= uint32(t.input.Vectors)
				d.Contributions = append(d.Contributions, budget.Contribution(c))
			}
			out.Path = append(out.Path, d)
		}
		a.Paths = append(a.Paths, out)
	}
}
