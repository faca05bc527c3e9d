package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
)

// putClassified writes rows of the collections of the golden files of trees:
// sparse ones with several labels, dense ones of one class each.
func putClassified(d *DB, from, to int) error {
	return d.Update(context.Background(), func(b *Batch) error {
		for i := from; i < to; i++ {
			r := Row{Key: fmt.Appendf(nil, "key-%d", i), Features: []Feature{{fmt.Sprint("f", i%5), float32(1 + i%3)}, {fmt.Sprint("g", i%4), 1}}}
			for l := range 3 {
				if i%5 == l || i%4 == l+1 {
					r.Labels = append(r.Labels, fmt.Sprint("label ", l))
				}
			}
			x := goldenVector(i, 4, 0)
			x[i%3] += 4
			err1 := b.Put("terms", r)
			err2 := b.Put("points", Row{Key: r.Key, Vector: x, Labels: []string{fmt.Sprint("class ", i%3)}})
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
	d, err := Open(path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	build := func(coll string, kind forest.Kind, weight Weighting) func() error {
		o := BuildOptions{Kind: kind, Budget: BudgetOptions{Weight: weight, Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}, Folds: 3}}}
		return func() error {
			_, err := d.Build(ctx, coll, string(kind), o, nil)
			return err
		}
	}
	return errorsOf(
		func() error { return d.CreateSparse(ctx, "terms", SparseOptions{Named: true}) },
		func() error { return d.CreateDense(ctx, "points", DenseOptions{Dim: 4}) },
		func() error { return putClassified(d, 0, 80) },
		func() error { return putClassified(d, 3, 5) },
		build("terms", KindAT, WeightTFIDF),
		build("terms", KindPT, WeightNone),
		build("points", KindSBT, WeightNone),
	)
}

func TestGoldenTrees(t *testing.T) {
	name := filepath.Join("testdata", "trees-v4.anndb.gz")
	if _, err := os.Stat(name); *writeGolden && errors.Is(err, os.ErrNotExist) {
		if err := zipDatabase(filepath.Join(t.TempDir(), "new.anndb"), name, treesGolden); err != nil {
			t.Fatal(err)
		}
	}
}
