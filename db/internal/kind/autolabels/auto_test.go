package autolabels_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// The forms of the collections of the tests.
const (
	sparse = iota
	dense
	both
	forms
)

var schemas = [forms]db.Schema{{Sparse: true}, {Dim: 40}, {Sparse: true, Dim: 40}}

// document returns a row about one or two of so many topics, which are its labels: six values of a topic's
// four features, and noise.
func document(rng *rand.Rand, form, i, topics int) db.Row {
	x := make([]float32, 40)
	r := db.Row{Key: fmt.Append(nil, i)}
	for range 1 + rng.IntN(2) {
		topic := rng.IntN(topics)
		if name := fmt.Sprint("topic ", topic); !slices.Contains(r.Labels, name) {
			r.Labels = append(r.Labels, name)
		}
		for range 6 {
			x[topic*4+rng.IntN(4)]++
		}
	}
	for range 3 {
		x[32+rng.IntN(8)]++
	}
	if form != sparse {
		r.Vector = x
	}
	for f, v := range x {
		if form != dense && v > 0 {
			r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, uint32(f)), append(r.Sparse.Value, v)
		}
	}
	return r
}

// library returns a database of so many documents.
func library(t *testing.T, form, rows int) (*db.DB, *rand.Rand) {
	t.Helper()
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	return d, fill(t, d, form, rows)
}

// fill adds a collection of so many documents.
func fill(t *testing.T, d *db.DB, form, rows int) *rand.Rand {
	t.Helper()
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", schemas[form]))
	rng := rand.New(rand.NewPCG(3, uint64(form)))
	var list []db.Row
	for i := range rows {
		list = append(list, document(rng, form, i, 7))
	}
	dbtest.Must(t, dbtest.Put(d, "docs", list...))
	return rng
}

// query returns the query that asks for the labels of a row.
func query(r *db.Row) db.Query { return db.Query{Vector: r.Vector, Sparse: r.Sparse} }

// hits returns the share of documents whose best label is right.
func hits(t *testing.T, d *db.DB, rng *rand.Rand, form int) float64 {
	t.Helper()
	right := 0
	const asked = 200
	for i := range asked {
		r := document(rng, form, i, 7)
		p, err := d.Collection("docs").Predict(t.Context(), query(&r), &db.PredictOptions{Top: 1})
		dbtest.Must(t, err)
		if len(p.Labels) == 1 && slices.Contains(r.Labels, p.Labels[0].Label) {
			right++
		}
	}
	return float64(right) / asked
}

// TestAuto: in every form of collection a model predicts, lists what was tried, survives maintenance and a
// rebuild with what was chosen, and knows rows and labels that are written later at once.
func TestAuto(t *testing.T) {
	for form := range forms {
		d, rng := library(t, form, 400)
		c := d.Collection("docs")
		o := &index.Auto{Objective: lcif.PrecisionAt1}
		if form == dense {
			o.LCIF, o.Trees = &index.LCIF{Neighbors: db.Flat}, &index.Trees{Budget: 40}
		}
		info, err := c.Build(t.Context(), "auto", o, nil)
		dbtest.Must(t, err)
		kinds := map[string]bool{}
		chosen := 0
		for _, x := range info.AutoTrials {
			kinds[x.Kind] = x.Error == "" && x.Value > 0.5
			if x.Chosen {
				chosen++
			}
		}
		if !kinds["lcif"] || !kinds["at"] || form != dense && !kinds["labeltree"] || chosen < 2 {
			t.Errorf("form %d: tried %+v", form, info.AutoTrials)
		}
		if share := hits(t, d, rng, form); share < 0.9 {
			t.Errorf("form %d: the best label is right for %v of the documents", form, share)
		}
		dbtest.Must(t, dbtest.Check(d))
		explained(t, d, rng, form, info.Options.(*index.Auto))
		// A label that is new is predicted at once, and after each step of maintenance.
		resolved := info.Options.(*index.Auto)
		for step := range 3 {
			var fresh []db.Row
			for i := range []int{3, 3, 300}[step] {
				r := document(rng, form, 1000*(step+1)+i, 8)
				if i < 3 {
					r.Labels = append(r.Labels, "new")
					r.Sparse, r.Vector = newTopic(form)
				}
				fresh = append(fresh, r)
			}
			dbtest.Must(t, dbtest.Put(d, "docs", fresh...))
			for range 2 {
				p, err := c.Predict(t.Context(), query(&fresh[0]), &db.PredictOptions{Top: 20})
				dbtest.Must(t, err)
				found := slices.ContainsFunc(p.Labels, func(l db.Prediction) bool { return l.Label == "new" })
				if !found && resolved.LCIF != nil {
					t.Errorf("form %d, step %d: no new label in %+v", form, step, p.Labels)
				}
				_, err = d.Maintain(t.Context(), 0, nil)
				dbtest.Must(t, err)
				dbtest.Must(t, dbtest.Check(d))
			}
		}
		now, err := c.Index("auto")
		dbtest.Must(t, err)
		after := now.Options.(*index.Auto)
		if now.Fresh > 0 || !reflect.DeepEqual(now.AutoTrials, info.AutoTrials) ||
			(after.LCIF == nil) != (resolved.LCIF == nil) || (after.Trees == nil) != (resolved.Trees == nil) {
			t.Errorf("form %d: %+v became %+v", form, info, now)
		}
		if share := hits(t, d, rng, form); share < 0.85 {
			t.Errorf("form %d: after maintenance the best label is right for %v of the documents", form, share)
		}
	}
}

// explained checks that members with their own reasons add up to the reason of each label.
func explained(t *testing.T, d *db.DB, rng *rand.Rand, form int, o *index.Auto) {
	t.Helper()
	for i := range 20 {
		r := document(rng, form, i, 7)
		p, err := d.Collection("docs").Predict(t.Context(), query(&r), &db.PredictOptions{Top: 3, Explain: true})
		dbtest.Must(t, err)
		for _, l := range p.Labels {
			sum := 0.
			for _, part := range l.Why.Parts {
				name, how, _ := strings.Cut(part.Text, ": ")
				known := name == "lcif" && o.LCIF != nil || name == "labeltree" && o.LabelTree != nil ||
					o.Trees != nil && name == o.Trees.Name()
				var chance, score, weight float64
				_, err := fmt.Sscanf(how, "chance %f by its score %f, times its weight %f", &chance, &score, &weight)
				if !known || part.Score < 0 || len(part.Parts) != 1 || !strings.Contains(l.Why.Text, name) || err != nil ||
					math.Abs(chance*weight-part.Score) > 0.01 || math.Abs(score-part.Value) > 0.01 {
					t.Errorf("form %d: %+v, %v", form, l.Why, err)
				}
				sum += part.Score
			}
			if len(l.Why.Parts) == 0 || math.Abs(sum-l.Why.Score) > 1e-6 {
				t.Errorf("form %d: parts of %v in %+v", form, sum, l.Why)
			}
		}
	}
}

// newTopic returns the features of a topic of its own.
func newTopic(form int) (x vector.Sparse, v []float32) {
	if form != dense {
		x = vector.Sparse{Index: []uint32{28, 29, 30, 31}, Value: []float32{3, 3, 3, 3}}
	}
	if form != sparse {
		v = make([]float32, 40)
		for i := 28; i < 32; i++ {
			v[i] = 3
		}
	}
	return x, v
}

// TestSameForSeed: the model depends on neither the number of goroutines nor the order of their work, and its
// resolved options build it again.
func TestSameForSeed(t *testing.T) {
	d, rng := library(t, sparse, 300)
	c := d.Collection("docs")
	build := func(name string, o index.Options, workers int) index.Info {
		info, err := c.Build(t.Context(), name, o, &db.Run{Workers: workers})
		dbtest.Must(t, err)
		return info
	}
	first := build("a", &index.Auto{Seed: 5}, 1)
	second := build("b", &index.Auto{Seed: 5}, 3)
	build("c", first.Options, 2)
	if !reflect.DeepEqual(first.Options, second.Options) || !reflect.DeepEqual(first.Bytes, second.Bytes) {
		t.Errorf("%+v and %+v", first, second)
	}
	for i := range 50 {
		r := document(rng, sparse, i, 7)
		var got [3]db.Predictions
		for j, name := range []string{"a", "b", "c"} {
			var err error
			got[j], err = c.Predict(t.Context(), query(&r), &db.PredictOptions{Index: name, Top: 5})
			dbtest.Must(t, err)
		}
		if !reflect.DeepEqual(got[0], got[1]) || !reflect.DeepEqual(got[0], got[2]) {
			t.Fatalf("%+v, %+v and %+v", got[0], got[1], got[2])
		}
	}
}

// TestDegenerateRows: what cannot be learned from is refused with a reason, everything else gives answers.
func TestDegenerateRows(t *testing.T) {
	one := func(f uint32) vector.Sparse { return vector.Sparse{Index: []uint32{f, f + 1}, Value: []float32{1, 2}} }
	for name, c := range map[string]struct {
		rows  int
		label func(i int) []string
		want  string // in the error
	}{
		"no rows":                    {0, nil, "empty"},
		"one row":                    {1, func(int) []string { return []string{"a"} }, "want 2 rows or more"},
		"no labels":                  {20, func(int) []string { return nil }, "has a label"},
		"two rows":                   {2, func(i int) []string { return []string{fmt.Sprint(i)} }, ""},
		"two rows of nothing alike":  {-2, func(i int) []string { return []string{fmt.Sprint(i)} }, ""},
		"two rows of a label":        {2, func(int) []string { return []string{"a"} }, ""},
		"one label on all rows":      {50, func(int) []string { return []string{"a"} }, ""},
		"a label each row":           {40, func(i int) []string { return []string{fmt.Sprint(i)} }, ""},
		"one row with a label":       {40, func(i int) []string { return []string{"a"}[:max(0, 1-i)] }, ""},
		"half of the rows unlabeled": {60, func(i int) []string { return []string{"a", "b"}[:i%3] }, ""},
	} {
		d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
		dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Sparse: true}))
		apart := 1
		if c.rows < 0 {
			c.rows, apart = -c.rows, 2
		}
		for i := range c.rows {
			r := db.Row{Key: fmt.Append(nil, i), Sparse: one(uint32(i % 7 * apart)), Labels: c.label(i)}
			dbtest.Must(t, dbtest.Put(d, "docs", r))
		}
		_, err := d.Collection("docs").Build(t.Context(), "auto", &index.Auto{}, nil)
		if c.want != "" {
			if !errors.Is(err, db.ErrInvalid) && !errors.Is(err, db.ErrUnsuitable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		known, err := d.Collection("docs").Predict(t.Context(), db.Query{Sparse: one(1)}, nil)
		if err != nil || len(known.Labels) == 0 && c.rows > 2 {
			t.Errorf("%s: %+v, %v", name, known, err)
		}
		unknown, err := d.Collection("docs").Predict(t.Context(), db.Query{Sparse: one(100)}, nil)
		if err != nil || !unknown.Stats.NoEvidence || len(unknown.Labels) > 0 {
			t.Errorf("%s: unknown features: %+v, %v", name, unknown, err)
		}
		dbtest.Must(t, dbtest.Check(d))
	}
}

// TestNoLabel: a row that is like those without labels has none, if that is allowed.
func TestNoLabel(t *testing.T) {
	for _, rows := range []int{20, 200} { // without probabilities and with
		d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
		dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Sparse: true}))
		for i := range rows {
			r := db.Row{Key: fmt.Append(nil, i), Sparse: vector.Sparse{Index: []uint32{0, uint32(2 + i%2)}, Value: []float32{1, 1}}}
			if i%2 == 0 || i%10 == 1 { // one in five of the others, too
				r.Labels = []string{"even"}
			}
			dbtest.Must(t, dbtest.Put(d, "docs", r))
		}
		for _, allow := range []bool{false, true} {
			c := d.Collection("docs")
			_, err := c.Build(t.Context(), "auto", &index.Auto{AllowEmpty: allow}, nil)
			dbtest.Must(t, err)
			for feature, want := range map[uint32]bool{2: true, 3: !allow} {
				q := db.Query{Sparse: vector.Sparse{Index: []uint32{0, feature}, Value: []float32{1, 1}}}
				p, err := c.Predict(t.Context(), q, nil)
				if err != nil || len(p.Labels) > 0 != want || p.Stats.NoEvidence {
					t.Errorf("%d rows, empty sets %v, feature %d: %+v, %v", rows, allow, feature, p, err)
				}
			}
		}
	}
}

// TestOnePart: a query with a text or a vector only is answered by a model that uses what it has. Otherwise the
// answer, or an error, says what is missing.
func TestOnePart(t *testing.T) {
	d, rng := library(t, both, 200)
	c := d.Collection("docs")
	byVector := &index.LCIF{Neighbors: "vector", Params: &lcif.Params{K: 5, Lambda: 1}}
	for name, x := range map[string]struct {
		o            index.Options
		text, vector bool // is used
	}{
		"linear text":   {&index.LabelTree{}, true, false},
		"linear vector": {&index.LabelTree{From: "vector"}, false, true},
		"linear both":   {&index.LabelTree{From: "both"}, true, true},
		"near vector":   {byVector, false, true},
		"near both":     {&index.LCIF{Neighbors: "both", Params: &lcif.Params{K: 5, Lambda: 1}}, true, true},
		"auto text":     {&index.Auto{LabelTree: &index.LabelTree{}, Trees: &index.Trees{Budget: 40}}, true, false},
		"auto vector":   {&index.Auto{LabelTree: &index.LabelTree{From: "vector"}, LCIF: byVector}, false, true},
		"auto both":     {&index.Auto{LabelTree: &index.LabelTree{From: "both"}}, true, true},
	} {
		dbtest.Builds(t, d, "docs", "x", x.o)
		r := document(rng, both, 0, 7)
		p, err := c.Predict(t.Context(), db.Query{Sparse: r.Sparse}, &db.PredictOptions{Explain: true})
		if err != nil || len(p.Labels) > 0 != x.text || p.Stats.NoEvidence == x.text || p.Stats.NoVector == x.text {
			t.Errorf("%s, a query without a vector: %+v, %v", name, p, err)
		}
		p, err = c.Predict(t.Context(), db.Query{Vector: r.Vector}, &db.PredictOptions{Explain: true})
		switch {
		case !x.vector && errors.Is(err, db.ErrInvalid) && strings.Contains(err.Error(), "the query has none"):
		case !x.vector || err != nil || len(p.Labels) == 0 || p.Stats.NoEvidence || p.Stats.NoVector:
			t.Errorf("%s, a query without features: %+v, %v", name, p, err)
		}
	}
}

// TestRefusals: filters restrict the neighbors of LCIF, and models without it refuse them, as all do parameters.
func TestRefusals(t *testing.T) {
	d, rng := library(t, sparse, 200)
	c := d.Collection("docs")
	dbtest.Builds(t, d, "docs", "lcif", &index.Auto{LCIF: &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 1}}})
	dbtest.Builds(t, d, "docs", "trees", &index.Auto{Trees: &index.Trees{Kind: "pt"}})
	r := document(rng, sparse, 0, 7)
	where := filter.HasLabel("topic 3")
	p, err := c.Predict(t.Context(), query(&r), &db.PredictOptions{Index: "lcif", Where: where, Top: 1})
	if err != nil || p.Labels[0].Label != "topic 3" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, o := range []db.PredictOptions{
		{Index: "trees", Where: where}, {Index: "trees", Params: &lcif.Params{}}, {Index: "lcif", Params: &lcif.Params{}},
	} {
		if _, err := c.Predict(t.Context(), query(&r), &o); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []*index.Auto{
		{Trees: &index.Trees{Kind: "sbt"}}, {LCIF: &index.LCIF{Folds: 1}}, {Time: -1}, {Objective: 99},
		{LCIF: &index.LCIF{Weight: "standard"}},
	} {
		if _, err := c.Build(t.Context(), "x", o, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestHeldOutValue: the objective of a member is that of its model of the other rows, stored and asked like any
// other, after calibration.
func TestHeldOutValue(t *testing.T) {
	dbtest.Whole(t)
	const n = 300
	for form := range forms {
		o := &index.LCIF{Weight: "none", Params: &lcif.Params{K: 5, Lambda: 0.6}}
		if form != sparse {
			o.Neighbors = map[int]string{dense: db.Flat, both: "both"}[form]
		}
		d, _ := library(t, form, n)
		info, err := d.Collection("docs").Build(t.Context(), "auto", &index.Auto{Objective: lcif.PrecisionAt1, LCIF: o}, nil)
		dbtest.Must(t, err)
		rng := rand.New(rand.NewPCG(3, uint64(form)))
		var list []db.Row
		b, err := labels.NewBuilder(nil)
		dbtest.Must(t, err)
		for i := range n {
			list = append(list, document(rng, form, i, 7))
			b.Add(list[i].Labels)
		}
		folds, err := labels.KFold(n, 5, 0)
		dbtest.Must(t, err)
		scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		var held []int
		for _, f := range folds {
			train := dbtest.OpenTemp(t, &db.Options{NoSync: true})
			dbtest.Must(t, dbtest.Create(t.Context(), train, "docs", schemas[form]))
			for _, i := range f.Train {
				dbtest.Must(t, dbtest.Put(train, "docs", list[i]))
			}
			dbtest.Builds(t, train, "docs", "lcif", o)
			for _, i := range f.Test {
				p, err := train.Collection("docs").Predict(t.Context(), query(&list[i]), &db.PredictOptions{Top: 100})
				dbtest.Must(t, err)
				slices.SortFunc(p.Labels, func(x, y db.Prediction) int { return int(b.Number(x.Label)) - int(b.Number(y.Label)) })
				var x vector.Sparse
				for _, l := range p.Labels {
					x.Index, x.Value = append(x.Index, b.Number(l.Label)), append(x.Value, l.Score)
				}
				scores.Append(x)
			}
			held = append(held, f.Test...)
		}
		all := b.Matrix()
		var rows []int
		for l := range all.Labels() {
			rows = append(rows, len(all.Column(l)))
		}
		truth := all.Select(held)
		// The probabilities of the member are calibrated once more, as those of several are.
		for range 2 {
			c, err := labels.Calibrate(truth, scores, rows, labels.CalibrateOptions{})
			dbtest.Must(t, err)
			likely := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
			for i := range n {
				var x vector.Sparse
				for e, l := range scores.Row(i).Index {
					if p := c.Probability(scores.Row(i).Value[e], rows[l]); p >= 1./500 {
						x.Index, x.Value = append(x.Index, l), append(x.Value, p)
					}
				}
				likely.Append(x)
			}
			scores, likely.Cols = likely, all.Labels()
		}
		r, err := labels.EvaluateRanking(truth, scores, []int{1})
		dbtest.Must(t, err)
		if got := info.AutoTrials[0].Value; got != r.Precision[0] {
			t.Errorf("form %d: precision@1 of %v, want %v", form, got, r.Precision[0])
		}
	}
}

// TestBounds: without time, or if it is told to stop, a build has the first member only; what takes too much memory
// is not tried, and is an error if nothing else is left.
func TestBounds(t *testing.T) {
	d, _ := library(t, sparse, 200)
	c := d.Collection("docs")
	stop := make(chan struct{})
	close(stop)
	for name, x := range map[string]struct {
		o   index.Auto
		run *db.Run
	}{
		"time": {index.Auto{Time: 1}, nil},
		"stop": {index.Auto{}, &db.Run{Stop: stop}},
	} {
		info, err := c.Build(t.Context(), "auto", &x.o, x.run)
		dbtest.Must(t, err)
		if len(info.AutoTrials) != 2 || info.AutoTrials[0].Kind != "labeltree" || !info.AutoTrials[0].Chosen {
			t.Errorf("%s: %+v", name, info.AutoTrials)
		}
	}
	_, err := c.Build(t.Context(), "auto", &index.Auto{Memory: 100}, nil)
	if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "KiB of memory") {
		t.Errorf("without memory: %v", err)
	}
	_, err = c.Build(t.Context(), "auto", &index.Auto{Memory: 1 << 30}, nil)
	dbtest.Must(t, err)
}

// TestHostileManifest: members, weights and curves that no build writes are damage.
func TestHostileManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Sparse: true}))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		dbtest.Must(t, dbtest.Put(d, "docs", document(rng, sparse, i, 5)))
	}
	dbtest.Builds(t, d, "docs", "auto", &index.Auto{LCIF: &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 1}}})
	dbtest.Must(t, d.Close())
	object := dbtest.Object(t, path, "docs", "auto")
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	for name, edit := range map[string]func(detail, member map[string]any){
		"no members":      func(d, _ map[string]any) { d["Parts"] = []any{} },
		"the same twice":  func(d, m map[string]any) { d["Parts"] = []any{m, m} },
		"unknown kind":    func(_, m map[string]any) { m["Kind"] = "kd" },
		"without options": func(_, m map[string]any) { m["Kind"] = "labeltree" },
		"no weights":      func(_, m map[string]any) { delete(m, "Weights") },
		"no curves":       func(_, m map[string]any) { delete(m, "Curves") },
		"weight":          func(_, m map[string]any) { m["Weights"] = []any{0, 0, 0, -1} },
		"rows left out":   func(_, m map[string]any) { m["Dead"] = 1000 },
		"deep":            func(d, _ map[string]any) { d["Deep"] = 0 },
		"earlier trial":   func(d, _ map[string]any) { d["Earlier"] = []any{map[string]any{"Info": map[string]any{"Kind": "kd"}}} },
		"falling curve": func(_, m map[string]any) {
			m["Curves"].([]any)[1] = map[string]any{"x": []any{0, 1}, "y": []any{1, 0}}
		},
	} {
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		dbtest.EditJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			d := m["Segments"].([]any)[0].(map[string]any)["Detail"].(map[string]any)
			edit(d, d["Parts"].([]any)[0].(map[string]any))
		})
		dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
			r := document(rng, sparse, 0, 5)
			_, err := s.Collection("docs").Predict(t.Context(), query(&r), &db.PredictOptions{Index: "auto"})
			dbtest.MustBeCorrupt(t, name, err)
		})
	}
}
