package db

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/trees/budget"
)

// putClassified writes rows of the collections of the golden files of trees:
// sparse ones with several labels, dense ones of one class each.
func putClassified(d *DB, from, to int) error {
	return d.Update(context.Background(), func(b *Tx) error {
		for i := from; i < to; i++ {
			r := Row{Key: fmt.Appendf(nil, "key-%d", i), Features: []Feature{{fmt.Sprint("f", i%5), float32(1 + i%3)}, {fmt.Sprint("g", i%4), 1}}}
			for l := range 3 {
				if i%5 == l || i%4 == l+1 {
					r.Labels = append(r.Labels, fmt.Sprint("label ", l))
				}
			}
			x := goldenVector(i, 4, 0)
			x[i%3] += 4
			err1 := b.Collection("terms").Put(r)
			err2 := b.Collection("points").Put(Row{Key: r.Key, Vector: x, Labels: []string{fmt.Sprint("class ", i%3)}})
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
		}
		return nil
	})
}

// treesGolden makes a database of trees of all kinds, some rows deleted before.
func treesGolden(path string) (err error) {
	ctx := context.Background()
	d, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	build := func(coll string, kind budget.Kind, weight string) func() error {
		o := treesOf(kind, Trees{Weight: weight, Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}, Folds: 3}})
		return func() error {
			_, err := d.Collection(coll).Build(ctx, string(kind), o, nil)
			return err
		}
	}
	return errorsOf(
		func() error { return create(ctx, d, "terms", Schema{Named: true}) },
		func() error { return create(ctx, d, "points", Schema{Dim: 4}) },
		func() error { return putClassified(d, 0, 80) },
		func() error { return putClassified(d, 3, 5) },
		build("terms", budget.AT, "tfidf"),
		build("terms", budget.PT, "none"),
		build("points", budget.SBT, "none"),
	)
}

// TestGoldenTrees opens the golden file of trees.
func TestGoldenTrees(t *testing.T) {
	d := openGolden(t, "trees.anndb.gz", treesGolden, &Options{NoSync: true})
	defer d.Close()
	ask := func(l string) error {
		return d.View(func(s *Snapshot) error {
			for _, index := range []string{"at", "pt"} {
				q := Query{Features: []Feature{{"f0", 2}, {"g0", 1}}}
				p, _, err := predict(t.Context(), s.Collection("terms"), q, &PredictOptions{Index: index, Top: 1})
				if err != nil || len(p) != 1 || p[0].Label != l {
					return fmt.Errorf("%s: %v, %w", index, p, err)
				}
			}
			q := Query{Vector: []float32{0, 5, 0, 0}}
			p, _, err := predict(t.Context(), s.Collection("points"), q, &PredictOptions{Index: "sbt"})
			if err != nil || len(p) != 1 || p[0].Label != "class 1" {
				return fmt.Errorf("sbt: %v, %w", p, err)
			}
			return nil
		})
	}
	if err := errors.Join(mustCheck(d), ask("label 0")); err != nil {
		t.Error(err)
	}
}
