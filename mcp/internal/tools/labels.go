package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
)

type predictInput struct {
	question
	Index          string  `json:"index,omitempty"`
	Top            int     `json:"top,omitempty"`
	MinProbability float64 `json:"min_probability,omitempty"`
}

type label struct {
	Label       string  `json:"label"`
	Score       float32 `json:"score"`
	Probability float32 `json:"probability,omitempty"`
	Predicted   bool    `json:"predicted"`
}

type predictOutput struct {
	Labels  []label  `json:"labels"`
	Meaning string   `json:"meaning"`
	Notes   []string `json:"notes,omitempty"`
}

const confidence = "score: the confidence of the model, higher is better"

func predict(c *call, in *predictInput) (out predictOutput, err error) {
	o := db.PredictOptions{Index: in.Index, MinProbability: in.MinProbability}
	if o.Top, err = atMost("top", in.Top, 0, mostRows); err != nil {
		return out, err
	}
	found, notes, err := c.predict(&in.question, &o)
	out = predictOutput{Labels: []label{}, Meaning: confidence, Notes: notes}
	for _, p := range found[:min(len(found), mostRows)] {
		out.Labels = append(out.Labels, label{p.Label, p.Score, p.Probability, p.Predicted})
	}
	return out, err
}

// predict returns predictions, and notes about them.
func (c *call) predict(in *question, o *db.PredictOptions) (
	found []db.Prediction, notes []string, err error,
) {
	q, err := in.query(c.info)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.rows.Predict(c, q, o)
	if errors.Is(err, db.ErrNotFound) && o.Index == "" && in.Like == "" {
		err = fmt.Errorf("%w; the user builds one by: anndb build %s %s labels --kind auto-labels",
			err, c.db, c.info.Name)
	}
	notes = unknown(p.Stats.Unknown)
	switch {
	case p.Stats.NoVector:
		notes = append(notes, "The model knows nothing of this query: it uses vectors, and the query has none.")
	case p.Stats.NoEvidence:
		notes = append(notes, "The model knows nothing of this query: nothing in it is evidence for a label.")
	case len(p.Labels) == 0:
		notes = append(notes, "No label is probable enough for the set: predict with top has the best ones.")
	}
	return p.Labels, notes, err
}

type explainInput struct {
	question
	Key   string `json:"key,omitempty"`
	Label string `json:"label,omitempty"`
	Index string `json:"index,omitempty"`
}

// explained is an answer with its reasons.
type explained struct {
	Key       string   `json:"key,omitempty"`
	Label     string   `json:"label,omitempty"`
	Rank      int      `json:"rank"`
	Score     float32  `json:"score"`
	Predicted bool     `json:"predicted,omitempty"`
	Reasons   []string `json:"reasons"`
	Against   []string `json:"against,omitempty"`
	Threshold string   `json:"threshold,omitempty"`
}

type explainOutput struct {
	Answers []explained `json:"answers"`
	Meaning string      `json:"meaning"`
	Notes   []string    `json:"notes,omitempty"`
}

func explainAnswer(c *call, in *explainInput) (out explainOutput, err error) {
	switch {
	case in.Key != "" && in.Label != "":
		return out, errors.New("key explains a hit, label a prediction: give one of them")
	case in.Key != "":
		return explainHit(c, in)
	}
	o := db.PredictOptions{Index: in.Index, Explain: true}
	if in.Label != "" {
		o.Top = 1 << 20 // so that the label is one of them
	}
	found, notes, err := c.predict(&in.question, &o)
	out = explainOutput{Answers: []explained{}, Meaning: confidence, Notes: notes}
	for i, p := range found {
		if in.Label == "" && i < mostParts || in.Label == p.Label {
			a := explained{Label: p.Label, Rank: i + 1, Score: p.Score, Predicted: p.Predicted}
			a.Reasons = reasons(p.Why)
			if p.Why != nil && p.Why.Threshold != nil {
				a.Threshold = p.Why.Threshold.Text
			}
			if p.Why != nil && len(p.Why.Against) > 0 {
				a.Against = reasons(&explain.Reason{Parts: p.Why.Against})
			}
			out.Answers = append(out.Answers, a)
		}
	}
	if in.Label != "" && len(out.Answers) == 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Nothing of the query is evidence for the label %q.", in.Label))
	}
	return out, err
}

func explainHit(c *call, in *explainInput) (out explainOutput, err error) {
	q, err := in.query(c.info)
	if err != nil {
		return out, err
	}
	if _, err := c.rows.Get(c, []byte(in.Key)); err != nil {
		return out, err
	}
	found, err := c.rows.Search(c, q, &db.SearchOptions{K: mostRows, Explain: true})
	if err != nil {
		return out, err
	}
	text, scores := meaning(c.info, &q, found.Hits)
	out = explainOutput{Answers: []explained{}, Meaning: text}
	at := slices.IndexFunc(found.Hits, func(h db.Hit) bool { return string(h.Key) == in.Key })
	if at < 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("The row is not among the first %d hits.", mostRows))
		return out, nil
	}
	h := &found.Hits[at]
	a := explained{Key: in.Key, Rank: at + 1, Score: h.Distance, Reasons: reasons(h.Why)}
	if scores {
		a.Score = 0 - h.Distance
	}
	out.Answers = append(out.Answers, a)
	return out, nil
}

// reasons has a line for each part of a reason.
func reasons(why *explain.Reason) []string {
	out := []string{}
	if why == nil {
		return out
	}
	for i := range why.Parts {
		if i == mostParts {
			return append(out, fmt.Sprintf("and %d more", len(why.Parts)-i))
		}
		p := &why.Parts[i]
		line := reasonOf(p)
		var evidence []string
		for j := range p.Parts[:min(len(p.Parts), mostEvidence)] {
			evidence = append(evidence, reasonOf(&p.Parts[j]))
		}
		if more := len(p.Parts) - len(evidence); more > 0 {
			evidence = append(evidence, fmt.Sprintf("%d more", more))
		}
		if evidence != nil {
			line += " (" + strings.Join(evidence, ", ") + ")"
		}
		out = append(out, line)
	}
	return out
}

// reasonOf returns what a part adds, its text and, of a row, its title.
func reasonOf(p *explain.Reason) string {
	s := fmt.Sprintf("%+.4g %s", p.Score, part(p.Text, 0, mostValue))
	if p.Title != "" && p.Title != p.Text {
		s += fmt.Sprintf(" %q", part(p.Title, 0, mostTitle))
	}
	return s
}
