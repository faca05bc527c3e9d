package db_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// A batch predicts what Predict does query by query, to the bit, also where rows
// and labels came and went since the build.
func TestPredictBatchIsPredict(t *testing.T) {
	t.Parallel()
	d, _, queries, _ := topicDB(t, true)
	defer d.Close()
	params := &lcif.Params{K: 7, Lambda: 0.5, Beta: 2, Thresholds: &labels.Thresholds{Single: 0.1, KeepTop: true}}
	o := &index.LCIF{Params: params, Weight: "tfidf"}
	dbtest.Builds(t, d, "docs", "labels", o)
	compare := func() {
		t.Helper()
		for _, o := range []db.PredictOptions{{}, {Top: 3}, {Top: 1, Set: true}, {Top: 2, Explain: true}} {
			for _, workers := range []int{1, 3} {
				got := predictAll(t, d, queries, &o, workers)
				err := d.View(func(s *db.Snapshot) error {
					for i, q := range queries {
						want, _, err := dbtest.Predict(t.Context(), s.Collection("docs"), q, &o)
						if err != nil {
							return err
						}
						if !reflect.DeepEqual(got[i], want) {
							t.Fatalf("%+v, query %d: %v in a batch, %v alone", o, i, got[i], want)
						}
					}
					return nil
				})
				dbtest.Must(t, err)
			}
		}
	}
	compare()
	rng := rand.New(rand.NewPCG(3, 3))
	put(t, d, 200, func(i int) db.Row {
		x, names := topicRow(rng, 8)
		r := db.Row{Key: fmt.Append(nil, "d", 3*i), Labels: append(names, "fresh")}
		for j, f := range x.Index {
			r.Features = append(r.Features, vector.Feature{Name: fmt.Sprint("w", f), Value: x.Value[j]})
		}
		return r
	})
	compare()
}

// An error is that of the first query which has one, with its number.
func TestPredictBatchErrors(t *testing.T) {
	d, _, queries, _ := topicDB(t, false)
	defer d.Close()
	o := &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 1}}
	dbtest.Builds(t, d, "docs", "labels", o)
	queries[17].Sparse = vector.Sparse{Index: []uint32{4, 4}, Value: []float32{1, 1}}
	queries[40].Sparse = queries[17].Sparse
	_, err := dbtest.PredictBatch(t.Context(), d.Collection("docs"), queries, nil, 1)
	if !errors.Is(err, fail.Features) || err == nil || err.Error()[:13] != "db: query 17:" {
		t.Errorf("error %v", err)
	}
	if out := predictAll(t, d, nil, nil, 2); len(out) != 0 {
		t.Errorf("%d predictions for no queries", len(out))
	}
}
