package db_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/text"
)

// writer returns a function that writes texts about four topics, with up to eleven words that no other text
// has, and names their topics.
func writer(seed uint64) func() (words, topic string) {
	rng, unique := rand.New(rand.NewPCG(seed, 2)), 0
	return func() (string, string) {
		topic, words := rng.IntN(4), []string(nil)
		for range 1 + rng.IntN(3) {
			of := topic
			if rng.IntN(2) == 0 {
				of = rng.IntN(4)
			}
			words = append(words, fmt.Sprintf("t%dw%d", of, rng.IntN(5)))
		}
		for range rng.IntN(12) {
			unique++
			words = append(words, fmt.Sprintf("new%dof%d", unique, seed))
		}
		return strings.Join(words, " "), fmt.Sprint(topic)
	}
}

// Probabilities are true of texts with words that no row has, and a model knows nothing of words that only
// rows had that were deleted before it was built.
func TestModelsOfTextsMeetNewWords(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), t.TempDir()+"/x.anndb", nil)
	dbtest.Must(t, err)
	defer d.Close()
	c, err := d.Create(t.Context(), "docs", db.Schema{Text: &text.Schema{}})
	dbtest.Must(t, err)
	dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		return tx.Collection("docs").Put(db.Row{Key: []byte("old"), Text: "gone", Labels: []string{"0"}})
	}))
	write := writer(1)
	dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		for i := range 600 {
			words, label := write()
			row := db.Row{Key: fmt.Append(nil, i), Text: words, Labels: []string{label}}
			if err := tx.Collection("docs").Put(row); err != nil {
				return err
			}
		}
		return tx.Collection("docs").Delete([]byte("old"))
	}))
	for name, o := range map[string]index.Options{
		"labeltree": &index.LabelTree{}, "labeltree-none": &index.LabelTree{Weight: "none"},
		"at": &index.Trees{Kind: "at"}, "at-tfidf": &index.Trees{Kind: "at", Weight: "tfidf"},
		"auto": &index.Auto{},
	} {
		_, err := c.Build(t.Context(), name, o, nil)
		dbtest.Must(t, err)
		got, err := c.Predict(t.Context(), db.Query{Text: "gone"}, &db.PredictOptions{Index: name})
		if err != nil || !got.Stats.NoEvidence {
			t.Errorf("%s: %+v, %v for a word of a deleted row", name, got, err)
		}
		if e := topError(t, c, name, writer(2)); e > 0.1 {
			t.Errorf("%s: calibration error %g", name, e)
		}
	}
}

// topError returns the calibration error of the best labels of new texts.
func topError(t *testing.T, c db.Collection, index string, write func() (words, topic string)) float64 {
	var top labels.Reliability
	for range 1000 {
		words, label := write()
		got, err := c.Predict(t.Context(), db.Query{Text: words}, &db.PredictOptions{Index: index, Top: 1})
		dbtest.Must(t, err)
		top.Add(got.Labels[0].Probability, got.Labels[0].Label == label)
	}
	return top.Error()
}
