package main

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// predictCmd predicts labels.
type predictCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	askFlags
	whereFlag

	Index    string `help:"Label model to ask; the default one if not given."`
	Top      int    `short:"k" help:"The best so many labels, whatever the thresholds." default:"0"`
	Frequent bool   `help:"Predict the most frequent labels for a query of which the model knows nothing, instead of none."`
	Explain  bool   `help:"Show the rows and features behind each label, or the decisions of a tree."`
	Strategy string `help:"How a label model of a sparse collection searches for neighbours: auto, partitioned, compact or union. All find the same." default:"auto" placeholder:"STRATEGY"`
	Evidence int    `help:"Rows and features that an explanation or decision shows; 0 for all." default:"5"`
}

// explainCmd is predictCmd with explanations.
type explainCmd struct {
	predictCmd
}

// Run executes the command.
func (c *explainCmd) Run(a *app) error {
	c.Explain = true
	return c.predictCmd.Run(a)
}

// Run executes the command.
func (c *predictCmd) Run(a *app) error {
	if c.Top < 0 || c.Evidence < 0 {
		return usagef("--top and --evidence must not be negative")
	}
	strategy, err := choice("--strategy", c.Strategy, strategies)
	if err != nil {
		return err
	}
	filter, err := c.filter()
	if err != nil {
		return err
	}
	if err := c.askFlags.verify(); err != nil {
		return err
	}
	return c.withCollection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		tree, err := c.byTree(s)
		if err != nil {
			return err
		}
		queries, err := c.ask(a, s, info)
		if err != nil {
			return err
		}
		defer queries.close()
		w, err := c.answers(a, tree)
		if err != nil {
			return err
		}
		o := &db.PredictOptions{
			Index: c.Index, Top: c.Top, Where: filter, Strategy: strategy.String(), Explain: c.Explain,
			Frequent: c.Frequent,
		}
		p := predicting{a: a, s: s, info: info, total: queries.total, options: o}
		bare := 0
		err = p.each(queries.each, func(q labelQuery, found db.Predictions) error {
			if len(found.Labels) == 0 {
				bare++
			}
			return w.add(q, found)
		})
		if err != nil {
			return w.out.Discard(err)
		}
		if err := c.mistaken(&p.unknown); err != nil {
			return w.out.Discard(err)
		}
		p.unknown.note(a)
		c.noteBlind(a, p.blind, p.n)
		if err := w.out.Close(); err != nil {
			return err
		}
		a.summary("queries: %d, %s each; %d without a label",
			p.n, table.Time(p.took/time.Duration(max(1, p.n))), bare)
		return nil
	})
}

// noteBlind says of how many queries the model knows nothing.
func (c *predictCmd) noteBlind(a *app, blind, queries int) {
	switch {
	case blind == 0:
	case c.Frequent:
		a.note("no evidence for %d of %d queries: the most frequent labels are predicted", blind, queries)
	default:
		a.note("no evidence for %d of %d queries: no label is predicted (--frequent predicts the most frequent ones)",
			blind, queries)
	}
}

// answers is a table of predictions.
type answers struct {
	out *table.Stream
	add func(q labelQuery, found db.Predictions) error
}

// answers begins the table that the flags ask for. For programs its last column reports whether a
// query is without evidence; people, and readers of reasons, see that in place of its labels.
func (c *predictCmd) answers(a *app, tree bool) (w answers, err error) {
	people, inJSON := a.People(), a.InJSON()
	var columns []string
	var add func(key string, found db.Predictions)
	switch {
	case c.Explain && tree && inJSON:
		columns = []string{"query", "labels", "explanation"}
		add = func(key string, found db.Predictions) {
			labels := []scoredLabel{}
			for _, p := range found.Labels {
				labels = append(labels, scoredLabel{p.Label, p.Score})
			}
			w.out.Add(key, labels, explanation(found.Why, c.Evidence), found.NoEvidence)
		}
	case c.Explain && tree:
		columns = reasonColumns("labels")
		add = func(key string, found db.Predictions) {
			why := found.Why
			if found.NoEvidence {
				why = &db.Reason{Text: noEvidence}
			}
			c.addReason(w.out, key, c.withScores(found.Labels), nil, why, people)
		}
	case c.Explain && !inJSON:
		columns = reasonColumns("label")
		add = func(key string, found db.Predictions) {
			query := any(key)
			for _, p := range found.Labels {
				c.addReason(w.out, query, p.Label, p.Score, p.Why, people)
				if people {
					query = nil
				}
			}
			if found.NoEvidence && len(found.Labels) == 0 {
				c.addReason(w.out, query, nil, nil, &db.Reason{Text: noEvidence}, people)
			}
		}
	default:
		columns = []string{"query", "rank", "label", "score:4"}
		if c.Explain {
			columns = append(columns, "explanation")
		}
		add = func(key string, found db.Predictions) { c.addPlain(w.out, key, found, people) }
	}
	if !people && (inJSON || !c.Explain) {
		columns = append(columns, "no_evidence")
	}
	w.add = func(q labelQuery, found db.Predictions) error {
		add(q.key, found)
		return w.out.Err()
	}
	w.out, err = a.Stream(columns...)
	return w, err
}

// noEvidence is written in place of the labels or reasons of a query of which the model knows nothing.
const noEvidence = "no evidence"

// byTree reports whether a tree is asked.
func (c *predictCmd) byTree(s *db.Snapshot) (bool, error) {
	list, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(list, predicts) {
		return false, noLabelModel(c.Collection)
	}
	for _, i := range list {
		if predicts(i) && (c.Index == i.Name || c.Index == "" && i.Default) {
			return isTree(i.Kind), nil
		}
	}
	return false, nil
}

// predicting predicts queries in slices, so that progress shows, an interrupt is seen,
// and memory does not grow with their number.
type predicting struct {
	a       *app
	s       *db.Snapshot
	info    db.CollectionInfo
	options *db.PredictOptions
	total   int // queries, 0 if not known
	workers int // goroutines, those of the command when zero

	n       int           // queries so far
	took    time.Duration // by predictions
	blind   int           // queries without evidence
	unknown unknownFeatures
}

// predictSlice is how many queries are predicted at a time.
const predictSlice = 256

// each calls f with every query and its predictions, in order.
func (p *predicting) each(
	queries iter.Seq2[labelQuery, error], f func(labelQuery, db.Predictions) error,
) error {
	batch := make([]labelQuery, 0, predictSlice)
	for q, err := range queries {
		if err != nil {
			return err
		}
		if batch = append(batch, q); len(batch) == predictSlice {
			if err := p.batch(batch, f); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		if err := p.batch(batch, f); err != nil {
			return err
		}
	}
	p.a.progress.End()
	return nil
}

func (p *predicting) batch(batch []labelQuery, f func(labelQuery, db.Predictions) error) error {
	queries := make([]db.Query, len(batch))
	for i, q := range batch {
		queries[i] = q.query
	}
	start := time.Now()
	o := *p.options
	o.Workers = cmp.Or(p.workers, p.a.flags.Workers)
	found, err := p.s.Collection(p.info.Name).PredictBatch(p.a.ctx, queries, &o)
	if err != nil {
		return err
	}
	p.took += time.Since(start)
	p.n += len(batch)
	p.a.progress.Update("predict", p.n, p.total)
	for i, q := range batch {
		p.unknown.add(p.info, q.query, found[i].Stats.Unknown)
		if found[i].NoEvidence {
			p.blind++
		}
		if err := f(q, found[i]); err != nil {
			return err
		}
	}
	return nil
}

// all predicts many queries.
func (p *predicting) all(queries []db.Query) ([][]db.Prediction, error) {
	out := make([][]db.Prediction, 0, len(queries))
	p.total = len(queries)
	each := func(yield func(labelQuery, error) bool) {
		for _, q := range queries {
			if !yield(labelQuery{query: q}, nil) {
				return
			}
		}
	}
	err := p.each(each, func(_ labelQuery, found db.Predictions) error {
		out = append(out, found.Labels)
		return nil
	})
	return out, err
}

// addPlain writes one row a label, with all that is known of it as one JSON value, and one row for a
// query without evidence that has no label.
func (c *predictCmd) addPlain(t *table.Stream, key string, found db.Predictions, people bool) {
	add := func(rank, label, score any, why *db.Reason) {
		values := []any{key, rank, label, score}
		if c.Explain {
			values = append(values, explanation(why, c.Evidence))
		}
		if !people {
			values = append(values, found.NoEvidence)
		}
		t.Add(values...)
	}
	for rank, p := range found.Labels {
		add(rank+1, p.Label, p.Score, p.Why)
	}
	switch {
	case !found.NoEvidence || len(found.Labels) > 0:
	case people:
		add(nil, noEvidence, nil, nil)
	default:
		add(nil, nil, nil, nil)
	}
}

// shown is how many of n pieces of evidence are shown.
func (c *predictCmd) shown(n int) int {
	if c.Evidence == 0 {
		return n
	}
	return min(n, c.Evidence)
}
