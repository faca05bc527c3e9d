package lcifbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// StoredRow is what becomes of a label model in a file that is closed and
// opened again.
type StoredRow struct {
	Set string
	// Pairs is the bytes of the training rows as (int32, float32) pairs; Index,
	// Similarities and Labels are those of the model's parts in the file.
	Pairs, Index, Similarities, Labels int64
	// First is the milliseconds from opening the file to the first prediction,
	// the file in the page cache; Predict the seconds for all test rows.
	First, Predict float64
	TestRows       int
	// One and Batch are the microseconds of a prediction of the first test rows
	// on one goroutine, one by one and as a batch: of the fastest of rounds that
	// take turns.
	One, Batch float64
	// Differ is how many test rows have other scores than in memory.
	Differ int
}

// StoredParams are the parameters of models whose quality does not matter: the
// middle of the ranges that are tuned.
var StoredParams = lcif.Params{K: 20, Alpha: 2, Beta: 1, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}

// batchRows is how many test rows are predicted in a round, batchRounds how many
// rounds there are at least; there are more until batchTime has gone by, since a
// round of a small set is over in a moment that may be a busy one.
const (
	batchRows   = 1024
	batchRounds = 3
	batchTime   = time.Second / 2
)

// storedCollection is the collection and the model of stored rows.
const storedCollection = "rows"

// Store writes the training rows into a database in the folder, learns the model
// of a choice, and predicts the test rows from the file opened again. Errors:
// those of package db, the context's.
func Store(ctx context.Context, dir string, set *Set, params *lcif.Params, o Options) (row StoredRow, err error) {
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	row = StoredRow{Set: set.Name, Pairs: 8 * int64(len(set.Train.Rows.Index)), TestRows: set.Test.Rows.Rows()}
	path := filepath.Join(dir, set.Name+".anndb")
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	info, err := storeModel(ctx, path, set, params, o)
	if err != nil {
		return row, err
	}
	row.Index, row.Similarities, row.Labels = info.Bytes["postings"], info.Bytes["feature-labels"], info.Bytes["label-matrix"]
	queries := make([]db.Query, row.TestRows)
	for i := range queries {
		queries[i].Sparse = set.Test.Rows.Row(i)
	}
	start := time.Now()
	d, err := db.Open(ctx, path, &db.Options{ReadOnly: true})
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var found []db.Predictions
	err = d.View(func(s *db.Snapshot) error {
		if _, err := s.Collection(storedCollection).Predict(ctx, queries[0], nil); err != nil {
			return err
		}
		row.First = 1000 * time.Since(start).Seconds()
		start = time.Now()
		for lo := 0; lo < len(queries); lo += 512 {
			some, err := s.Collection(storedCollection).PredictBatch(
				ctx, queries[lo:min(lo+512, len(queries))], &db.PredictOptions{Workers: o.Workers})
			if err != nil {
				return err
			}
			found = append(found, some...)
			o.Progress("predict from the file", len(found), len(queries))
		}
		row.Predict = time.Since(start).Seconds()
		return row.batches(ctx, s, queries[:min(batchRows, len(queries))])
	})
	if err != nil {
		return row, err
	}
	row.Differ, err = differing(ctx, set, params, found, o)
	return row, err
}

// batches takes the times of predictions one by one and as a batch.
func (r *StoredRow) batches(ctx context.Context, s *db.Snapshot, queries []db.Query) error {
	one, batch := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	begun := time.Now()
	for round := 0; round < batchRounds || time.Since(begun) < batchTime; round++ {
		start := time.Now()
		for _, q := range queries {
			if _, err := s.Collection(storedCollection).Predict(ctx, q, nil); err != nil {
				return err
			}
		}
		between := time.Now()
		if _, err := s.Collection(storedCollection).PredictBatch(ctx, queries, &db.PredictOptions{Workers: 1}); err != nil {
			return err
		}
		one, batch = min(one, between.Sub(start)), min(batch, time.Since(between))
	}
	micros := func(d time.Duration) float64 {
		return float64(d.Nanoseconds()) / 1000 / float64(max(1, len(queries)))
	}
	r.One, r.Batch = micros(one), micros(batch)
	return nil
}

// storeModel writes rows and model.
func storeModel(ctx context.Context, path string, set *Set, params *lcif.Params, o Options) (info index.Info, err error) {
	d, err := db.Open(ctx, path, &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Create(ctx, storedCollection, db.Schema{Sparse: true}); err != nil {
		return info, err
	}
	n := set.Train.Rows.Rows()
	for lo := 0; lo < n; lo += 4096 {
		o.Progress("write rows", lo, n)
		err := d.Update(ctx, func(b *db.Tx) error {
			for i := lo; i < min(lo+4096, n); i++ {
				r := db.Row{Key: fmt.Append(nil, i), Sparse: set.Train.Rows.Row(i)}
				for _, l := range set.Train.Labels.Row(i) {
					r.Labels = append(r.Labels, fmt.Sprint(l))
				}
				if err := b.Collection(storedCollection).Put(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return info, err
		}
	}
	// In the file labels have numbers of their own.
	own := *params
	if own.Thresholds != nil && own.Thresholds.PerLabel != nil {
		t := *own.Thresholds
		t.PerLabel = make([]float64, set.Train.Labels.Labels())
		place := map[uint32]int{}
		for i := range n {
			for _, l := range set.Train.Labels.Row(i) {
				if _, ok := place[l]; !ok {
					place[l] = len(place)
				}
			}
		}
		for l, p := range place {
			t.PerLabel[p] = own.Thresholds.PerLabel[l]
		}
		own.Thresholds = &t
	}
	return d.Collection(storedCollection).Build(ctx, "model", &index.LCIF{Params: &own}, &db.Run{Workers: o.Workers})
}

// differing compares predictions with those in memory: by their scores, since
// labels are numbered otherwise, which decides ties.
func differing(
	ctx context.Context, set *Set, params *lcif.Params, found []db.Predictions, o Options,
) (int, error) {
	view, counts, err := lcif.Build(ctx, set.Train.Rows, set.Train.Labels, params.Features, o.Workers)
	if err != nil {
		return 0, err
	}
	if params.Lambda < 1 {
		if err := view.SetPower(counts, params.Beta); err != nil {
			return 0, err
		}
	}
	want, err := Predict(ctx, view, set.Test.Rows, params, o.Workers)
	if err != nil {
		return 0, err
	}
	n := 0
	for i, w := range want {
		if !sameScores(found[i].Labels, w) {
			n++
		}
	}
	return n, nil
}

func sameScores(a []db.Prediction, b []labels.Ranked) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(float64(a[i].Score-b[i].Score)) > 1e-6 {
			return false
		}
	}
	return true
}
