package check_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// object is an object of JSON.
type object = map[string]any

// at returns an object in others.
func at(m object, names ...string) object {
	for _, n := range names {
		m = m[n].(object)
	}
	return m
}

// forgedCurve returns a valid curve with depths, as JSON.
func forgedCurve() object {
	leaves := func() object {
		return object{"params": object{"method": "natural", "tau": 0.01}, "recall": 0.92, "micros": 5, "candidates": 9}
	}
	beam := func() object {
		return object{"params": object{"method": "natural", "sketch": true, "beam": 30, "r": 20},
			"recall": 0.97, "held": 0.98, "micros": 9, "candidates": 20}
	}
	return object{
		"k": 10, "queries": 50, "sampled": 3, "points": []any{leaves(), beam()}, "plain": []any{beam()},
		"reach": 3, "scan": 100, "rows": 60, "scanPlaces": 8,
		"depths": []any{object{"k": 1, "queries": 5, "points": []any{beam()}}, object{"k": 100, "queries": 0, "points": nil}},
	}
}

// Every number of a manifest that a search uses is checked when the index is opened, and by Check.
func TestHostileNumbers(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) {
		dbtest.Builds(t, d, "d", "kd", &db.Forest{NoTune: true, Quantize: true})
		dbtest.Builds(t, d, "s", "lcif", &db.LCIF{Weight: "tfidf", Params: &lcif.Params{K: 3, Lambda: 0.5}})
		dbtest.Builds(t, d, "s", "p", &db.Postings{})
		dbtest.Builds(t, d, "s", "at", &db.Trees{Kind: "at", Params: budget.Params{BAC: budget.BACParams{Budget: 2}}})
	})
	keys := map[string][codec.KeySize]byte{}
	for name, coll := range map[string]string{"kd": "d", "lcif": "s", "p": "s", "at": "s"} {
		keys[name] = codec.Key(dbtest.Object(t, path, coll, name), codec.KindManifest, 0)
	}
	dbtest.EditJSON(t, path, keys["kd"], func(m object) { at(m, "Info")["Curve"] = forgedCurve() })
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	if found := useAndCheck(t, path); len(found) > 0 {
		t.Fatalf("valid: %v", found)
	}

	point := func(i int, field string, value any) func(m object) {
		return func(m object) {
			at(m, "Info", "Curve")["points"].([]any)[i].(object)[field] = value
		}
	}
	param := func(i int, field string, value any) func(m object) {
		return func(m object) {
			at(at(m, "Info", "Curve")["points"].([]any)[i].(object), "params")[field] = value
		}
	}
	curve := func(field string, value any) func(m object) {
		return func(m object) { at(m, "Info", "Curve")[field] = value }
	}
	depth := func(i int, field string, value any) func(m object) {
		return func(m object) { at(m, "Info", "Curve")["depths"].([]any)[i].(object)[field] = value }
	}
	set := func(value any, path ...string) func(m object) {
		return func(m object) { at(m, path[:len(path)-1]...)[path[len(path)-1]] = value }
	}
	segment := func(field string, value any) func(m object) {
		return func(m object) { at(m, "Detail")["Segments"].([]any)[0].(object)["Index"].(object)[field] = value }
	}
	detail := func(field string, value any) func(m object) {
		return func(m object) { at(m["Segments"].([]any)[0].(object), "Detail")[field] = value }
	}
	number := func(text string) json.Number { return json.Number(text) }
	for _, c := range []struct {
		index string
		want  string // in the error, next to the name of the index
		edit  func(m object)
	}{
		{"kd", "voting needs member lists", param(1, "method", "voting")},
		{"kd", "trees is -5", param(1, "trees", -5)},
		{"kd", "extra is -5", param(1, "extra", -5)},
		{"kd", "hop_width is -1", param(0, "hop_width", -1)},
		{"kd", "hops is -1", param(1, "hops", -1)},
		{"kd", "r is -1", param(1, "r", -1)},
		{"kd", "beam is -1", param(1, "beam", -1)},
		{"kd", "tau is -1", param(1, "tau", -1)},
		{"kd", "tau is 1e+300", param(0, "tau", number("1e300"))},
		{"kd", "gap is -1", param(1, "gap", -1)},
		{"kd", "of at least -1", param(1, "gap_floor", -1)},
		{"kd", "recall is 2", point(1, "recall", 2)},
		{"kd", "recall is -0.5", point(0, "recall", -0.5)},
		{"kd", "recall is 1.5", point(1, "held", 1.5)},
		{"kd", "-1 microseconds", point(0, "micros", -1)},
		{"kd", "-1 candidates", point(0, "candidates", -1)},
		{"kd", "k is 0", curve("k", 0)},
		{"kd", "k is 4611686018427387904", curve("k", 1<<62)},
		{"kd", "-1 queries", curve("queries", -1)},
		{"kd", "-1 sampled", curve("sampled", -1)},
		{"kd", "-1 rows", curve("rows", -1)},
		{"kd", "reach is -1", curve("reach", -1)},
		{"kd", "scan -1", curve("scan", -1)},
		{"kd", "scanPlaces is 1e+300", curve("scanPlaces", number("1e300"))},
		{"kd", "scanPlaces is -8", curve("scanPlaces", -8)},
		{"kd", "plain point 0: recall is 3", func(m object) { at(m, "Info", "Curve")["plain"].([]any)[0].(object)["recall"] = 3 }},
		{"kd", "depth 0 is of -1 neighbors", depth(0, "k", -1)},
		{"kd", "depth 1 is of 1 neighbors", depth(1, "k", 1)},
		{"kd", "depth 0 is of 10 neighbors", depth(0, "k", 10)},
		{"kd", "depth 0 is of 1 neighbors", depth(0, "depths", []any{forgedCurve()})},
		{"kd", "depth 1: -1 queries", depth(0, "queries", -1)},
		{"kd", "8-bit copy", detail("QuantStep", number("3.4e38"))},
		{"kd", "8-bit copy", detail("QuantStep", -1)},
		{"kd", "length of lifted rows", detail("Lift", -1)},
		{"kd", "voting needs member lists", func(m object) {
			c := forgedCurve()
			at(c["points"].([]any)[1].(object), "params")["method"] = "voting"
			detail("Curve", c)(m)
		}},
		{"kd", "options", set(-1, "Options", "Density")},
		{"kd", "options", set(-1, "Options", "TuneK")},
		{"kd", "training points", set(-1, "Info", "TrainingPoints")},
		{"kd", "sizes of sections", set(nil, "Info", "Bytes")},
		{"kd", "share of rows reached", set(7, "Info", "Reached")},
		{"lcif", "Params.K -3", set(-3, "Options", "Params", "k")},
		{"lcif", "Params.Alpha -1", set(-1, "Options", "Params", "alpha")},
		{"lcif", "Params.Beta -1", set(-1, "Options", "Params", "beta")},
		{"lcif", "Params.Lambda 2", set(2, "Options", "Params", "lambda")},
		{"lcif", "Params.SecondOrder -1", set(-1, "Options", "Params", "second_order")},
		{"lcif", "Params.Top -1", set(-1, "Options", "Params", "top")},
		{"lcif", "Params.Features -1", set(-1, "Options", "Params", "features")},
		{"lcif", "1 thresholds for 2 labels", set(object{"PerLabel": []any{0.5}}, "Options", "Params", "thresholds")},
		{"lcif", "choice", set(object{"params": object{"lambda": 2}}, "Info", "LabelCurve")},
		{"lcif", "measure of 7", set(object{"points": []any{object{"k": 1, "micro_f1": 7}}}, "Info", "LabelCurve")},
		{"lcif", "length -1", segment("Norm", -1)},
		{"p", "length -1", detail("Norm", -1)},
		{"p", "-1 features", detail("Cols", -1)},
		{"at", "voters", detail("Voters", 0)},
		{"at", "labels", detail("Labels", 9)},
		{"at", "Params.BAC.Budget -1", set(-1, "Options", "Params", "BAC", "Budget")},
		{"at", "depth -1", set(-1, "Options", "Params", "MaxDepth")},
		{"at", "Params.BAC.C -1", set(-1, "Options", "Params", "BAC", "C")},
	} {
		name := fmt.Sprintf("%s: %s", c.index, c.want)
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		dbtest.EditJSON(t, path, keys[c.index], c.edit)
		found := useAndCheck(t, path)
		if len(found) < 2 {
			t.Errorf("%s: found only by %v", name, found)
		}
		for by, err := range found {
			dbtest.MustBeCorrupt(t, name+": "+by, err)
			text := err.Error()
			if errors.Is(err, db.ErrInvalid) || !strings.Contains(text, c.want) || !strings.Contains(text, fmt.Sprintf("%q", c.index)) {
				t.Errorf("%s: %s: %v", name, by, err)
			}
		}
	}
}

// useAndCheck returns the errors of a search or prediction by each index of hostileBase that has one,
// and of Check.
func useAndCheck(t *testing.T, path string) map[string]error {
	t.Helper()
	found := map[string]error{}
	dbtest.WithFile(t, path, func(d *db.DB, s *db.Snapshot) {
		note := func(by string, err error) {
			if err != nil {
				found[by] = err
			}
		}
		_, err := s.Collection("d").Search(t.Context(), db.Query{Vector: make([]float32, 4)},
			&db.SearchOptions{K: 3, Recall: 0.9, Index: "kd", Where: filter.HasLabel("l0")})
		note("search kd", err)
		row, err := s.Collection("s").Get([]byte("1"))
		dbtest.Must(t, err)
		_, err = s.Collection("s").Search(t.Context(), db.Query{Sparse: row.Sparse}, &db.SearchOptions{K: 3, Index: "p"})
		note("search p", err)
		for _, index := range []string{"lcif", "at"} {
			_, err = s.Collection("s").Predict(t.Context(), db.Query{Sparse: row.Sparse}, &db.PredictOptions{Index: index})
			note("predict "+index, err)
		}
		_ = d.Check(t.Context(), func(p *db.CorruptError) { note("check", p) }, nil) // which counts them
	})
	return found
}

// A label model is not built with parameters that no prediction accepts.
func TestLCIFParamsAtBuild(t *testing.T) {
	hostileBase(t, 20, func(d *db.DB) {
		for name, p := range map[string]lcif.Params{
			"k":          {K: -1, Lambda: 0.5},
			"lambda":     {K: 1, Lambda: 2},
			"alpha":      {K: 1, Lambda: 1, Alpha: -1},
			"thresholds": {K: 1, Lambda: 1, Thresholds: &labels.Thresholds{PerLabel: []float64{1}}},
		} {
			_, err := d.Collection("s").Build(t.Context(), "l", &db.LCIF{Params: &p}, nil)
			if !errors.Is(err, db.ErrInvalid) || errors.Is(err, db.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Lengths of rows with which similarities exceed 1 are damage, not answers.
func TestHostileLengths(t *testing.T) {
	const arrayNorm = 6
	path := hostileBase(t, 60, func(d *db.DB) { dbtest.Builds(t, d, "s", "p", nil) })
	lengths := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e-300)), 60)
	dbtest.PutBlock(t, path, layout.BucketBlocks, codec.Key(dbtest.Blocks(t, path, "s", "p"), codec.KindPostings, arrayNorm), lengths)
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
		row, err := s.Collection("s").Get([]byte("1"))
		dbtest.Must(t, err)
		for _, k := range []int{1, 5, 100} {
			_, err = s.Collection("s").Search(t.Context(), db.Query{Sparse: row.Sparse}, &db.SearchOptions{K: k, Index: "p"})
			dbtest.MustBeCorrupt(t, fmt.Sprint(k), err)
		}
	})
}
