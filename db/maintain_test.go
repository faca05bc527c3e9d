package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/query/lcif"
)

// TestMaintainLabels changes the rows under label models and maintains them:
// they predict what new models with the same parameters do, bit for bit,
// unless weights of features stay those that were learned.
func TestMaintainLabels(t *testing.T) {
	t.Parallel()
	for _, weight := range []string{"none", "tfidf"} {
		ctx := t.Context()
		d, rows, queries, _ := topicDB(t, false)
		o := map[string]IndexOptions{
			"lcif": &LCIF{Weight: weight, Params: &lcif.Params{K: 10, Alpha: 1, Beta: 1, Lambda: 0.5}},
		}
		for name, o := range o {
			if _, err := d.Collection("docs").Build(ctx, name, o, nil); err != nil {
				t.Fatal(err)
			}
		}
		rng := rand.New(rand.NewPCG(5, 6))
		err := d.Update(ctx, func(b *Tx) error {
			for i := range 40 {
				x, names := topicRow(rng, 9)
				if err := b.Collection("docs").Put(Row{Key: fmt.Append(nil, "more", i), Sparse: x, Labels: append(names, fmt.Sprint("new ", i%3))}); err != nil {
					return err
				}
			}
			for i := range 30 {
				if err := b.Collection("docs").Delete(rows[i].Key); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
		// A change below the share is left alone.
		if steps, err := d.Maintain(ctx, 0.9, nil); err != nil || len(steps) != 0 {
			t.Errorf("steps %v, %v", steps, err)
		}
		steps, err := d.Maintain(ctx, 0, nil)
		if err != nil || len(steps) != len(o) {
			t.Fatalf("steps %v, %v", steps, err)
		}
		for name, o := range o {
			if o, ok := o.(*LCIF); ok && o.Weight != "none" {
				continue
			}
			if _, err := d.Collection("docs").Build(ctx, name+" rebuilt", o, nil); err != nil {
				t.Fatal(err)
			}
			err := d.View(func(s *Snapshot) error {
				for i, q := range queries {
					got, _, err1 := predict(ctx, s.Collection("docs"), q, &PredictOptions{Index: name, Top: 5})
					want, _, err2 := predict(ctx, s.Collection("docs"), q, &PredictOptions{Index: name + " rebuilt", Top: 5})
					if err := errors.Join(err1, err2); err != nil {
						return err
					}
					if !slices.EqualFunc(got, want, func(a, b Prediction) bool { return a.Label == b.Label && a.Score == b.Score }) {
						t.Errorf("%s, query %d: %v, rebuilt %v", name, i, got, want)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		if err := d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
