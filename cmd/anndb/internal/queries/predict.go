package queries

import (
	"fmt"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/table"
)

// Predict predicts labels.
type Predict struct {
	command.InCollection
	input.QueryFlags
	command.WhereFlag

	Index    string
	Top      int `short:"k" default:"0" want:"0"`
	Frequent bool
	Explain  bool
	Evidence int `default:"5" want:"0"`

	MinProbability float64 `placeholder:"N" want:"0 1"`
	Recall         float64 `placeholder:"N" want:"0 1"`
}

func (c *Predict) Run(a *command.App) error {
	if c.MinProbability > 0 && c.Recall > 0 {
		return command.Usagef("--min-probability and --recall exclude each other")
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		model, err := c.model(s)
		if err != nil {
			return err
		}
		queries, err := c.Ask(a, s, info)
		if err != nil {
			return err
		}
		defer queries.Close()
		w, err := c.answers(a, &model)
		if err != nil {
			return err
		}
		o := &db.PredictOptions{
			Index: c.Index, Top: c.Top, Where: c.Where.Filter, Explain: c.Explain,
			Frequent: c.Frequent, MinProbability: c.MinProbability, Recall: c.Recall,
		}
		p := Predicting{App: a, Snapshot: s, Info: info, total: queries.Total, Options: o}
		bare := 0
		err = p.each(queries.Each, func(q input.Query, found db.Predictions) error {
			if len(found.Labels) == 0 {
				bare++
			}
			return w.add(q, found)
		})
		if err != nil {
			return err
		}
		if err := c.Mistaken(&p.Unknown, info); err != nil {
			return err
		}
		p.Unknown.Note(a)
		c.noteBlind(&p)
		if err := w.out.Close(); err != nil {
			return err
		}
		a.Summary("queries: %d, %s each; %d without a label",
			p.Asked, table.Time(p.took/time.Duration(max(1, p.Asked))), bare)
		return nil
	})
}

// noteBlind says of how many queries the model knows nothing.
func (c *Predict) noteBlind(p *Predicting) {
	if p.Blind == 0 {
		return
	}
	lacking := ""
	if p.noVector > 0 {
		lacking = fmt.Sprintf(" (%d without the vector that the model uses)", p.noVector)
	}
	answer := "no label is predicted (--frequent predicts the most frequent ones)"
	if c.Frequent {
		answer = "the most frequent labels are predicted"
	}
	p.App.Note("no evidence for %d of %d queries%s: %s", p.Blind, p.Asked, lacking, answer)
}

// answers is a table of predictions.
type answers struct {
	out *table.Stream
	add func(q input.Query, found db.Predictions) error
}

// answers begins the table that the flags ask for. For programs its last column reports whether a
// query is without evidence; people, and readers of reasons, see that in place of its labels.
func (c *Predict) answers(a *command.App, model *index.Info) (w answers, err error) {
	people, inJSON, tree := a.People(), a.InJSON(), indexes.IsTree(model.Kind)
	var columns []string
	var add func(key string, found db.Predictions)
	switch {
	case c.Explain && tree && inJSON:
		columns = []string{"query", "labels", "explanation"}
		add = func(key string, found db.Predictions) {
			labels := []scoredLabel{}
			for _, p := range found.Labels {
				l := scoredLabel{Label: p.Label, Score: p.Score, Probability: p.Probability}
				if p.Why != nil {
					l.Threshold = p.Why.Threshold
				}
				labels = append(labels, l)
			}
			w.out.Add(key, labels, reasonShown(found.Why, c.Evidence), found.Stats.NoEvidence)
		}
	case c.Explain && tree:
		columns = reasonColumns("labels", people)
		add = func(key string, found db.Predictions) {
			why := found.Why
			if found.Stats.NoEvidence {
				why = &explain.Reason{Text: noEvidence}
			}
			answer := [3]any{key, c.withScores(found.Labels)}
			c.addReason(w.out, answer, why, thresholds(found.Labels[:c.shown(len(found.Labels))]), people)
		}
	case c.Explain && !inJSON:
		columns = reasonColumns("label", people)
		add = func(key string, found db.Predictions) {
			query := any(key)
			for _, p := range found.Labels {
				c.addReason(w.out, [3]any{query, p.Label, p.Score}, p.Why, thresholds([]db.Prediction{p}), people)
				if people {
					query = nil
				}
			}
			if found.Stats.NoEvidence && len(found.Labels) == 0 {
				c.addReason(w.out, [3]any{query}, &explain.Reason{Text: noEvidence}, nil, people)
			}
		}
	default:
		columns = []string{"query", "rank", "label", "score:4", "probability:4"}
		if c.Explain {
			columns = append(columns, "explanation")
		}
		add = func(key string, found db.Predictions) {
			c.addPlain(w.out, key, found, people, model.Calibration != nil || found.Stats.NoEvidence)
		}
	}
	if !people && (inJSON || !c.Explain) {
		columns = append(columns, "no_evidence")
	}
	w.add = func(q input.Query, found db.Predictions) error {
		add(q.Key, found)
		return w.out.Err()
	}
	w.out, err = a.Stream(columns...)
	return w, err
}

// noEvidence is written in place of the labels or reasons of a query of which the model knows nothing.
const noEvidence = "no evidence"

// noLabel is written in place of the labels of a query that has none.
const noLabel = "no label"

// model describes the label model that is asked.
func (c *Predict) model(s *db.Snapshot) (index.Info, error) {
	list, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return index.Info{}, err
	}
	predicts := func(i index.Info) bool { return i.Predicts }
	if !slices.ContainsFunc(list, predicts) {
		return index.Info{}, indexes.NoLabelModel(c.Collection)
	}
	for _, i := range list {
		if predicts(i) && (c.Index == i.Name || c.Index == "" && i.Default) {
			return i, nil
		}
	}
	return index.Info{}, nil
}

// addPlain writes one row a label, with all that is known of it as one JSON value, and one row for a
// query that has no label. calibrated is set if the labels have probabilities, which may be 0.
func (c *Predict) addPlain(t *table.Stream, key string, found db.Predictions, people, calibrated bool) {
	add := func(rank, label, score, probability any, why *explain.Reason) {
		values := []any{key, rank, label, score, probability}
		if c.Explain {
			values = append(values, reasonShown(why, c.Evidence))
		}
		if !people {
			values = append(values, found.Stats.NoEvidence)
		}
		t.Add(values...)
	}
	for rank, p := range found.Labels {
		var probability any
		if calibrated {
			probability = p.Probability
		}
		add(rank+1, p.Label, p.Score, probability, p.Why)
	}
	switch {
	case len(found.Labels) > 0:
	case people && found.Stats.NoEvidence:
		add(nil, noEvidence, nil, nil, nil)
	case people:
		add(nil, noLabel, nil, nil, nil)
	default:
		add(nil, nil, nil, nil, nil)
	}
}

// shown is how many of n pieces of evidence are shown.
func (c *Predict) shown(n int) int {
	if c.Evidence == 0 {
		return n
	}
	return min(n, c.Evidence)
}
