package db

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
)

// explainLabels fills in the reasons of predictions.
func explainLabels(st *state.Collection, out *Predictions, a *kind.LabelAnswer) (err error) {
	paths := map[*kind.TreePath]*explain.Reason{nil: nil}
	path := func(p *kind.TreePath) (*explain.Reason, error) {
		why, known := paths[p]
		if !known {
			if why, err = reasonOfPath(st, p); err != nil {
				return nil, err
			}
			paths[p] = why
		}
		return why, nil
	}
	if out.Why, err = path(a.Tree); err != nil {
		return err
	}
	for i := range out.Labels {
		to := &out.Labels[i]
		switch {
		case len(a.Members) > 0:
			to.Why, err = reasonOfMembers(st, a.Members[i])
		case len(a.Paths) > 0:
			to.Why, err = path(a.Paths[i])
		default:
			to.Why, err = reasonOfLabel(st, &a.Evidence[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reasonOfHit describes how a search found a row.
func reasonOfHit(e *query.Explanation) *explain.Reason {
	out := &explain.Reason{Text: e.Source, Score: e.Estimate}
	if e.From != nil {
		out.Text += fmt.Sprintf(" %d from row %d", e.Hop, *e.From)
	}
	if e.Leaves == 0 {
		return out
	}
	compare := "above"
	if !e.Elected {
		compare = "not above"
	}
	out.Text += fmt.Sprintf(": votes %d in %d of %d leaves, estimate %.3g %s %.3g",
		e.Sum, len(e.Votes), e.Leaves, e.Estimate, compare, e.Threshold)
	if e.Sketch != nil {
		out.Text += fmt.Sprintf(", squared distance by sketch %.3g", *e.Sketch)
	}
	for _, v := range e.Votes {
		share := float64(v.Votes) / float64(max(v.Points, 1))
		leaf := fmt.Sprintf("tree %d, leaf %d", v.Tree, v.Leaf)
		out.Parts = append(out.Parts, explain.Reason{Text: leaf, Score: share})
	}
	return out
}

// reasonOfTerms explains the score of a row by the terms of the query.
func reasonOfTerms(st *state.Collection, s *kind.Search, row uint32) (out *explain.Reason, err error) {
	out = &explain.Reason{Text: "terms"}
	s.TermParts(st.SparseRow(row), func(term uint32, count float32, weight, score float64) {
		name, e := st.FeatureName(term)
		if err == nil {
			err = e
		}
		out.Score += score
		out.Parts = append(out.Parts, explain.Reason{
			Text: fmt.Sprintf("%s (%g times, weight %.3g)", name, count, weight), Feature: name, Value: float64(count),
			Score: score,
		})
	})
	slices.SortStableFunc(out.Parts, func(a, b explain.Reason) int { return cmp.Compare(b.Score, a.Score) })
	return out, err
}

// reasonOfLabel explains the score of a label by rows and features.
func reasonOfLabel(st *state.Collection, e *lcif.LabelExplanation) (*explain.Reason, error) {
	rows := explain.Reason{Text: "rows", Score: e.Instance}
	features := explain.Reason{Text: "features", Score: e.Feature}
	for _, n := range e.Neighbors {
		key, err := st.Key(n.Row)
		if err != nil {
			return nil, err
		}
		part := explain.Reason{Text: string(key), Key: slices.Clone(key), Value: n.Similarity, Score: n.Share}
		if n.Indirect > 0 {
			part.Parts = []explain.Reason{{Text: "its own nearest rows", Score: n.Indirect}}
		}
		rows.Parts = append(rows.Parts, part)
	}
	for _, f := range e.Features {
		name, err := st.FeatureName(f.Feature)
		if err != nil {
			return nil, err
		}
		features.Parts = append(features.Parts, explain.Reason{Text: name, Feature: name, Score: f.Share})
	}
	text := counted(len(e.Neighbors), "row") + ", " + counted(len(e.Features), "feature")
	return &explain.Reason{
		Text: text, Score: e.Instance + e.Feature, Parts: []explain.Reason{rows, features},
	}, nil
}

// reasonOfMembers explains the score of a label by those of the members of a model of several kinds.
func reasonOfMembers(st *state.Collection, shares []kind.MemberShare) (out *explain.Reason, err error) {
	out = &explain.Reason{}
	var texts []string
	for i := range shares {
		x := &shares[i]
		var why *explain.Reason
		if x.Path != nil {
			why, err = reasonOfPath(st, x.Path)
		} else {
			why, err = reasonOfLabel(st, x.Evidence)
		}
		if err != nil {
			return nil, err
		}
		out.Score += x.Share
		texts = append(texts, fmt.Sprintf("%s %.2f", x.Kind, x.Share))
		out.Parts = append(out.Parts, explain.Reason{Text: x.Kind, Score: x.Share, Parts: []explain.Reason{*why}})
	}
	out.Text = strings.Join(texts, ", ")
	return out, nil
}

// counted returns a number of things as text.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// reasonOfPath explains the answer of a leaf by the decisions on the path to it (Liu 2017, section 6).
func reasonOfPath(st *state.Collection, p *kind.TreePath) (*explain.Reason, error) {
	answer := "no label"
	switch {
	case len(p.Labels) > 0:
		answer = strings.Join(p.Labels, ", ")
	case p.Class != "":
		answer = "not " + p.Class
	}
	out, rows := &explain.Reason{}, counted(p.Rows, "training row")
	if n := len(p.Path); p.Linear && n > 0 {
		out.Text, out.Score = fmt.Sprintf("%s, of %s", answer, rows), p.Path[n-1].Margin
	} else {
		out.Text = fmt.Sprintf("%s in %d of %s", answer, p.Agree, rows)
		out.Score = float64(p.Agree) / float64(max(p.Rows, 1))
	}
	for i := range p.Path {
		d := &p.Path[i]
		decision := explain.Reason{Text: decisionText(d, p.Class), Score: d.Margin}
		for _, c := range d.Contributions {
			name, err := st.FeatureName(c.Feature)
			if err != nil {
				return nil, err
			}
			decision.Parts = append(decision.Parts, explain.Reason{
				Text: name, Feature: name, Value: float64(c.Value), Score: c.Margin,
			})
		}
		if d.Vector != 0 {
			decision.Parts = append(decision.Parts, explain.Reason{Text: "vector", Score: d.Vector})
		}
		decision.Parts = append(decision.Parts, explain.Reason{Text: "offset", Score: d.Offset})
		out.Parts = append(out.Parts, decision)
	}
	return out, nil
}

// decisionText describes a decision in the tree of a class, empty for the only tree.
func decisionText(d *kind.TreeDecision, class string) string {
	what := d.Label
	if what == "" {
		if what = fmt.Sprintf("node %d", d.Node); class != "" {
			what = class + ", " + what
		}
	}
	answer := "no"
	if d.Left {
		answer = "yes"
	}
	s := fmt.Sprintf("%s? %s (", what, answer)
	if d.Voters > 1 {
		s += fmt.Sprintf("%d of %d votes, ", max(d.Votes, d.Voters-d.Votes), d.Voters)
	}
	features, rows := counted(d.Selected, "feature"), counted(d.Rows, "row")
	s += fmt.Sprintf("%d of %s, %s", len(d.Contributions), features, rows)
	if d.Errors > 0 {
		s += ", " + counted(d.Errors, "error")
	}
	s += ")"
	if len(d.Always) > 0 {
		s += ", always " + strings.Join(d.Always, ", ")
	}
	return s
}
