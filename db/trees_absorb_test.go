package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/trees/budget"
)

// treeBed is a collection with one tree, and what its rows are.
type treeBed struct {
	t     *testing.T
	d     *DB
	path  string
	dense bool
	kind  budget.Kind
	rng   *rand.Rand
	keys  int
	live  map[string][]string // labels by key
}

func (b *treeBed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *treeBed) open() {
	var err error
	b.d, err = Open(b.path, &Options{Sync: Off})
	b.must(err)
}

// put writes n rows, new ones or others in the place of some; labels are of q.
func (b *treeBed) put(n, q int) {
	batch := map[string]Row{}
	for range n {
		r := Row{Key: fmt.Append(nil, b.rng.IntN(b.keys+n)), Vector: make([]float32, 12)}
		for f := range r.Vector {
			if b.rng.IntN(3) == 0 {
				r.Vector[f] = float32(1 + b.rng.IntN(3))
			}
		}
		for l := range q {
			if r.Vector[l]*r.Vector[l+1] > 2 || r.Vector[l] > 2 && b.rng.IntN(9) > 0 {
				r.Labels = append(r.Labels, fmt.Sprint("l", l))
			}
		}
		if b.kind == budget.SBT {
			if r.Labels = r.Labels[:min(1, len(r.Labels))]; len(r.Labels) == 0 {
				r.Labels = []string{"none"}
			}
		}
		if !b.dense {
			for f, v := range r.Vector {
				if v > 0 {
					r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, uint32(f)), append(r.Sparse.Value, v)
				}
			}
			r.Vector = nil
		}
		batch[string(r.Key)] = r
	}
	b.keys += n
	b.must(b.d.Update(b.t.Context(), func(w *Tx) error {
		for key, r := range batch {
			if err := w.Collection("s").Put(r); err != nil {
				return err
			}
			b.live[key] = r.Labels
		}
		return nil
	}))
}

// remove deletes n rows.
func (b *treeBed) remove(n int) {
	b.must(b.d.Update(b.t.Context(), func(w *Tx) error {
		keys := slices.Sorted(maps.Keys(b.live))
		b.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys[:min(n, len(keys))] {
			if err := w.Collection("s").Delete([]byte(key)); err != nil {
				return err
			}
			delete(b.live, key)
		}
		return nil
	}))
}

// relabel gives n rows the labels of other rows.
func (b *treeBed) relabel(n int) {
	keys := slices.Sorted(maps.Keys(b.live))
	b.must(b.d.Update(b.t.Context(), func(w *Tx) error {
		for range n {
			from, to := keys[b.rng.IntN(len(keys))], keys[b.rng.IntN(len(keys))]
			b.live[to] = b.live[from]
			if err := w.Collection("s").SetLabels([]byte(to), b.live[to]...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// tree is the stored tree, in memory of its own.
func (b *treeBed) tree() (m *budget.Model, info IndexInfo) {
	b.must(b.d.View(func(s *Snapshot) error {
		st := s.gen.Collections["s"]
		x, err := st.OpenIndex(context.Background(), st.Entry.Index("x"))
		if err == nil {
			m, info = x.Opened.(*treeindex.Model).Model.Clone(), publicInfo("", x.Manifest)
		}
		return err
	}))
	return m, info
}

// check compares a maintained tree with the rows: the leaves have the rows that
// come there, by their labels or, for SBT, by the tree's decisions.
func (b *treeBed) check() {
	b.t.Helper()
	b.must(mustCheck(b.d))
	b.must(b.d.View(func(s *Snapshot) error {
		st := s.gen.Collections["s"]
		x, err := st.OpenIndex(context.Background(), st.Entry.Index("x"))
		if err != nil {
			return err
		}
		tree := x.Opened.(*treeindex.Model)
		m := tree.Model
		if x.Manifest.Info.Rows != int(st.Entry.Rows) || x.Manifest.Info.TrainingPoints != len(b.live) || !reflect.DeepEqual(*x.Manifest.Info.Tree, m.Stats()) {
			b.t.Fatalf("%+v for %d rows, %d live", x.Manifest.Info, st.Entry.Rows, len(b.live))
		}
		if b.kind != budget.SBT {
			sets := map[string]int{}
			for _, names := range b.live {
				names = slices.Sorted(slices.Values(names))
				sets[fmt.Sprint(names)]++
			}
			for leaf, n := range m.LeafRows {
				var names []string
				for _, l := range m.Set(leaf) {
					names = append(names, tree.Label(l))
				}
				slices.Sort(names)
				if sets[fmt.Sprint(names)] != int(n) {
					b.t.Fatalf("%d rows are in the leaf of %v, %d have these labels", n, names, sets[fmt.Sprint(names)])
				}
			}
			return nil
		}
		rows, positive := make([]uint32, m.Leaves()), make([]uint32, m.Leaves())
		p := budget.NewPredictor(budget.NewIndex(m))
		for r, err := range s.Collection("s").Rows(context.Background(), nil) {
			if err != nil {
				return err
			}
			if b.dense {
				r.Sparse = kind.Listed(r.Vector)
			}
			for class := range m.Roots {
				leaf, _ := p.Leaf(tree.Prepare(r.Sparse), class)
				rows[leaf]++
				if r.Labels[0] == tree.Label(uint32(max(class, 3-m.Labels))) {
					positive[leaf]++
				}
			}
		}
		if !slices.Equal(rows, m.LeafRows) || !slices.Equal(positive, m.LeafPositive) {
			b.t.Fatalf("leaves have %v rows, %v positive, not %v and %v", m.LeafRows, m.LeafPositive, rows, positive)
		}
		return nil
	}))
}

// TestMaintainTrees mixes puts, updates, deletes, changes of labels, maintenance,
// reopening and compaction: trees count the rows that there are, and labels that come are
// answered. A change that a step is cancelled at leaves the tree as it was.
func TestMaintainTrees(t *testing.T) {
	t.Parallel()
	actions := map[string]int{}
	for _, c := range []struct {
		kind   budget.Kind
		dense  bool
		weight string
		labels int
	}{
		{budget.AT, false, "tfidf", 4}, {budget.AT, true, "none", 4}, {budget.PT, false, "none", 4},
		{budget.SBT, false, "tfidf", 3}, {budget.SBT, true, "none", 1},
	} {
		t.Run(fmt.Sprint(c.kind, c.dense), func(t *testing.T) {
			ctx := t.Context()
			b := &treeBed{t: t, path: filepath.Join(t.TempDir(), "db"), dense: c.dense, kind: c.kind, rng: rand.New(rand.NewPCG(3, 1)), live: map[string][]string{}}
			b.open()
			defer func() { b.must(b.d.Close()) }()
			if c.dense {
				b.must(create(ctx, b.d, "s", Schema{Dim: 12}))
			} else {
				b.must(create(ctx, b.d, "s", Schema{Sparse: true}))
			}
			b.put(300, c.labels)
			b.remove(20)
			o := treesOf(c.kind, TreeOptions{Budget: 3, Seed: 5, Weight: c.weight, Params: budget.Params{Folds: 2, NoPrune: true}})
			_, err := b.d.Collection("s").Build(ctx, "x", o)
			b.must(err)
			b.check()
			for round := range 10 {
				b.put(1+b.rng.IntN(6), min(c.labels+round/3, c.labels*2))
				b.remove(b.rng.IntN(5))
				b.relabel(b.rng.IntN(3))
				if round == 4 {
					b.cancelled()
				}
				before, _ := b.tree()
				steps, err := b.d.Maintain(ctx, 0)
				if err != nil || len(steps) != 1 {
					t.Fatalf("steps %v, %v", steps, err)
				}
				actions[steps[0].Action]++
				b.check()
				// A decision with no rows left on one side goes while rows are counted.
				after, info := b.tree()
				if steps[0].Action == "count" && (len(after.NodePtr) == len(before.NodePtr) && !slices.Equal(after.Weight, before.Weight) || info.Maintained.IsZero()) {
					t.Error("decisions were changed by counting")
				}
				if steps, err := b.d.Maintain(ctx, 0); err != nil || len(steps) != 0 {
					t.Fatalf("nothing has changed: %v, %v", steps, err)
				}
				if round == 6 {
					b.must(b.d.Close())
					b.open()
				}
			}
			b.remove(len(b.live) / 2)
			if err := b.d.Compact(ctx); err != nil { // which gives rows new numbers
				t.Fatal(err)
			}
			b.check()
			b.put(3, c.labels)
			if _, err := b.d.Maintain(ctx, 0); err != nil {
				t.Fatal(err)
			}
			b.check()
		})
	}
	for _, action := range []string{"count", "subtree", "relearn"} {
		if actions[action] == 0 {
			t.Errorf("no step was %q: %v", action, actions)
		}
	}
}

// cancelled cancels a step at its first progress, if it makes any.
func (b *treeBed) cancelled() {
	before, was := b.tree()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	steps, err := b.d.Maintain(withProgress(ctx, func(progress) { cancel() }), 0)
	if ctx.Err() == nil {
		b.t.Fatal("no progress")
	}
	if len(steps) == 1 && (err == nil || errors.Is(err, context.Canceled)) {
		b.put(1, 1) // it was done before that
		return
	}
	if !errors.Is(err, context.Canceled) || len(steps) != 0 {
		b.t.Fatalf("steps %v, %v", steps, err)
	}
	b.must(mustCheck(b.d))
	if after, is := b.tree(); !reflect.DeepEqual(before, after) || is.Maintained != was.Maintained || is.Rows != was.Rows {
		b.t.Fatal("a cancelled step has changed the tree")
	}
}

// TestMaintainTreesAsBuilt: trees relearned for want of following have the
// options and trials that they were built with, and are not tuned again.
func TestMaintainTreesAsBuilt(t *testing.T) {
	ctx := t.Context()
	b := &treeBed{t: t, path: filepath.Join(t.TempDir(), "db"), kind: budget.AT, rng: rand.New(rand.NewPCG(4, 1)), live: map[string][]string{}}
	b.open()
	defer func() { b.must(b.d.Close()) }()
	b.must(create(ctx, b.d, "s", Schema{Sparse: true}))
	b.put(120, 3)
	o := &AT{Grid: &budget.Grid{Budgets: []int{1, 3}, Folds: 2}}
	built, err := b.d.Collection("s").Build(ctx, "x", o)
	b.must(err)
	b.put(100, 3)
	tuned := false
	steps, err := b.d.Maintain(withProgress(ctx, func(p progress) { tuned = tuned || p.Stage == "tune" }), 0)
	if err != nil || len(steps) != 1 || steps[0].Action != "relearn" || tuned {
		t.Fatalf("steps %v, %v, tuned %v", steps, err, tuned)
	}
	if _, info := b.tree(); !reflect.DeepEqual(info.Options, built.Options) || !reflect.DeepEqual(info.TreeTrials, built.TreeTrials) || len(built.TreeTrials) != 2 {
		t.Errorf("%+v, built as %+v", info, built)
	}
}

// isTree reports whether indexes of a kind are budgeted trees.
func isTree(name string) bool { return kindOf(name) == kind.Kind(treeindex.Kind{}) }
