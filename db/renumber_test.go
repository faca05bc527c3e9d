package db

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// churn updates every row of the collections that fillChurned makes.
func churn(d *DB, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	return d.Update(context.Background(), func(b *Tx) error {
		for i := range 200 {
			key := fmt.Appendf(nil, "key-%03d", i)
			label := []string{fmt.Sprint("label-", rng.IntN(4))}
			x := randomSparse(rng, 6, 40)
			f := make([]Feature, x.Len())
			for j := range f {
				f[j] = Feature{fmt.Sprint("word-", x.Index[j]), x.Value[j]}
			}
			v := make([]float32, 16)
			for j := range v {
				v[j] = float32(rng.IntN(100))
			}
			err := errors.Join(
				b.Collection("dense").Put(Row{Key: key, Vector: v, Labels: label, Payload: key}),
				b.Collection("sparse").Put(Row{Key: key, Sparse: x, Labels: label}),
				b.Collection("named").Put(Row{Key: key, Features: f, Labels: label}),
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// churned makes a database with all kinds of indexes over rows whose first
// versions are no more.
func churned(t *testing.T, d *DB) {
	t.Helper()
	ctx := t.Context()
	must(t, create(ctx, d, "dense", Schema{Dim: 16}))
	must(t, create(ctx, d, "sparse", Schema{Sparse: true}))
	must(t, create(ctx, d, "named", Schema{Named: true}))
	must(t, create(ctx, d, "still", Schema{Dim: 4}))
	must(t, d.Update(ctx, func(b *Tx) error {
		return errors.Join(b.Collection("still").Put(Row{Key: []byte("a"), Vector: make([]float32, 4)}), b.Collection("still").Put(Row{Key: []byte("b"), Vector: make([]float32, 4)}))
	}))
	must(t, churn(d, 1))
	model := LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}}
	tree := Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 4, Rounds: 2}}}
	for _, x := range []struct {
		coll, name string
		o          IndexOptions
	}{
		{"dense", "z", &Forest{Trees: 4, Members: true, Seed: 3, Holdout: 20}}, // tuned
		{"dense", "a", &model}, // finds neighbours by z
		{"sparse", "rows", &Postings{Partition: true, M: 2}},
		{"sparse", "tree", treesOf(budget.PT, tree)},
		{"named", "labels", &model},
		{"named", "tree", treesOf(budget.AT, tree)},
	} {
		_, err := d.Collection(x.coll).Build(ctx, x.name, x.o, nil)
		must(t, err)
	}
	must(t, churn(d, 2))
	must(t, churn(d, 3))
	must(t, d.Update(ctx, func(b *Tx) error { return b.Collection("sparse").Delete([]byte("key-007")) }))
}

// rowTexts are the rows of a collection without their numbers.
func rowTexts(t *testing.T, s *Snapshot, coll string) (out []string) {
	t.Helper()
	for r, err := range s.Collection(coll).Rows(t.Context(), nil) {
		must(t, err)
		r.Row = 0
		r.Features = sortedFeatures(r.Features)
		out = append(out, rowText(r))
	}
	return out
}

// TestCompactRenumbers: a compaction leaves deleted rows out, keeps the others
// with their order, learns every index rebuilt, and leaves collections alone of
// which little is dead. Held snapshots see what they saw.
func TestCompactRenumbers(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true})
	churned(t, d)
	held, err := d.Snapshot()
	must(t, err)
	colls := []string{"dense", "sparse", "named", "still"}
	before := map[string][]string{}
	for _, c := range colls {
		before[c] = rowTexts(t, held, c)
	}
	x := make([]float32, 16)
	want, _, err := nearest(t.Context(), held.Collection("dense"), Query{Vector: x}, 10, &SearchOptions{Index: Flat})
	must(t, err)
	must(t, d.Compact(t.Context(), nil))
	must(t, errors.Join(mustCheck(d), mustLeaveNothing(d)))
	err = d.View(func(s *Snapshot) error {
		for _, c := range colls {
			info, err := s.Collection(c).Info()
			if err != nil {
				return err
			}
			old, err := held.Collection(c).Info()
			if err != nil {
				return err
			}
			if info.Rows != info.Live || info.Live != old.Live || !slices.Equal(info.Indexes, old.Indexes) {
				t.Errorf("%+v, before %+v", info, old)
			}
			for _, s := range []*Snapshot{s, held} {
				if got := rowTexts(t, s, c); !slices.Equal(got, before[c]) {
					t.Errorf("%q: other rows than before: %d, %d", c, len(got), len(before[c]))
				}
			}
			all, err := s.Collection(c).Indexes()
			if err != nil {
				return err
			}
			for _, x := range all {
				if x.Rows != info.Rows {
					t.Errorf("%q of %q covers %d of %d rows", x.Name, c, x.Rows, info.Rows)
				}
			}
		}
		for _, o := range []*SearchOptions{{Index: "z", Recall: 0.99}, {Index: Flat}} {
			hits, _, err := nearest(t.Context(), s.Collection("dense"), Query{Vector: x}, 10, o)
			if err != nil {
				return err
			}
			found := 0
			for _, h := range hits {
				if slices.ContainsFunc(want, func(w Hit) bool { return string(w.Key) == string(h.Key) && w.Distance == h.Distance }) {
					found++
				}
			}
			if found < 9 {
				t.Errorf("%q finds %d of 10 rows", o.Index, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	held.Release()
	// Writing, maintaining and compacting go on.
	must(t, churn(d, 4))
	if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
	if err := d.Compact(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := errors.Join(mustCheck(d), mustLeaveNothing(d)); err != nil {
		t.Error(err)
	}
}

// TestGenerations: they grow with every commit and compaction, whatever the
// numbers of transactions in a compacted file are.
func TestGenerations(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true})
	churned(t, d)
	last := uint64(0)
	for i := range 8 {
		if i%2 == 1 {
			must(t, d.Compact(t.Context(), nil))
		} else if err := churn(d, uint64(i)); err != nil {
			t.Fatal(err)
		}
		st, err := d.Stats()
		must(t, err)
		if st.Generation <= last {
			t.Errorf("step %d: generation %d after %d", i, st.Generation, last)
		}
		last = st.Generation
	}
}

// TestCompactLevels updates the same rows again and again: with compactions the
// file does not grow.
func TestCompactLevels(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true})
	churned(t, d)
	var sizes []int64
	for i := range 8 {
		for j := range 3 {
			must(t, churn(d, uint64(10*i+j)))
		}
		must(t, d.Compact(t.Context(), nil))
		st, err := d.Stats()
		must(t, err)
		sizes = append(sizes, st.FileBytes)
	}
	if slices.Max(sizes) > sizes[0]*11/10 {
		t.Errorf("sizes after compactions %d", sizes)
	}
}

// TestRenumberedMeanwhile has batches, builds and maintenance under way while
// compactions renumber rows: all come to the right end.
func TestRenumberedMeanwhile(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true})
	churned(t, d)
	ctx := t.Context()
	// A batch that was filled before, and applied after.
	filled, compacted := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- d.Update(ctx, func(b *Tx) error {
			close(filled)
			defer func() { <-compacted }()
			return errors.Join(
				b.Collection("dense").Put(Row{Key: []byte("new"), Vector: make([]float32, 16)}),
				b.Collection("named").Put(Row{Key: []byte("new"), Features: []Feature{{"fresh", 1}}}),
				b.Collection("sparse").Delete([]byte("key-001")))
		})
	}()
	<-filled
	must(t, d.Compact(ctx, nil))
	close(compacted)
	if err := <-done; err != nil {
		t.Fatalf("a batch filled before the compaction: %v", err)
	}
	err := d.View(func(s *Snapshot) error {
		_, err1 := s.Collection("dense").Get([]byte("new"))
		_, err2 := s.Collection("named").Get([]byte("new"))
		if _, err := s.Collection("sparse").Get([]byte("key-001")); !errors.Is(err, fail.NoRow) {
			t.Errorf("a deleted row: %v", err)
		}
		return errors.Join(err1, err2)
	})
	if err != nil {
		t.Error(err)
	}
	// A compaction that begins during a build waits for its end.
	must(t, churn(d, 5))
	once := false
	_, err = d.Collection("dense").Build(ctx, "late", &Forest{Trees: 2, NoTune: true}, reporting(func(p progress) {
		if p.Stage == "trees" && !once {
			once = true
			go func() {
				err := d.Compact(ctx, nil)
				done <- err
			}()
		}
	}))
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	err = d.View(func(s *Snapshot) error {
		c, err := s.Collection("dense").Info()
		if err != nil {
			return err
		}
		x, err := s.Collection("dense").Index("late")
		if c.Rows != c.Live || x.Rows != c.Rows {
			t.Errorf("%d rows, %d live, %d covered", c.Rows, c.Live, x.Rows)
		}
		return err
	})
	if err := errors.Join(err, mustCheck(d), mustLeaveNothing(d)); err != nil {
		t.Error(err)
	}
	// Everything at once.
	until := time.Now().Add(time.Second)
	errs := make(chan error, 4)
	run := func(f func(i int) error) {
		go func() {
			var err error
			for i := 0; err == nil && time.Now().Before(until); i++ {
				err = f(i)
			}
			errs <- err
		}()
	}
	run(func(i int) error { return churn(d, uint64(i)) })
	run(func(int) error { return d.Compact(ctx, nil) })
	run(func(int) error { _, err := d.Maintain(ctx, 0, nil); return err })
	run(func(i int) error {
		_, err := d.Collection("sparse").Build(ctx, "rows", &Postings{Partition: i%2 == 0}, nil)
		return err
	})
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(mustCheck(d), mustLeaveNothing(d)); err != nil {
		t.Error(err)
	}
}

// TestRenumberCancelled cancels a compaction that renumbers: nothing is left,
// and nothing has changed.
func TestRenumberCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(t.Context(), path, &Options{NoSync: true})
	must(t, err)
	churned(t, d)
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
		ctx, stop := context.WithTimeout(t.Context(), after)
		if err := d.Compact(ctx, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", after, err)
		}
		stop()
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("after %v: %v, %v", after, entries, err)
		}
	}
	if err := errors.Join(mustCheck(d), mustLeaveNothing(d), d.Close()); err != nil {
		t.Error(err)
	}
}
