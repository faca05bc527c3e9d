package queries

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/internal/table"
)

// scoredLabel is a predicted label as JSON has it.
type scoredLabel struct {
	Label       string             `json:"label"`
	Score       float32            `json:"score"`
	Probability float32            `json:"probability,omitempty"`
	Threshold   *explain.Threshold `json:"threshold,omitempty"`
}

// reasonShown returns a reason as JSON has it, shortened; nil for none.
func reasonShown(r *explain.Reason, most int) *explain.Reason {
	if r == nil {
		return nil
	}
	list := func(parts []explain.Reason) []explain.Reason {
		short := shortened(parts, most)
		for i := range short {
			short[i] = *reasonShown(&short[i], most)
		}
		return short
	}
	out := *r
	out.Parts, out.Against = list(r.Parts), list(r.Against)
	return &out
}

// shortened returns parts of which at most so many in a row are rows or features, 0 for all. What the
// others add is one part.
func shortened(parts []explain.Reason, most int) (out []explain.Reason) {
	n, left := 0, explain.Reason{}
	for i := range parts {
		p := &parts[i]
		if !isEvidence(p) {
			n = 0
		}
		if n++; most == 0 || n <= most || !isEvidence(p) {
			out = append(out, *p)
			continue
		}
		left.Text, left.Score = fmt.Sprintf("%d more", n-most), left.Score+p.Score
		if i+1 == len(parts) || !isEvidence(&parts[i+1]) {
			out, left = append(out, left), explain.Reason{}
		}
	}
	return out
}

// isEvidence reports whether a part is a row or a feature, of which --evidence bounds the number.
func isEvidence(r *explain.Reason) bool { return r.Key != nil || r.Feature != "" }

// reasonColumns are those of a prediction with reasons. label is the column of one or of all labels.
func reasonColumns(label string, people bool) []string {
	names := []string{"query", label, "score:4", "because of"}
	if !people {
		names = append(names, "what")
	}
	return append(names, "weight:3", "value:3", "adds:4")
}

// addReason writes a row for the answer, one for each of some remarks, one for each part of its reason, and
// one for each row and feature in it. For people, query, label and part are written once.
func (c *Predict) addReason(
	t *table.Stream, answer [3]any, why *explain.Reason, remarks []string, people bool,
) {
	w := reasonTable{most: c.Evidence, people: people}
	w.add = func(part string, what any, numbers ...any) {
		cells := []any{answer[0], answer[1], answer[2], part}
		switch {
		case !people:
			cells = append(cells, what)
		case what != nil:
			cells[3] = fmt.Sprint(part, what)
		}
		t.Add(append(cells, numbers...)...)
		if people {
			answer = [3]any{}
		}
		answer[2] = nil
	}
	w.add(why.Text, nil)
	for _, s := range remarks {
		w.add(s, nil)
	}
	w.parts(why, "")
}

// reasonTable writes the parts of a reason.
type reasonTable struct {
	// add writes a row. For people, part and what are one cell.
	add    func(part string, what any, numbers ...any)
	most   int // of rows and features, 0 for all
	people bool
}

// parts writes the parts of a reason, and what speaks against its answer.
func (w *reasonTable) parts(why *explain.Reason, indent string) {
	for i := 0; i < len(why.Parts); i++ {
		if n := refusals(why.Parts[i:]); w.people && w.most > 0 && n >= leastFolded {
			w.add(fmt.Sprintf("%s%d decisions: no (--evidence 0 shows them)", indent, n), nil)
			i += n - 1
			continue
		}
		part := &why.Parts[i]
		if len(part.Parts) > 0 || part.Score != 0 {
			w.part(part, indent+part.Text, part.Score, indent)
		}
	}
	for i := range why.Against {
		part := &why.Against[i]
		w.part(part, indent+"against: "+part.Text, nil, indent)
	}
}

// part writes a part with its rows and features, or with the reason of a model. Without a score, what is in
// it adds nothing.
func (w *reasonTable) part(part *explain.Reason, text string, score any, indent string) {
	w.add(text, nil, nil, nil, score)
	most := w.most
	if score == nil {
		most = (most + 1) / 2
	}
	indent += "  "
	if w.people {
		text = indent
	}
	for _, p := range shortened(part.Parts, most) {
		adds := any(p.Score)
		if score == nil {
			adds = nil
		}
		switch {
		case isEvidence(&p):
			w.evidence(text, &p, adds)
		case len(p.Parts) > 0:
			w.add(indent+p.Text, nil)
			w.parts(&p, indent+"  ")
		default:
			w.add(text, p.Text, nil, nil, adds)
		}
	}
}

// evidence writes a row or a feature. A decision multiplies the value of a feature by a weight.
func (w *reasonTable) evidence(text string, p *explain.Reason, adds any) {
	weight, value := any(nil), any(nil)
	if p.Value != 0 {
		value = p.Value
		if p.Feature != "" {
			weight = p.Score / p.Value
		}
	}
	if !w.people { // they read all else in JSON
		w.add(text, cmp.Or(string(p.Key), p.Feature), weight, value, adds)
		return
	}
	what := p.Text
	if len(p.Labels) > 0 {
		what += " [" + strings.Join(p.Labels, ", ") + "]"
	}
	if p.Title != "" {
		what += " " + p.Title
	}
	var shares []string
	for _, of := range p.Parts {
		if of.Value == 0 {
			what += fmt.Sprintf(", %.4f by %s", of.Score, of.Text)
			continue
		}
		shares = append(shares, fmt.Sprintf("%s %.3f", of.Text, of.Value))
	}
	w.add(text, what, weight, value, adds)
	if len(shares) > 0 {
		w.add(text, "  shares "+strings.Join(shares, ", "))
	}
}

// leastFolded is the number of labels in a row that a tree decides against from which on people get one
// line about them.
const leastFolded = 3

// refusals is how many decisions at the beginning of parts are those of an annotation tree against a
// label: a question for a label, and no for an answer.
func refusals(parts []explain.Reason) (n int) {
	for n < len(parts) && refusal.MatchString(parts[n].Text) && !ofNode.MatchString(parts[n].Text) {
		n++
	}
	return n
}

var (
	refusal = regexp.MustCompile(`\? no \([^()]*\)$`)
	ofNode  = regexp.MustCompile(`(^|, )node \d+\? `)
)

// thresholds describes how far labels are from the set that is predicted.
func thresholds(found []db.Prediction) (out []string) {
	for _, p := range found {
		if p.Why == nil || p.Why.Threshold == nil {
			continue
		}
		s := p.Why.Threshold.Text
		if p.Why.Threshold.Value != 0 && len(found) > 1 {
			s = p.Label + ": " + s
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// withScores is labels with their scores on one line, as many as evidence is shown.
func (c *Predict) withScores(found []db.Prediction) string {
	var parts []string
	for _, p := range found[:c.shown(len(found))] {
		parts = append(parts, fmt.Sprintf("%s (%.3g)", p.Label, math.Round(1e4*float64(p.Score))/1e4))
	}
	if len(parts) == 0 {
		return noLabel
	}
	s := strings.Join(parts, ", ")
	if n := len(found) - len(parts); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
