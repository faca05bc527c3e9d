package queries

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
)

// Predicting predicts queries in slices, so that progress shows, an interrupt is seen,
// and memory does not grow with their number.
type Predicting struct {
	App      *command.App
	Snapshot *db.Snapshot
	Info     db.CollectionInfo
	Options  *db.PredictOptions
	total    int    // queries, 0 if not known
	Workers  int    // goroutines, those of the command when zero
	Stage    string // what progress calls the work, predict if empty

	Asked     int           // queries so far
	took      time.Duration // by predictions
	Blind     int           // queries without evidence
	noVector  int           // those of them without the vector that the model uses
	Decisions int           // of trees, for all queries
	Unknown   input.UnknownFeatures
}

// predictSlice is how many queries are predicted at a time.
const predictSlice = 64

// each calls f with every query and its predictions, in order.
func (p *Predicting) each(
	queries iter.Seq2[input.Query, error], f func(input.Query, db.Predictions) error,
) error {
	batch := make([]input.Query, 0, predictSlice)
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
	p.App.Progress.End()
	return nil
}

func (p *Predicting) batch(batch []input.Query, f func(input.Query, db.Predictions) error) error {
	queries := make([]db.Query, len(batch))
	for i, q := range batch {
		queries[i] = q.Query
	}
	start := time.Now()
	o := *p.Options
	o.Workers = cmp.Or(p.Workers, p.App.Flags.Workers)
	found, err := p.Snapshot.Collection(p.Info.Name).PredictBatch(p.App.Ctx, queries, &o)
	if err != nil {
		return err
	}
	p.took += time.Since(start)
	p.Asked += len(batch)
	p.App.Progress.Update(cmp.Or(p.Stage, "predict"), p.Asked, p.total)
	for i, q := range batch {
		p.Unknown.Add(p.Info, q.Query, found[i].Stats.Unknown)
		if found[i].Stats.NoEvidence {
			p.Blind++
		}
		if found[i].Stats.NoVector {
			p.noVector++
		}
		p.Decisions += found[i].Stats.Decisions
		if err := f(q, found[i]); err != nil {
			return err
		}
	}
	return nil
}

// All predicts many queries.
func (p *Predicting) All(list []input.Query) ([][]db.Prediction, error) {
	out := make([][]db.Prediction, 0, len(list))
	p.total = len(list)
	for batch := range slices.Chunk(list, predictSlice) {
		err := p.batch(batch, func(_ input.Query, found db.Predictions) error {
			out = append(out, found.Labels)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	p.App.Progress.End()
	return out, nil
}
