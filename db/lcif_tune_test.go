package db_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// putTerms puts rows of three topics whose own term is rare, among terms that all
// rows have many times: tf-idf finds the topic, plain values do not.
func putTerms(t *testing.T, d *db.DB, coll string, from, to int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(from), 1))
	dbtest.Fill(t, d, coll, from, to, func(i int) db.Row {
		topic := uint32(i % 3)
		x := vector.Sparse{Index: []uint32{0, 1, 2, 3 + topic}, Value: []float32{0, 0, 0, 1}}
		for f := range 3 {
			x.Value[f] = float32(1 + rng.IntN(20))
		}
		return db.Row{Key: fmt.Append(nil, i), Sparse: x, Labels: []string{fmt.Sprint("topic ", topic)}}
	})
}

// putColumns puts dense rows whose topic is in a column of small numbers, beside
// one of large numbers that mean nothing.
func putColumns(t *testing.T, d *db.DB, from, to int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(from), 2))
	dbtest.Fill(t, d, "dense", from, to, func(i int) db.Row {
		topic := i % 2
		x := []float32{float32(1000 * rng.NormFloat64()), 5 + 0.2*float32(topic) + float32(0.02*rng.NormFloat64()), 7}
		return db.Row{Key: fmt.Append(nil, i), Vector: x, Labels: []string{fmt.Sprint("topic ", topic)}}
	})
}

// Without a weighting given, the tuner takes what its cross-validation finds best,
// says so, and the model is that of the weighting given by name.
func TestTunerChoosesTheWeighting(t *testing.T) {
	t.Parallel()
	d := dbtest.OpenTemp(t, nil)
	dbtest.Must(t, dbtest.Create(t.Context(), d, "terms", db.Schema{Sparse: true}))
	putTerms(t, d, "terms", 0, 240)
	info := map[string]index.Info{}
	for name, w := range map[string]string{"auto": "", "none": "none", "tfidf": "tfidf"} {
		var err error
		o := &index.LCIF{Folds: 4, Weight: w}
		if info[name], err = d.Collection("terms").Build(t.Context(), name, o, nil); err != nil {
			t.Fatal(err)
		}
	}
	auto := info["auto"]
	if w := auto.Options.(*index.LCIF).Weight; w != "tfidf" {
		t.Errorf("weighting %q is chosen", w)
	}
	if best, plain := microF1(auto), microF1(info["none"]); !(best > plain+0.05) {
		t.Errorf("micro F1 %g, without weights %g", best, plain)
	}
	if !reflect.DeepEqual(auto.LabelCurve, info["tfidf"].LabelCurve) {
		t.Error("the curve is not that of the chosen weighting")
	}
	same := func() {
		t.Helper()
		err := d.View(func(s *db.Snapshot) error {
			for topic := range uint32(3) {
				q := db.Query{Sparse: vector.Sparse{Index: []uint32{0, 2, 3 + topic}, Value: []float32{9, 3, 1}}}
				a, _, err1 := dbtest.Predict(t.Context(), s.Collection("terms"), q, &db.PredictOptions{Index: "auto", Top: 3})
				b, _, err2 := dbtest.Predict(t.Context(), s.Collection("terms"), q, &db.PredictOptions{Index: "tfidf", Top: 3})
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
				if !slices.Equal(a, b) || a[0].Label != fmt.Sprint("topic ", topic) {
					t.Errorf("topic %d: %v, by the weighting's name %v", topic, a, b)
				}
			}
			return nil
		})
		dbtest.Must(t, err)
	}
	same()
	putTerms(t, d, "terms", 240, 400) // so many that the model is relearned
	if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	same()
}

// Columns are standardized where that is best; the scale is stored with the model,
// applied to queries, alone and in batches, and to rows that came later, and
// renewed by maintenance.
func TestScaledColumns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	d, err := db.Open(t.Context(), path, nil)
	dbtest.Must(t, err)
	defer func() { d.Close() }()
	dbtest.Must(t, dbtest.Create(t.Context(), d, "dense", db.Schema{Dim: 3}))
	putColumns(t, d, 0, 120)
	info, err := d.Collection("dense").Build(t.Context(), "labels", &index.LCIF{Folds: 4}, nil)
	dbtest.Must(t, err)
	plain, err := d.Collection("dense").Build(t.Context(), "plain", &index.LCIF{Folds: 4, Weight: "none"}, nil)
	dbtest.Must(t, errors.Join(err, d.Collection("dense").DropIndex(t.Context(), "plain")))
	if w := info.Options.(*index.LCIF).Weight; w != "standard" || !(microF1(info) > microF1(plain)+0.2) {
		t.Fatalf("weighting %q, micro F1 %g, without weights %g", w, microF1(info), microF1(plain))
	}
	check := func() {
		t.Helper()
		err := d.View(func(s *db.Snapshot) error {
			if scale := storedScale(t, d, "dense"); scale == nil || scale.Factor[2] != 0 {
				t.Errorf("scale %+v", scale)
			}
			var queries []db.Query
			rng := rand.New(rand.NewPCG(9, 9))
			for i := range 40 {
				x := []float32{float32(1000 * rng.NormFloat64()), 5 + 0.2*float32(i%2), 7}
				queries = append(queries, db.Query{Vector: x})
			}
			all, err := dbtest.PredictBatch(t.Context(), s.Collection("dense"), queries, &db.PredictOptions{Top: 2}, 2)
			if err != nil {
				return err
			}
			right := 0
			for i, q := range queries {
				one, _, err := dbtest.Predict(t.Context(), s.Collection("dense"), q, &db.PredictOptions{Top: 2})
				if err != nil {
					return err
				}
				if !slices.Equal(one, all[i]) {
					t.Errorf("query %d: %v alone, %v in a batch", i, one, all[i])
				}
				if one[0].Label == fmt.Sprint("topic ", i%2) {
					right++
				}
			}
			if right < 38 {
				t.Errorf("%d of 40 right", right)
			}
			return nil
		})
		dbtest.Must(t, err)
	}
	check()
	dbtest.Must(t, d.Close())
	if d, err = db.Open(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	check()
	scale := func() lcif.Scaling { return *storedScale(t, d, "dense") }
	before := scale()
	for _, n := range []int{130, 260} { // few rows, then so many that it is relearned
		putColumns(t, d, n-10, n)
		if n == 260 {
			putColumns(t, d, 130, 250)
		}
		check()
		if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
		check()
		if now := scale(); reflect.DeepEqual(before, now) != (n == 130) {
			t.Errorf("%d rows: scale %+v, it was %+v", n, now, before)
		}
	}
	dbtest.Must(t, d.Check(t.Context(), func(p *db.CorruptError) { t.Error(p) }, nil))
	for name, o := range map[string]index.LCIF{
		"tf-idf": {Weight: "tfidf"},
		"forest": {Weight: "standard", Neighbors: "trees"},
	} {
		if _, err := d.Collection("dense").Build(t.Context(), "x", &o, nil); !errors.Is(err, fail.Option) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A setting that was tuned, its cut included, makes on the same rows the model that
// the tuner made, and on others thresholds of their own.
func TestTunedSettingOnAnotherCollection(t *testing.T) {
	t.Parallel()
	d := dbtest.OpenTemp(t, nil)
	for i, coll := range []string{"one", "other"} {
		dbtest.Must(t, dbtest.Create(t.Context(), d, coll, db.Schema{Sparse: true}))
		putTerms(t, d, coll, 0, 150+60*i)
	}
	tuned, err := d.Collection("one").Build(t.Context(), "tuned", &index.LCIF{Folds: 5, AllowEmpty: true, Weight: "none"}, nil)
	dbtest.Must(t, err)
	point := tuned.LabelCurve.Best
	for _, cut := range []lcif.Cut{point.Cut, {Share: 1.5, NoTop: true}, {Share: 1, PerLabel: true}} {
		o := index.LCIF{
			Folds: 5, Weight: tuned.Options.(*index.LCIF).Weight, Cut: &cut,
			Params: &lcif.Params{K: point.K, Alpha: point.Alpha, Beta: point.Beta, Lambda: point.Lambda},
		}
		thresholds := map[string]*labels.Thresholds{}
		for _, coll := range []string{"one", "other"} {
			info, err := d.Collection(coll).Build(t.Context(), "given", &o, nil)
			dbtest.Must(t, err)
			thresholds[coll] = info.Options.(*index.LCIF).Params.Thresholds
		}
		if th := thresholds["one"]; th == nil || th.KeepTop == cut.NoTop || (th.PerLabel != nil) != cut.PerLabel {
			t.Fatalf("%+v makes the thresholds %+v", cut, th)
		}
		if reflect.DeepEqual(thresholds["one"], thresholds["other"]) {
			t.Errorf("%+v: other rows have the same thresholds", cut)
		}
		if want := tuned.LabelCurve.Params.Thresholds; cut == point.Cut && !reflect.DeepEqual(thresholds["one"], want) {
			t.Errorf("thresholds %+v, the tuner made %+v", thresholds["one"], want)
		}
	}
	for name, o := range map[string]index.LCIF{
		"cut alone":  {Cut: &lcif.Cut{Share: 1}},
		"thresholds": {Cut: &lcif.Cut{Share: 1}, Params: &lcif.Params{K: 1, Lambda: 1, Thresholds: &labels.Thresholds{}}},
	} {
		if _, err := d.Collection("one").Build(t.Context(), "x", &o, nil); !errors.Is(err, fail.Option) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// microF1 returns the measure of the setting that the tuner has chosen for a model.
func microF1(info index.Info) float64 { return info.LabelCurve.Best.MicroF1 }

// A tuner that is stopped builds with the best setting so far, and later steps do not notice.
func TestStoppedTuner(t *testing.T) {
	t.Parallel()
	d := dbtest.OpenTemp(t, nil)
	dbtest.Must(t, dbtest.Create(t.Context(), d, "terms", db.Schema{Sparse: true}))
	putTerms(t, d, "terms", 0, 60)
	stop := make(chan struct{})
	settings := 0
	run := &db.Run{Stop: stop, Progress: func(stage string, _, _ int) {
		if strings.HasPrefix(stage, "settings") {
			if settings++; settings == 20 {
				close(stop)
			}
		}
	}}
	info, err := d.Collection("terms").Build(t.Context(), "labels", &index.LCIF{Folds: 3}, run)
	dbtest.Must(t, err)
	if o := info.Options.(*index.LCIF); len(info.LabelCurve.Points) != settings || settings > 40 || o.Weight != "none" {
		t.Errorf("%d settings, %d measured, weighting %q", settings, len(info.LabelCurve.Points), o.Weight)
	}
	grid := &budget.Grid{Budgets: []int{1, 2, 3}, Costs: []float64{1}, Folds: 2}
	info, err = d.Collection("terms").Build(t.Context(), "trees", &index.Trees{Kind: "pt", Grid: grid}, run)
	dbtest.Must(t, err)
	if len(info.TreeTrials) != 1 {
		t.Errorf("trees: %d trials", len(info.TreeTrials))
	}
	dbtest.Must(t, d.Check(t.Context(), func(p *db.CorruptError) { t.Error(p) }, nil))
}

// storedScale returns the scale of the columns in the manifest of the label model "labels", nil if it has none.
func storedScale(t *testing.T, d *db.DB, coll string) *lcif.Scaling {
	t.Helper()
	p := dbtest.Block(t, d.Path(), layout.BucketMeta, coll, "labels", codec.KindManifest, 0)
	data, err := layout.DecodeBlock("", p.Key, p.Value, true)
	dbtest.Must(t, err)
	var m struct {
		Segments []struct {
			Detail struct{ Scale *lcif.Scaling }
		}
	}
	dbtest.Must(t, json.Unmarshal(data, &m))
	return m.Segments[0].Detail.Scale
}
