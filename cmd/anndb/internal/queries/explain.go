package queries

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/internal/table"
)

// scoredLabel is a predicted label as JSON has it.
type scoredLabel struct {
	Label       string  `json:"label"`
	Score       float32 `json:"score"`
	Probability float32 `json:"probability,omitempty"`
}

// reasonJSON is an explain.Reason as JSON has it.
type reasonJSON struct {
	Text    string       `json:"text"`
	Key     string       `json:"key,omitempty"`
	Feature string       `json:"feature,omitempty"`
	Value   float64      `json:"value,omitempty"`
	Score   float64      `json:"score"`
	Parts   []reasonJSON `json:"parts,omitempty"`
}

// newReasonJSON returns a reason with at most so many rows and features of each part, 0 for all.
func newReasonJSON(r *explain.Reason, most int) reasonJSON {
	out := reasonJSON{Text: r.Text, Key: string(r.Key), Feature: r.Feature, Value: r.Value, Score: r.Score}
	for i := range r.Parts {
		if p := &r.Parts[i]; most == 0 || i < most || !isEvidence(p) {
			out.Parts = append(out.Parts, newReasonJSON(p, most))
		}
	}
	return out
}

// explanation is newReasonJSON of a reason, or nothing if there is none.
func explanation(r *explain.Reason, most int) any {
	if r == nil {
		return nil
	}
	return newReasonJSON(r, most)
}

// isEvidence reports whether a part is a row or a feature, of which --evidence bounds the number.
func isEvidence(r *explain.Reason) bool { return r.Key != nil || r.Feature != "" }

// reasonColumns are those of a prediction with reasons. label is the column of one or of all labels.
func reasonColumns(label string) []string {
	return []string{"query", label, "score:4", "because of", "what", "weight:3", "value:3", "adds:4"}
}

// addReason writes a row for the answer, one for each part of its reason, and one for each row and
// feature in it. For people, query, label and part are written once.
func (c *Predict) addReason(t *table.Stream, query, label, score any, why *explain.Reason, people bool) {
	add := func(part, what any, numbers ...any) {
		t.Add(append([]any{query, label, score, part, what}, numbers...)...)
		if people {
			query, label = nil, nil
		}
		score = nil
	}
	add(why.Text, nil)
	for i := 0; i < len(why.Parts); i++ {
		if n := refusals(why.Parts[i:]); people && c.Evidence > 0 && n >= leastFolded {
			add(fmt.Sprintf("%d decisions: no (--evidence 0 shows them)", n), nil)
			i += n - 1
			continue
		}
		part := &why.Parts[i]
		if len(part.Parts) == 0 && part.Score == 0 {
			continue
		}
		text := any(part.Text)
		add(text, nil, nil, nil, part.Score)
		if people {
			text = nil
		}
		n, left, sum := 0, 0, 0.0
		for j := range part.Parts {
			switch p := &part.Parts[j]; {
			case !isEvidence(p):
				if left > 0 {
					add(text, fmt.Sprintf("%d more", left), nil, nil, sum)
					left = 0
				}
				add(text, p.Text, nil, nil, p.Score)
			case n < c.shown(len(part.Parts)):
				n++
				addEvidence(add, text, p)
			default:
				left, sum = left+1, sum+p.Score
			}
		}
		if left > 0 {
			add(text, fmt.Sprintf("%d more", left), nil, nil, sum)
		}
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

// addEvidence writes a row or a feature. A decision multiplies the value of a feature by a weight.
func addEvidence(add func(part, what any, numbers ...any), part any, p *explain.Reason) {
	what, weight, value := p.Text, any(nil), any(nil)
	if p.Value != 0 {
		value = p.Value
		if p.Feature != "" {
			weight = p.Score / p.Value
		}
	}
	for _, of := range p.Parts {
		what += fmt.Sprintf(", %.4f by %s", of.Score, of.Text)
	}
	add(part, what, weight, value, p.Score)
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
