package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

func TestBudgetedTreesPredict(t *testing.T) {
	t.Parallel()
	d, _, queries, truth := topicDB(t, true)
	for _, kind := range []budget.Kind{budget.AT, budget.PT} {
		for _, weight := range []string{"none", "tfidf"} {
			o := treesOf(kind, Trees{Budget: 10, Weight: weight})
			info, err := d.Collection("docs").Build(t.Context(), "tree", o, nil)
			must(t, err)
			if info.Tree == nil || info.Tree.Nodes == 0 || info.Bytes["budget"] == 0 || info.TrainingPoints != 1400 {
				t.Errorf("%s: index %+v", kind, info)
			}
			right, sets := 0, predictAll(t, d, queries, nil, 2)
			for i, p := range sets {
				var got []string
				for _, l := range p {
					got = append(got, l.Label)
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(truth[i]))
				if slices.Equal(got, want) {
					right++
				}
			}
			if right < map[budget.Kind]int{budget.AT: 80, budget.PT: 60}[kind] {
				t.Errorf("%s %q: %d of 100 label sets are right", kind, weight, right)
			}
			top := predictAll(t, d, queries, &PredictOptions{Top: 1}, 1)
			if p := first(top, truth); p < 0.9 {
				t.Errorf("%s %q: precision of the best label is %g", kind, weight, p)
			}
		}
	}
	before := predictAll(t, d, queries, nil, 1)
	path := d.Path()
	if err := d.Check(t.Context(), func(p *CorruptError) { t.Log(p) }, nil); err != nil {
		t.Error(err)
	}
	must(t, d.Close())
	d, err := Open(t.Context(), path, nil)
	must(t, err)
	defer d.Close()
	for i, p := range predictAll(t, d, queries, nil, 1) {
		if !slices.Equal(p, before[i]) {
			t.Fatalf("query %d: %v after reopening, %v before", i, p, before[i])
		}
	}
	must(t, d.Collection("docs").DropIndex(t.Context(), "tree"))
	if err := d.Check(t.Context(), func(p *CorruptError) { t.Log(p) }, nil); err != nil {
		t.Error(err)
	}
}

// TestSupervisedTreeOverDenseRows learns classes of points in the plane.
func TestSupervisedTreeOverDenseRows(t *testing.T) {
	for classes := 2; classes <= 3; classes++ {
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), nil)
		must(t, err)
		if _, err := d.Create(t.Context(), "docs", Schema{Dim: 4}); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(7, 8))
		point := func(class int) []float32 {
			x := make([]float32, 4)
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			x[class] += 2
			return x
		}
		err = d.Update(t.Context(), func(b *Tx) error {
			for i := range 600 {
				c := i % classes
				if err := b.Collection("docs").Put(Row{Key: fmt.Append(nil, i), Vector: point(c), Labels: []string{fmt.Sprint("class ", c)}}); err != nil {
					return err
				}
			}
			return b.Collection("docs").Delete([]byte("none"))
		})
		must(t, err)
		o := &Trees{Kind: "sbt", Params: budget.Params{BAC: budget.BACParams{Budget: 2}}}
		if _, err := d.Collection("docs").Build(t.Context(), "tree", o, nil); err != nil {
			t.Fatal(err)
		}
		var queries []Query
		for i := range 90 {
			queries = append(queries, Query{Vector: point(i % classes)})
		}
		wrong := 0
		for i, p := range predictAll(t, d, queries, nil, 2) {
			if len(p) != 1 || p[0].Label != fmt.Sprint("class ", i%classes) {
				wrong++
			}
		}
		if wrong > 3 {
			t.Errorf("%d classes: %d of 90 are wrong", classes, wrong)
		}
		// The tree is no index of rows.
		err = d.View(func(s *Snapshot) error {
			hits, _, err := nearest(t.Context(), s.Collection("docs"), Query{Vector: point(0)}, 3, nil)
			if err == nil && len(hits) != 3 {
				err = fmt.Errorf("%d hits", len(hits))
			}
			if err != nil {
				return err
			}
			if _, _, err = nearest(t.Context(), s.Collection("docs"), Query{Vector: point(0)}, 3, &SearchOptions{Index: "tree"}); !errors.Is(err, fail.Kind) {
				t.Errorf("search by the tree: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := d.Check(t.Context(), func(p *CorruptError) { t.Log(p) }, nil); err != nil {
			t.Error(err)
		}
		must(t, d.Close())
	}
}

func TestBudgetedTreesMisuse(t *testing.T) {
	d, rows, queries, _ := topicDB(t, false)
	defer d.Close()
	build := func(coll string, kind budget.Kind, o Trees) error {
		_, err := d.Collection(coll).Build(t.Context(), "tree", treesOf(kind, o), nil)
		return err
	}
	if _, err := d.Create(t.Context(), "one", Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	err := d.Update(t.Context(), func(b *Tx) error {
		for _, r := range rows[:20] {
			r.Labels = []string{"same"}
			if err := b.Collection("one").Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	few := Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 3}, MinPositive: 100}}
	must(t, build("docs", budget.AT, few))
	predict := func(q Query, o *PredictOptions) error {
		return d.View(func(s *Snapshot) error {
			_, _, err := predict(t.Context(), s.Collection("docs"), q, o)
			return err
		})
	}
	for name, c := range map[string]struct{ err, want error }{
		"negative budget":    {build("docs", budget.AT, Trees{Params: budget.Params{BAC: budget.BACParams{Budget: -1}}}), fail.Option},
		"weighting":          {build("docs", budget.PT, Trees{Weight: "x"}), fail.Option},
		"several labels":     {build("docs", budget.SBT, Trees{}), fail.Option},
		"one class":          {build("one", budget.SBT, Trees{}), budget.ErrOneClass},
		"one label set":      {build("one", budget.AT, Trees{}), budget.ErrOneClass},
		"no such collection": {build("x", budget.AT, Trees{}), fail.NoCollection},
		"parameters":         {predict(queries[0], &PredictOptions{Params: &lcif.Params{K: 1}}), fail.Option},
		"dense query":        {predict(Query{Vector: []float32{1}}, nil), fail.Kind},
		"negative value":     {predict(Query{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{-1}}}, nil), fail.Features},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

// An annotation tree answers a label for every row unless it may answer none, also
// after it is stored and loaded.
func TestTreesKeepTheBestLabel(t *testing.T) {
	d := openTemp(t, nil)
	if _, err := d.Create(t.Context(), "docs", Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	err := d.Update(t.Context(), func(b *Tx) error {
		for i := range 200 {
			row := Row{Key: fmt.Appendf(nil, "%d", i), Sparse: vector.Sparse{Index: []uint32{uint32(i % 3), 3}, Value: []float32{1, 2}}}
			if i%5 < 3 {
				row.Labels = []string{fmt.Sprintf("topic %d", i%3)}
			}
			if err := b.Collection("docs").Put(row); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	params := budget.Params{BAC: budget.BACParams{Budget: 3, C: 1}, Threshold: 0.9}
	for name, allow := range map[string]bool{"kept": false, "empty": true} {
		o := &Trees{Kind: "at", Params: params, AllowEmpty: allow}
		if _, err := d.Collection("docs").Build(t.Context(), name, o, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = d.View(func(s *Snapshot) error {
		for f := range uint32(3) {
			q := Query{Sparse: vector.Sparse{Index: []uint32{f, 3}, Value: []float32{1, 2}}}
			kept, _, err := predict(t.Context(), s.Collection("docs"), q, &PredictOptions{Index: "kept"})
			if err != nil {
				return err
			}
			ranked, _, err := predict(t.Context(), s.Collection("docs"), q, &PredictOptions{Index: "empty", Top: 1})
			if err != nil {
				return err
			}
			none, _, err := predict(t.Context(), s.Collection("docs"), q, &PredictOptions{Index: "empty"})
			if err != nil {
				return err
			}
			if len(none) != 0 || len(kept) != 1 || kept[0].Label != ranked[0].Label || !kept[0].Predicted {
				t.Errorf("feature %d: %v, ranked first %v; %v where there may be none", f, kept, ranked, none)
			}
		}
		return nil
	})
	must(t, err)
}
