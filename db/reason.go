package db

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
)

// explainLabels fills in the reasons of predictions.
func explainLabels(st *state.Collection, out *Predictions, a *kind.LabelAnswer) (err error) {
	r := &rowReasons{st: st, known: map[uint32]explain.Reason{}}
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
		var why *explain.Reason
		switch {
		case len(a.Members) > 0:
			why, err = reasonOfMembers(r, a.Members[i])
		case len(a.Paths) > 0:
			why, err = path(a.Paths[i])
		default:
			why, err = reasonOfLabel(r, &a.Evidence[i])
		}
		if err != nil {
			return err
		}
		own := *why // labels of one tree share the parts
		own.Threshold = thresholdOf(&out.Labels[i], &out.Labels[0], a.Cuts[i])
		out.Labels[i].Why = &own
	}
	return nil
}

// thresholdOf describes how far a label is from the set that is predicted. best is the best label.
func thresholdOf(p, best *Prediction, cut kind.Cut) *explain.Threshold {
	of, side := "probability", "above"
	x, least := p.Probability, cut.Least
	if cut.Best {
		least = best.Probability
	}
	if cut.OfScore || cut.Best && least == 0 {
		of, x = "score", p.Score
		if cut.Best {
			least = best.Score
		}
	}
	out := &explain.Threshold{Value: float64(least), Distance: float64(x) - float64(least)}
	if out.Distance < 0 {
		side = "below"
	}
	switch far := math.Abs(out.Distance); {
	case cut.Best && p != best:
		out.Text = fmt.Sprintf("%s; %s %.3f, %.3f below that", cut.Rule, of, x, far)
	case cut.Rule != "":
		*out = explain.Threshold{Text: cut.Rule}
	default:
		out.Text = fmt.Sprintf("%s %.3f, %.3f %s the threshold %.3f", of, x, far, side, least)
		if out.Distance < 0 && p.Predicted {
			out.Text += "; predicted as the label of highest " + of
		}
	}
	return out
}

// rowReasons describes rows by their key, title and labels.
type rowReasons struct {
	st    *state.Collection
	run   *state.ColdRun
	known map[uint32]explain.Reason
}

// of describes a row, with its title and labels if full is set: reading them takes a tenth of a millisecond.
func (r *rowReasons) of(row uint32, full bool) (out explain.Reason, err error) {
	if out, known := r.known[row]; known {
		return out, nil
	}
	key, err := r.st.Key(row)
	if err != nil {
		return out, err
	}
	out = explain.Reason{Text: string(key), Key: slices.Clone(key)}
	if !full {
		return out, nil
	}
	cold, err := r.st.Cold(row, &r.run)
	out.Title, out.Labels = titleOf(&cold), cold.Labels
	r.known[row] = out
	return out, err
}

// titleRunes is the length of a title at most.
const titleRunes = 60

// titleOf returns the title of a row, empty if it has none that can be printed.
func titleOf(c *rows.Cold) (title string) {
	for _, a := range c.Attributes {
		if s, ok := a.Value.(string); ok && a.Name == "title" {
			title = s
		}
	}
	title = cmp.Or(title, c.Text, string(c.Payload))
	title = text.Snippet(title, nil, func(string, func(text.Token)) {}, text.SnippetOptions{Runes: titleRunes})
	strange := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(title) || strings.ContainsFunc(title, strange) {
		return ""
	}
	return title
}

const (
	// fullRows is the number of rows of a list that have a title, labels and features.
	fullRows = 10
	// sharedFeatures is the number of features that a row shares with the query which its reason has by name.
	sharedFeatures = 5
)

// neighbors describes nearest rows.
func (r *rowReasons) neighbors(list []lcif.NeighborShare) (out []explain.Reason, err error) {
	for i := range list {
		one, err := r.neighbor(&list[i], i < fullRows)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// neighbor describes a nearest row. In full, its score is divided by what adds to its similarity.
func (r *rowReasons) neighbor(n *lcif.NeighborShare, full bool) (explain.Reason, error) {
	out, err := r.of(n.Row, full)
	if err != nil {
		return out, err
	}
	out.Value, out.Score = n.Similarity, n.Share
	if n.Indirect > 0 {
		out.Parts = append(out.Parts, explain.Reason{Text: "its own nearest rows", Score: n.Indirect})
	}
	if n.Shared == nil || !full {
		return out, nil
	}
	vectors, direct := n.Similarity, (n.Share-n.Indirect)/n.Similarity
	more := explain.Reason{Text: fmt.Sprintf("%d more", len(n.Shared)-sharedFeatures)}
	for i, f := range n.Shared {
		vectors -= f.Adds
		if i >= sharedFeatures {
			more.Value, more.Score = more.Value+f.Adds, more.Score+f.Adds*direct
			continue
		}
		name, err := r.st.FeatureName(f.Feature)
		if err != nil {
			return out, err
		}
		part := explain.Reason{Text: name, Feature: name, Value: f.Adds, Score: f.Adds * direct}
		out.Parts = append(out.Parts, part)
	}
	if len(n.Shared) > sharedFeatures {
		out.Parts = append(out.Parts, more)
	}
	if vectors > 1e-5 { // what rounding leaves is less
		out.Parts = append(out.Parts, explain.Reason{Text: "vectors", Value: vectors, Score: vectors * direct})
	}
	return out, nil
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
	slices.SortFunc(out.Parts, func(a, b explain.Reason) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Feature, b.Feature))
	})
	return out, err
}

// reasonOfLabel explains the score of a label by rows and features.
func reasonOfLabel(r *rowReasons, e *lcif.LabelExplanation) (_ *explain.Reason, err error) {
	rows := explain.Reason{Text: "rows", Score: e.Instance}
	features := explain.Reason{Text: "features", Score: e.Feature}
	without := explain.Reason{Text: "rows without it"}
	seldom := explain.Reason{Text: fmt.Sprintf(
		"features whose rows have it less often than all rows, %d of %d", e.Labelled, r.st.Entry.Live)}
	if rows.Parts, err = r.neighbors(e.Neighbors); err != nil {
		return nil, err
	}
	if without.Parts, err = r.neighbors(e.Without); err != nil {
		return nil, err
	}
	for _, f := range e.Features {
		name, err := r.st.FeatureName(f.Feature)
		if err != nil {
			return nil, err
		}
		part := explain.Reason{Text: name, Feature: name, Score: f.Share}
		if f.Rows > 0 {
			part.Text = fmt.Sprintf("%s (label in %d of its %s)", name, f.Labelled, counted(f.Rows, "row"))
		}
		if f.Share > 0 {
			features.Parts = append(features.Parts, part)
		}
		if f.Labelled*int(r.st.Entry.Live) < e.Labelled*f.Rows {
			part.Score = f.Most - f.Share
			seldom.Parts = append(seldom.Parts, part)
		}
	}
	slices.SortStableFunc(seldom.Parts, func(a, b explain.Reason) int { return cmp.Compare(b.Score, a.Score) })
	text := counted(len(e.Neighbors), "row") + ", " + counted(len(features.Parts), "feature")
	out := &explain.Reason{Text: text, Score: e.Instance + e.Feature, Parts: []explain.Reason{rows, features}}
	for _, x := range []explain.Reason{without, seldom} {
		for i := range x.Parts {
			x.Score += x.Parts[i].Score
		}
		if len(x.Parts) > 0 {
			out.Against = append(out.Against, x)
		}
	}
	return out, nil
}

// reasonOfMembers explains the score of a label by those of the members of a model of several kinds.
func reasonOfMembers(r *rowReasons, shares []kind.MemberShare) (out *explain.Reason, err error) {
	out = &explain.Reason{}
	var texts []string
	for i := range shares {
		x := &shares[i]
		var why *explain.Reason
		if x.Path != nil {
			why, err = reasonOfPath(r.st, x.Path)
		} else {
			why, err = reasonOfLabel(r, x.Evidence)
		}
		if err != nil {
			return nil, err
		}
		share := x.Weight * x.Chance
		out.Score += share
		texts = append(texts, fmt.Sprintf("%s %.2f", x.Kind, share))
		part := explain.Reason{Value: x.Score, Score: share, Parts: []explain.Reason{*why}}
		part.Text = fmt.Sprintf("%s: chance %.3f by its score %.3g, times its weight %.2f",
			x.Kind, x.Chance, x.Score, x.Weight)
		out.Parts = append(out.Parts, part)
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
		out.Text, out.Score = fmt.Sprintf("%s by linear classifiers, %s", answer, rows), p.Path[n-1].Margin
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
	switch n := len(d.Contributions); {
	case d.Rows > 0:
		s += fmt.Sprintf("%d of %s, %s", n, counted(d.Selected, "feature"), counted(d.Rows, "row"))
	case d.Vector == 0: // as in what follows, a linear classifier
		s += counted(n, "feature")
	case n == 0:
		s += "vector"
	default:
		s += counted(n, "feature") + " and vector"
	}
	if d.Errors > 0 {
		s += ", " + counted(d.Errors, "error")
	}
	s += ")"
	if len(d.Always) > 0 {
		s += ", always " + strings.Join(d.Always, ", ")
	}
	return s
}
