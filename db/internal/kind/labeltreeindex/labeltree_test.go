package labeltreeindex_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/labeltree"
)

const topics = 8

// document returns a text about one or two topics, which are its labels, and a vector near their axes.
func document(r *rand.Rand) (content string, v []float32, labels []string) {
	var words []string
	v = make([]float32, topics+2)
	for range 1 + r.IntN(2) {
		topic := r.IntN(topics)
		if name := fmt.Sprint("topic ", topic); !slices.Contains(labels, name) {
			labels = append(labels, name)
		}
		v[topic] += 1 + r.Float32()
		for range 5 {
			words = append(words, fmt.Sprintf("word%c%d", 'a'+topic, r.IntN(10)))
		}
	}
	for i := range v {
		v[i] += r.Float32() / 10
	}
	for range 4 {
		words = append(words, fmt.Sprintf("noise%d", r.IntN(50)))
	}
	return strings.Join(words, " "), v, labels
}

// collections returns a database with the same documents as texts, as vectors, and as both, and queries with their
// labels.
func collections(t *testing.T) (d *db.DB, queries []db.Query, truth [][]string) {
	t.Helper()
	d = dbtest.OpenAt(t, filepath.Join(t.TempDir(), "documents"), &db.Options{NoSync: true})
	r := rand.New(rand.NewPCG(1, 2))
	rows := map[string][]db.Row{}
	for i := range 900 {
		content, v, labels := document(r)
		key := fmt.Append(nil, "d", i)
		rows["text"] = append(rows["text"], db.Row{Key: key, Text: content, Labels: labels})
		rows["vector"] = append(rows["vector"], db.Row{Key: key, Vector: v, Labels: labels})
		rows["both"] = append(rows["both"], db.Row{Key: key, Text: content, Vector: v, Labels: labels})
	}
	for name, schema := range map[string]db.Schema{
		"text": {Text: &text.Schema{}}, "vector": {Dim: topics + 2}, "both": {Text: &text.Schema{}, Dim: topics + 2},
	} {
		dbtest.Must(t, dbtest.Create(t.Context(), d, name, schema))
		dbtest.Must(t, dbtest.Put(d, name, rows[name]...))
	}
	for range 100 {
		content, v, labels := document(r)
		queries, truth = append(queries, db.Query{Text: content, Vector: v}), append(truth, labels)
	}
	return d, queries, truth
}

// right returns how many of the best labels are labels of the queries.
func right(t *testing.T, c db.Collection, queries []db.Query, truth [][]string) (n int) {
	t.Helper()
	for i, q := range queries {
		p, err := c.Predict(t.Context(), q, &db.PredictOptions{Top: 3, Explain: true})
		dbtest.Must(t, err)
		if len(p.Labels) > 0 && slices.Contains(truth[i], p.Labels[0].Label) {
			n++
		}
		for j, l := range p.Labels {
			if j > 0 && l.Score > p.Labels[j-1].Score || l.Why == nil || len(l.Why.Parts) == 0 {
				t.Fatalf("query %d: %+v", i, p.Labels)
			}
		}
	}
	return n
}

// only returns queries with their text, or their vector.
func only(queries []db.Query, words, vector bool) []db.Query {
	out := slices.Clone(queries)
	for i := range out {
		if !words {
			out[i].Text = ""
		}
		if !vector {
			out[i].Vector = nil
		}
	}
	return out
}

func TestPredict(t *testing.T) {
	d, queries, truth := collections(t)
	texts, vectors := only(queries, true, false), only(queries, false, true)
	for _, c := range []struct {
		coll    string
		o       index.LabelTree
		queries []db.Query
	}{
		{"text", index.LabelTree{}, texts},
		{"text", index.LabelTree{Weight: "none", Params: labeltree.Params{Flat: 3, C: 0.3}}, texts},
		{"vector", index.LabelTree{}, vectors},
		{"vector", index.LabelTree{Weight: "none"}, vectors},
		{"both", index.LabelTree{}, texts},
		{"both", index.LabelTree{From: "vector"}, vectors},
		{"both", index.LabelTree{From: "both"}, queries},
		{"both", index.LabelTree{From: "both"}, texts},
		{"both", index.LabelTree{From: "both"}, vectors},
	} {
		info, err := d.Collection(c.coll).Build(t.Context(), "tree", &c.o, nil)
		dbtest.Must(t, err)
		if info.Kind != "labeltree" || info.Bytes["label-tree"] == 0 || info.TrainingPoints != 900 {
			t.Errorf("%+v", info)
		}
		if n := right(t, d.Collection(c.coll), c.queries, truth); n < 90 {
			t.Errorf("%s, %+v: %d of 100 best labels are right", c.coll, c.o, n)
		}
	}
	dbtest.Must(t, dbtest.Check(d))
	before, err := d.Collection("both").PredictBatch(t.Context(), queries, nil)
	dbtest.Must(t, err)
	var b strings.Builder
	_, err = d.Backup(t.Context(), &b)
	dbtest.Must(t, err)
	dbtest.WithFile(t, dbtest.WriteFile(t, []byte(b.String())), func(d *db.DB, _ *db.Snapshot) {
		after, err := d.Collection("both").PredictBatch(t.Context(), queries, nil)
		dbtest.Must(t, err)
		for i := range after {
			if !slices.Equal(after[i].Labels, before[i].Labels) {
				t.Fatalf("query %d: %v after reopening, %v before", i, after[i].Labels, before[i].Labels)
			}
		}
	})
}

// Maintenance retrains a model once a fifth of the rows has changed; until then it does not know new labels.
func TestMaintain(t *testing.T) {
	d, _, _ := collections(t)
	c := d.Collection("text")
	_, err := c.Build(t.Context(), "tree", nil, nil)
	dbtest.Must(t, err)
	_, err = c.Build(t.Context(), "tree", &index.LabelTree{Seed: 4}, nil)
	dbtest.Must(t, err)
	put := func(from, to int) {
		var rows []db.Row
		for i := from; i < to; i++ {
			rows = append(rows, db.Row{Key: fmt.Append(nil, "new", i), Text: "entirely different", Labels: []string{"new"}})
		}
		dbtest.Must(t, dbtest.Put(d, "text", rows...))
		_, err := d.Maintain(t.Context(), 0, nil)
		dbtest.Must(t, err)
	}
	best := func() string {
		p, err := c.Predict(t.Context(), db.Query{Text: "entirely different"}, &db.PredictOptions{Top: 1})
		dbtest.Must(t, err)
		if len(p.Labels) == 0 {
			return ""
		}
		return p.Labels[0].Label
	}
	put(0, 100)
	if l := best(); l != "" {
		t.Errorf("the label %q of words that the model does not know", l)
	}
	put(100, 400)
	if l := best(); l != "new" {
		t.Errorf("after a retraining the label is %q", l)
	}
}

func TestRefused(t *testing.T) {
	d, _, _ := collections(t)
	for _, c := range []struct {
		coll, want string
		o          index.LabelTree
	}{
		{"text", "has no vectors", index.LabelTree{From: "vector"}},
		{"text", "dense rows", index.LabelTree{Weight: "standard"}},
		{"vector", "counts of terms", index.LabelTree{Weight: "tfidf"}},
		{"vector", "next to the vectors", index.LabelTree{From: "text"}},
		{"text", "Params.C", index.LabelTree{Params: labeltree.Params{C: -1}}},
		{"text", "Weight", index.LabelTree{Weight: "x"}},
	} {
		_, err := d.Collection(c.coll).Build(t.Context(), "tree", &c.o, nil)
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %+v: %v", c.coll, c.o, err)
		}
	}
	for _, weight := range []string{"none", "tfidf"} {
		_, err := d.Collection("text").Build(t.Context(), "tree", &index.LabelTree{Weight: weight}, nil)
		dbtest.Must(t, err)
		p, err := d.Collection("text").Predict(t.Context(), db.Query{Text: "unheard"}, nil)
		if err != nil || !p.Stats.NoEvidence || len(p.Labels) > 0 {
			t.Errorf("%s: %+v, %v", weight, p, err)
		}
	}
	_, err := d.Collection("text").Predict(t.Context(), db.Query{Vector: make([]float32, topics+2)}, nil)
	if !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}

// The probability of the best label is about how often it is right, and a declared recall is delivered.
func TestProbabilities(t *testing.T) {
	d, queries, truth := collections(t)
	texts := only(queries, true, false)
	for _, p := range []labeltree.Params{{}, {Flat: 3}} {
		info, err := d.Collection("text").Build(t.Context(), "tree", &index.LabelTree{Params: p}, nil)
		dbtest.Must(t, err)
		if info.Calibration == nil || info.Calibration.Rows != 900 {
			t.Fatalf("%+v", info.Calibration)
		}
		sum, hits, found := 0.0, 0, 0.0
		for i, q := range texts {
			a, err := d.Collection("text").Predict(t.Context(), q, &db.PredictOptions{Recall: 0.9})
			dbtest.Must(t, err)
			for place, l := range a.Labels {
				right := slices.Contains(truth[i], l.Label)
				if place == 0 {
					sum += float64(l.Probability)
					if right {
						hits++
					}
				}
				if right {
					found += 1 / float64(len(truth[i]))
				}
			}
		}
		if found < 86 || sum < float64(hits)-10 || sum > float64(hits)+10 {
			t.Errorf("%+v: %g of 100 found, %d best ones are right, %g expected", p, found, hits, sum)
		}
	}
}
