package db_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// TestProbabilities: labels have probabilities that are about true, go by them, and sets have the recall that is
// asked for.
func TestProbabilities(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	d, _, queries, truth := topicDB(t, false)
	defer d.Close()
	c := d.Collection("docs")
	params := &lcif.Params{K: 5, Lambda: 0.7}
	for name, o := range map[string]index.Options{
		"given": &index.LCIF{Params: params}, "tuned": &index.LCIF{Folds: 3, TuneRows: 600},
		"at": &index.Trees{Kind: "at", Budget: 20}, "pt": &index.Trees{Kind: "pt", Budget: 20}, "labeltree": &index.LabelTree{},
	} {
		info, err := c.Build(t.Context(), name, o, nil)
		dbtest.Must(t, err)
		if k := info.Calibration; k == nil || k.Rows < 500 || k.OwnSets || k.Top.Error() > 0.1 {
			t.Fatalf("%s: calibration %+v", name, k)
		}
		ask := func(o db.PredictOptions) [][]db.Prediction {
			o.Index = name
			return predictAll(t, d, queries, &o, 2)
		}
		var top labels.Reliability
		all, sets, half := ask(db.PredictOptions{Top: 1000}), ask(db.PredictOptions{}), ask(db.PredictOptions{MinProbability: 0.5})
		for i, list := range all {
			top.Add(list[0].Probability, slices.Contains(truth[i], list[0].Label))
			if !slices.IsSortedFunc(list, func(a, b db.Prediction) int { return cmp.Compare(b.Probability, a.Probability) }) {
				t.Fatalf("%s: %+v", name, list)
			}
			if want := chosen(list, func(p db.Prediction) bool { return p.Predicted }); !slices.Equal(sets[i], want) {
				t.Errorf("%s: set %+v, want %+v", name, sets[i], want)
			}
			if want := chosen(list, func(p db.Prediction) bool { return p.Probability >= 0.5 }); !slices.Equal(half[i], want) {
				t.Errorf("%s: %+v have 0.5, want %+v", name, half[i], want)
			}
		}
		if e := top.Error(); e > 0.1 {
			t.Errorf("%s: calibration error %g", name, e)
		}
		for _, want := range []float64{0.5, 0.8} {
			var shares []float64
			for i, set := range ask(db.PredictOptions{Recall: want}) {
				hits := chosen(set, func(p db.Prediction) bool { return slices.Contains(truth[i], p.Label) })
				shares = append(shares, float64(len(hits))/float64(len(truth[i])))
			}
			mean, spread := meanSpread(shares)
			if mean < want-1.645*spread/math.Sqrt(float64(len(shares))) {
				t.Errorf("%s: recall %g of %g", name, mean, want)
			}
		}
		reach := float64(len(info.Calibration.Recall)) / 100
		_, err = c.Predict(t.Context(), queries[0], &db.PredictOptions{Index: name, Recall: 1})
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("at most %g", reach)) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: a recall of 1: %v", name, err)
		}
	}
	for _, o := range []db.PredictOptions{
		{MinProbability: 0.5, Recall: 0.5}, {MinProbability: math.NaN()}, {Recall: -1}, {MinProbability: 1.5}, {Params: params, Recall: 0.5},
	} {
		o.Index = "given"
		if _, err := c.Predict(t.Context(), queries[0], &o); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	other, err := c.Predict(t.Context(), queries[0], &db.PredictOptions{Index: "given", Params: params})
	if err != nil || len(other.Labels) == 0 || other.Labels[0].Probability != 0 {
		t.Errorf("other parameters: %+v, %v", other, err)
	}
}

// chosen returns the predictions that obey a condition, as those of a set.
func chosen(list []db.Prediction, keep func(db.Prediction) bool) (out []db.Prediction) {
	for _, p := range list {
		if keep(p) {
			p.Predicted = true
			out = append(out, p)
		}
	}
	return out
}

// meanSpread returns the mean and the standard deviation.
func meanSpread(values []float64) (mean, spread float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		spread += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(spread)
}

// TestOwnSets: models with thresholds of the user keep their sets, and few rows give no probabilities.
func TestOwnSets(t *testing.T) {
	t.Parallel()
	d, rows, queries, _ := topicDB(t, false)
	defer d.Close()
	c := d.Collection("docs")
	params := &lcif.Params{K: 5, Lambda: 0.7, Thresholds: &labels.Thresholds{Single: 0.2}}
	dbtest.Builds(t, d, "docs", "own", &index.LCIF{Params: params})
	with := byScore(predictAll(t, d, queries, nil, 2))
	without := byScore(predictAll(t, d, queries, &db.PredictOptions{Params: params}, 2))
	if !equalPredictions(with, without) {
		t.Error("probabilities change sets of given thresholds")
	}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "few", db.Schema{Sparse: true}))
	dbtest.Must(t, dbtest.Put(d, "few", rows[:labels.LeastCalibrationRows-1]...))
	for name, o := range map[string]index.Options{"lcif": &index.LCIF{}, "at": &index.Trees{Kind: "at", Budget: 5}} {
		info, err := d.Collection("few").Build(t.Context(), name, o, nil)
		dbtest.Must(t, err)
		found, err := d.Collection("few").Predict(t.Context(), queries[0], &db.PredictOptions{Index: name, Top: 1})
		if err != nil || info.Calibration != nil || found.Labels[0].Probability != 0 {
			t.Errorf("%s by few rows: %+v, %v", name, found, err)
		}
		_, err = d.Collection("few").Predict(t.Context(), queries[0], &db.PredictOptions{Index: name, MinProbability: 0.5})
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "50 rows or more with labels") {
			t.Errorf("%s by few rows: %v", name, err)
		}
	}
	// The calibration follows: a rebuild of the same rows computes the same one.
	before, err := c.Index("own")
	dbtest.Must(t, err)
	dbtest.Builds(t, d, "docs", "again", before.Given)
	after, err := c.Index("again")
	if err != nil || fmt.Sprintf("%+v", before.Calibration) != fmt.Sprintf("%+v", after.Calibration) {
		t.Errorf("%+v, rebuilt %+v, %v", before.Calibration, after.Calibration, err)
	}
}

// TestPropensityOrder: a model for propensity-scored precision orders labels by probability times inverse
// propensity, which changes neither the probabilities nor the sets of the model for micro F1.
func TestPropensityOrder(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	d, rows, queries, _ := topicDB(t, false)
	defer d.Close()
	dbtest.Must(t, dbtest.Create(t.Context(), d, "rare", db.Schema{Sparse: true}))
	with := map[string]int{}
	for i := range rows { // the labels of later numbers become rare
		rows[i].Labels = slices.DeleteFunc(rows[i].Labels, func(l string) bool { return i%(1+10*int(l[len(l)-1]-'0')) > 0 })
		for _, l := range rows[i].Labels {
			with[l]++
		}
	}
	dbtest.Must(t, dbtest.Put(d, "rare", rows...))
	for name, of := range map[string]func(o lcif.Objective) index.Options{
		"labeltree": func(o lcif.Objective) index.Options { return &index.LabelTree{Objective: o} },
		"at":        func(o lcif.Objective) index.Options { return &index.Trees{Kind: "at", Budget: 20, Objective: o} },
		"lcif": func(o lcif.Objective) index.Options {
			return &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.7}, Objective: o}
		},
	} {
		dbtest.Builds(t, d, "rare", name+" for sets", of(lcif.MicroF1))
		dbtest.Builds(t, d, "rare", name, of(lcif.PropensityAt5))
		ask := func(o db.PredictOptions, model string) [][]db.Prediction {
			o.Index = model
			list, err := d.Collection("rare").PredictBatch(t.Context(), queries, &o)
			dbtest.Must(t, err)
			var out [][]db.Prediction
			for _, p := range list {
				out = append(out, p.Labels)
			}
			return out
		}
		want := ask(db.PredictOptions{Top: 1000}, name+" for sets")
		moved := false
		for k, o := range []db.PredictOptions{{Top: 1000}, {Top: 3}, {}} {
			for i, got := range ask(o, name) {
				list := slices.Clone(want[i])
				slices.SortStableFunc(list, func(a, b db.Prediction) int {
					weights := labels.InversePropensities([]int{with[a.Label], with[b.Label]}, len(rows))
					return cmp.Compare(b.Probability*float32(weights[1]), a.Probability*float32(weights[0]))
				})
				moved = moved || list[0].Label != want[i][0].Label
				if o.Top == 0 {
					list = chosen(list, func(p db.Prediction) bool { return p.Predicted })
				}
				if o.Top == 3 {
					list = list[:min(3, len(list))]
				}
				if !slices.Equal(got, list) {
					t.Fatalf("%s, case %d: %+v, want %+v", name, k, got, list)
				}
			}
		}
		if !moved {
			t.Errorf("%s: no label moved", name)
		}
	}
}
