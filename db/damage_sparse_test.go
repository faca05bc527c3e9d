package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// damageTerms is how many rows the sparse database that is damaged has by
// collection: terms has a sealed chunk and a tail, words a dictionary.
func damageTerms() map[string]int { return map[string]int{"terms": 1030, "words": 60, "points": 60} }

// damageWord is a feature's name, so long that the dictionary has branch pages.
func damageWord(f uint32) string { return fmt.Sprintf("%s-%02d", strings.Repeat("w", 300), f) }

// damageRow is row i of a collection of that database.
func damageRow(coll string, i int) Row {
	r := Row{Key: damageKey(i), Labels: []string{fmt.Sprint("topic-", i%3), fmt.Sprint("kind-", i%2)}, Payload: []byte{byte(i)}}
	x := modelSparse(uint64(i))
	switch coll {
	case "points":
		r.Vector = make([]float32, 12)
		for j := range r.Vector {
			r.Vector[j] = float32((i*j+i)%7) / 3
		}
	case "words":
		for _, f := range x.Index {
			r.Features = append(r.Features, Feature{damageWord(f), 1})
		}
	default:
		r.Key = fmt.Appendf(nil, "%s-%04d", strings.Repeat("k", 20), i)
		if i < 40 || i >= 900 { // those that are asked for
			r.Key = damageKey(i)
		}
		r.Sparse = x
	}
	return r
}

// sparseDamageDB writes a database with sparse collections and all kinds of
// indexes that are no forests, beside a dense one with a label model.
func sparseDamageDB(path string) error {
	ctx := context.Background()
	d, err := Open(ctx, path, &Options{NoSync: true})
	if err != nil {
		return err
	}
	put := func(coll string, from, to int) error {
		return d.Update(ctx, func(b *Tx) error {
			for i := from; i < to; i++ {
				if err := b.Collection(coll).Put(damageRow(coll, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	fill := func(coll string) error {
		n := damageTerms()[coll]
		// Some rows are newer than the indexes, some deleted.
		return errors.Join(put(coll, 0, n-5), d.Update(ctx, func(b *Tx) error { return b.Collection(coll).Delete(damageKey(3)) }))
	}
	model := LCIF{Params: &lcif.Params{K: 4, Lambda: 0.5, Beta: 2, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}}
	weighed := model
	weighed.Weight = "tfidf"
	trees := Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 4, Rounds: 3}}}
	steps := []error{
		create(ctx, d, "terms", Schema{Sparse: true}),
		create(ctx, d, "words", Schema{Named: true}),
		create(ctx, d, "points", Schema{Dim: 12}),
		fill("terms"), fill("words"), fill("points"),
	}
	for _, b := range []struct {
		coll, index string
		o           IndexOptions
	}{
		{"terms", "rows", &Postings{}},
		{"terms", "labels", &weighed},
		{"terms", "at", treesOf(budget.AT, trees)},
		{"words", "rows", &Postings{}},
		{"words", "labels", &model},
		{"words", "pt", treesOf(budget.PT, trees)},
		{"points", "labels", &model},
	} {
		_, err := d.Collection(b.coll).Build(ctx, b.index, b.o, nil)
		steps = append(steps, err)
	}
	for coll, n := range damageTerms() {
		steps = append(steps, put(coll, n-5, n-3))
	}
	_, err = d.Maintain(ctx, 0, nil)
	steps = append(steps, err)
	for coll, n := range damageTerms() {
		steps = append(steps, put(coll, n-3, n))
	}
	return errors.Join(append(steps, mustCheck(d), d.Close())...)
}

// predictionsText is predictions with all that is known of them.
func predictionsText(out []Prediction) string {
	var b bytes.Buffer
	for _, p := range out {
		fmt.Fprintf(&b, "%s %v %v;", p.Label, p.Score, p.Predicted)
		if p.Why != nil {
			fmt.Fprintf(&b, "%+v;", *p.Why)
		}
	}
	return b.String()
}

// sparseQuestions is everything there is to ask about that database.
func sparseQuestions() []question {
	ctx := context.Background()
	var out []question
	add := func(name string, ask func(s *Snapshot) (string, error)) { out = append(out, question{name, ask}) }
	add("collections", func(s *Snapshot) (string, error) { return fmt.Sprintf("%+v", s.Collections()), nil })
	for coll, n := range damageTerms() {
		var numbers []int
		for i := range n {
			if i < 30 || i >= n-8 {
				numbers = append(numbers, i)
			}
		}
		out = append(out, rowQuestions(coll, numbers)...)
		add("indexes "+coll, func(s *Snapshot) (string, error) {
			l, err := s.Collection(coll).Indexes()
			var b strings.Builder
			for _, x := range l {
				// Not printed with %+v: parameters are pointers.
				fmt.Fprintf(&b, "%s %s %d %v;", x.Name, x.Kind, x.Rows, x.Bytes)
			}
			return b.String(), err
		})
		x := modelSparse(77)
		q := Query{Sparse: x}
		switch coll {
		case "words":
			q = Query{}
			for _, f := range x.Index {
				q.Features = append(q.Features, Feature{damageWord(f), 1})
			}
		case "points":
			q = Query{Vector: damageRow(coll, 12).Vector}
		}
		search := func(name string, o SearchOptions) {
			add("search "+coll+" "+name, func(s *Snapshot) (string, error) {
				hits, _, err := nearest(ctx, s.Collection(coll), q, 10, &o)
				return hitsText(hits), err
			})
		}
		predict := func(index string, o PredictOptions) {
			o.Index = index
			add(fmt.Sprintf("predict %s %s %d", coll, index, o.Top), func(s *Snapshot) (string, error) {
				p, _, err := predict(ctx, s.Collection(coll), q, &o)
				return predictionsText(p), err
			})
		}
		if coll != "points" {
			search("flat", SearchOptions{Index: Flat})
			search("label", SearchOptions{Index: Flat, Where: HasLabel("topic-1")})
			search("lists", SearchOptions{Index: "rows"})
		}
		predict("labels", PredictOptions{Explain: true})
		predict("labels", PredictOptions{Top: 2})
		if tree := map[string]string{"terms": "at", "words": "pt"}[coll]; tree != "" {
			predict(tree, PredictOptions{})
			predict(tree, PredictOptions{Top: 3})
		}
	}
	return out
}
