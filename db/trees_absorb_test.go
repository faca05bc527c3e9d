package db

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/trees/budget"
)

// TestMaintainTrees: trees stay while at most a fifth of their rows were written, deleted or relabelled,
// and are then retrained with the options and trials that they were built with, without tuning.
func TestMaintainTrees(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "db"), &Options{NoSync: true})
	must(t, err)
	defer func() { must(t, d.Close()) }()
	must(t, create(ctx, d, "terms", Schema{Named: true}))
	must(t, create(ctx, d, "points", Schema{Dim: 4}))
	must(t, putClassified(d, 0, 100))
	terms, points := d.Collection("terms"), d.Collection("points")
	built := map[string]IndexInfo{}
	for _, x := range []struct {
		c    Collection
		name string
		o    IndexOptions
	}{
		{terms, "at", &Trees{Kind: "at", Grid: &budget.Grid{Budgets: []int{1, 3}, Folds: 2}}},
		{terms, "pt", &Trees{Kind: "pt"}},
		{points, "sbt", &Trees{Kind: "sbt"}},
	} {
		info, err := x.c.Build(ctx, x.name, x.o, nil)
		must(t, err)
		built[x.name] = info
	}
	change := func(f func(c TxCollection) error) {
		t.Helper()
		must(t, d.Update(ctx, func(tx *Tx) error {
			if err := f(tx.Collection("terms")); err != nil {
				return err
			}
			return f(tx.Collection("points"))
		}))
	}
	maintain := func() (relearned []string) {
		t.Helper()
		tuned := false
		steps, err := d.Maintain(ctx, 0, reporting(func(p progress) { tuned = tuned || p.Stage == "tune" }))
		must(t, err)
		for _, s := range steps {
			if s.Action != "relearn" {
				t.Errorf("step %+v", s)
			}
			relearned = append(relearned, s.Index)
		}
		if tuned {
			t.Error("tuned again")
		}
		return relearned
	}
	// A fifth: 8 rows written, 6 deleted, 6 relabelled.
	must(t, putClassified(d, 100, 108))
	change(func(c TxCollection) error {
		for i := range 6 {
			if err := c.Delete(fmt.Appendf(nil, "key-%d", i)); err != nil {
				return err
			}
			if err := c.SetLabels(fmt.Appendf(nil, "key-%d", 10+i), fmt.Sprint("class ", i%3)); err != nil {
				return err
			}
		}
		return nil
	})
	if got := maintain(); got != nil {
		t.Errorf("a fifth has changed: %q", got)
	}
	change(func(c TxCollection) error { return c.SetLabels([]byte("key-20"), "class 0") })
	if got := maintain(); !slices.Equal(got, []string{"at", "pt", "sbt"}) && !slices.Equal(got, []string{"sbt", "at", "pt"}) {
		t.Errorf("more than a fifth has changed: %q", got)
	}
	if got := maintain(); got != nil {
		t.Errorf("nothing has changed: %q", got)
	}
	for name, was := range built {
		c := terms
		if name == "sbt" {
			c = points
		}
		is, err := c.Index(name)
		must(t, err)
		if is.Rows != 108 || is.TrainingPoints != 102 {
			t.Errorf("%s covers %d rows, %d of them learned", name, is.Rows, is.TrainingPoints)
		}
		if !reflect.DeepEqual(is.Options, was.Options) || !reflect.DeepEqual(is.TreeTrials, was.TreeTrials) {
			t.Errorf("%s is %+v, was %+v", name, is, was)
		}
	}
	must(t, mustCheck(d))
}

// isTree reports whether indexes of a kind are budgeted trees.
func isTree(name string) bool { return kindOf(name) == kind.Kind(treeindex.Kind{}) }
