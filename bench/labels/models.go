package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// peerName is the system liblinear.
const peerName = "liblinear"

// systemNames lists the systems: the kinds of label models and the peer.
func systemNames() []string {
	return append(slices.Sorted(maps.Keys(models(&set{}, 0))), peerName)
}

// models are the options of each kind, which tune it for an objective; those that have no values to choose from are
// as by default.
func models(s *set, o lcif.Objective) map[string]index.Options {
	weight, from := "tfidf", ""
	switch {
	case s.dense:
		weight = ""
	case s.vectors[0] != nil:
		from = "both"
	}
	tree := func(kind budget.Kind) *index.Trees {
		grid := &budget.Grid{Budgets: []int{100, 300}, Costs: []float64{1}, Folds: 5}
		if kind == budget.AT {
			grid.Positives, grid.Thresholds = []int{1, 3}, budget.DefaultGrid(kind, 300).Thresholds
		}
		return &index.Trees{Kind: string(kind), Objective: o, Weight: weight, Grid: grid}
	}
	return map[string]index.Options{
		"lcif":        &index.LCIF{Objective: o, Neighbors: from},
		"at":          tree(budget.AT),
		"pt":          tree(budget.PT),
		"labeltree":   &index.LabelTree{Objective: o, From: from},
		"auto-labels": &index.Auto{Objective: o, Time: 5 * time.Minute}, // other processes should not decide
	}
}

// timedRows is the number of test rows whose predictions are timed, in timedRounds rounds.
const (
	timedRows   = 1000
	timedRounds = 3
)

// measureModel learns a model in a copy of the file of rows, and predicts the test rows from the file opened again.
func (s *set) measureModel(ctx context.Context, rows string, o lcif.Objective, r *result) (err error) {
	path := rows + "." + r.System // what a process left that was ended is overwritten
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	if err := copyFile(path, rows); err != nil {
		return err
	}
	options := models(s, o)[r.System]
	if options == nil {
		return fmt.Errorf("no system %q, want one of %v", r.System, systemNames())
	}
	if err := s.learn(ctx, path, options, r); err != nil {
		return err
	}
	d, err := db.Open(ctx, path, &db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.View(func(v *db.Snapshot) error { return s.predict(ctx, v.Collection(collection), r) })
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// learn builds the model.
func (s *set) learn(ctx context.Context, path string, o index.Options, r *result) (err error) {
	d, err := db.Open(ctx, path, &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	start := process.User()
	info, err := d.Collection(collection).Build(ctx, collection, o, nil)
	if err != nil {
		return err
	}
	r.Seconds = (process.User() - start).Seconds()
	r.PeakMB = float64(process.Peak()) / 1e6
	r.FileMB = float64(info.TotalBytes()) / 1e6
	if c := info.Calibration; c != nil {
		r.heldOut = c.Rows
	}
	for _, t := range info.AutoTrials {
		if t.Chosen && t.Kind != r.System {
			r.Note += fmt.Sprintf("%s %s %.2f; ", t.Kind, t.Setting, t.Weight)
		}
	}
	return nil
}

// predict measures the answers for the test rows.
func (s *set) predict(ctx context.Context, coll db.Collection, r *result) error {
	queries := make([]db.Query, s.test.Labels.Rows())
	for i := range queries {
		queries[i] = s.query(1, i)
		queries[i].Text = text.Plain(queries[i].Text)
	}
	a, err := s.answer(ctx, coll, queries, &db.PredictOptions{Top: slices.Max(rankedAt), Set: true})
	if err != nil {
		return err
	}
	if err := r.fill(s, a); err != nil {
		return err
	}
	r.Delivered = [2]delivered{}
	for i, recall := range recalls {
		sets, err := s.answer(ctx, coll, queries, &db.PredictOptions{Recall: recall})
		switch {
		case errors.Is(err, db.ErrInvalid):
			continue // the model cannot promise it
		case err != nil:
			return err
		}
		r.Delivered[i] = deliver(s.test.Labels, sets.sets, r.heldOut)
	}
	return r.time(ctx, coll, queries[:min(timedRows, len(queries))])
}

// time takes the time of predictions one by one: of the fastest round.
func (r *result) time(ctx context.Context, coll db.Collection, queries []db.Query) error {
	best := time.Duration(math.MaxInt64)
	for range timedRounds {
		start := time.Now()
		for _, q := range queries {
			if _, err := coll.Predict(ctx, q, nil); err != nil {
				return err
			}
		}
		best = min(best, time.Since(start))
	}
	r.Micros = float64(best.Nanoseconds()) / 1e3 / float64(len(queries))
	return nil
}

// answers are predictions for the test rows.
type answers struct {
	sets   *labels.Matrix
	scores *vector.CSR // of the best labels, in their order
	// top compares the probabilities of best labels with what is right; known reports that there are any.
	top   labels.Reliability
	known bool
}

// answer predicts labels.
func (s *set) answer(
	ctx context.Context, coll db.Collection, queries []db.Query, o *db.PredictOptions,
) (a answers, err error) {
	found, err := coll.PredictBatch(ctx, queries, o)
	if err != nil {
		return a, err
	}
	sets := make([][]uint32, len(found))
	a.scores = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: s.test.Labels.Labels()}
	for i, p := range found {
		var best []uint32
		for at, x := range p.Labels {
			n, err := strconv.ParseUint(x.Label, 10, 32)
			if err != nil {
				return a, err
			}
			label := uint32(n)
			if at < slices.Max(rankedAt) {
				best = append(best, label)
			}
			if x.Predicted {
				sets[i] = append(sets[i], label)
			}
			if at == 0 && x.Probability > 0 {
				a.known = true
				a.top.Add(x.Probability, slices.Contains(s.test.Labels.Row(i), label))
			}
		}
		a.scores.Append(lcifbench.Ranking(best))
		slices.Sort(sets[i])
	}
	a.sets, err = labels.FromSets(sets, s.test.Labels.Labels())
	return a, err
}
