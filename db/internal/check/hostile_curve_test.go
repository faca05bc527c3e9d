package check_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/internal/golden"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// object is an object of JSON.
type object = map[string]any

// set sets the value at a place of JSON, by the names of fields and the numbers of items.
func set(m any, place string, value any) {
	at, rest, more := strings.Cut(place, ".")
	switch m := m.(type) {
	case object:
		if more {
			set(m[at], rest, value)
		} else {
			m[at] = value
		}
	case []any:
		i, _ := strconv.Atoi(at)
		if more {
			set(m[i], rest, value)
		} else {
			m[i] = value
		}
	}
}

// forgedCurve is a valid curve with depths.
const forgedCurve = `{"k": 10, "queries": 50, "sampled": 3, "reach": 3, "scan": 100, "rows": 60,
	"points": [
		{"params": {"method": "natural", "tau": 0.01}, "recall": 0.92, "micros": 5, "candidates": 9},
		{"params": {"method": "natural", "sketch": true, "beam": 30, "r": 20},
			"recall": 0.97, "users": 0.96, "micros": 9, "candidates": 20}],
	"depths": [
		{"k": 1, "queries": 5, "points": [{"params": {"method": "natural", "sketch": true, "beam": 30, "r": 20},
			"recall": 0.97, "users": 0.96, "micros": 9, "candidates": 20}]},
		{"k": 100, "queries": 0, "points": null}]}`

// TestHostileNumbers: every number of a manifest that a search uses is checked when the index is opened, and by
// Check. testdata/hostile.txt has an index, a place of its manifest and a value a line.
func TestHostileNumbers(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) {
		dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true})
		dbtest.Builds(t, d, "s", "lcif", &index.LCIF{Weight: "tfidf", Params: &lcif.Params{K: 3, Lambda: 0.5}})
		dbtest.Builds(t, d, "s", "p", &index.Postings{})
		dbtest.Builds(t, d, "s", "at", &index.Trees{Kind: "at", Params: budget.Params{BAC: budget.BACParams{Budget: 2}}})
	})
	edit := func(index, place, value string) {
		coll := "s"
		if index == "kd" {
			coll = "d"
		}
		var v any
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber()
		dbtest.Must(t, d.Decode(&v))
		key := codec.Key(dbtest.Object(t, path, coll, index), codec.KindManifest, 0)
		dbtest.EditJSON(t, path, key, func(m object) { set(m, place, v) })
	}
	edit("kd", "Info.curve", forgedCurve)
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	if found := useAndCheck(t, path); len(found) > 0 {
		t.Fatalf("valid: %v", found)
	}
	golden.Answers(t, "hostile.txt", func(line string) string {
		part := strings.SplitN(line, " ", 3)
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		edit(part[0], part[1], part[2])
		found := useAndCheck(t, path)
		if len(found) < 2 {
			t.Errorf("%s: found only by %v", line, found)
		}
		said := ""
		for by, err := range found {
			dbtest.MustBeCorrupt(t, line+": "+by, err)
			_, text, _ := strings.Cut(err.Error(), fmt.Sprintf("index manifest of %q: ", part[0]))
			if said = cmp.Or(said, text); text != said || text == "" || errors.Is(err, db.ErrInvalid) {
				t.Errorf("%s: %s: %v", line, by, err)
			}
		}
		return said
	})
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
