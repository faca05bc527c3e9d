package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query/lcif"
)

// TestCatchUp applies rounds of changes to a copy of an earlier state: the copy
// then has the rows of the state, whether their numbers moved or not.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	for _, numbers := range []compact.Numbers{compact.KeepNumbers, compact.DropDeleted, compact.NearOrder} {
		t.Run(fmt.Sprintf("numbers %v", numbers), func(t *testing.T) {
			d := openTemp(t, &Options{NoSync: true})
			fillChurned(t, d)
			ctx := t.Context()
			model := &LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}}
			if _, err := d.Collection("named").Build(ctx, "model", model, nil); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(t.TempDir(), "copy.anndb")
			copied, err := d.compactor.Copy(ctx, name, numbers)
			must(t, err)
			if (numbers == compact.KeepNumbers) != (len(copied.Moved) == 0) {
				t.Fatalf("%d collections were renumbered", len(copied.Moved))
			}
			defer copied.End()
			other := newDB(name, d.opts, copied.File)
			defer other.Close()
			rng := rand.New(rand.NewPCG(4, 4))
			for round := range 4 {
				must(t, changeChurned(d, rng, round))
				s, err := d.Snapshot()
				must(t, err)
				var n int
				if n, _, err = copied.Follow(ctx); err != nil || n == 0 {
					t.Fatalf("round %d: %d bytes, %v", round, n, err)
				}
				if n, _, err = copied.Follow(ctx); err != nil || n != 0 {
					t.Fatalf("round %d again: %d bytes, %v", round, n, err)
				}
				// The changes did not come through this handle. A transaction makes it see them.
				must(t, other.txn.Exclusive(ctx, func(*bbolt.Tx, *layout.Catalog) error { return nil }))
				sameRows(t, s, other)
				s.Release()
			}
			if err := mustCheck(other); err != nil {
				t.Error(err)
			}
			// The copy knows which rows its label model must learn again.
			if n := behind(t, other)["model"]; n == 0 {
				t.Error("no row of the copy was relabelled")
			}
			if _, err := other.Maintain(ctx, 0, nil); err != nil {
				t.Fatal(err)
			}
			mustBeExact(t, other, "named", "model")
		})
	}
}

// fillChurned makes collections of all kinds with deleted rows.
func fillChurned(t *testing.T, d *DB) {
	t.Helper()
	ctx := t.Context()
	err := errorsOf(
		func() error { return create(ctx, d, "dense", Schema{Dim: 16}) },
		func() error { return create(ctx, d, "sparse", Schema{Sparse: true}) },
		func() error { return create(ctx, d, "named", Schema{Named: true}) },
		func() error { return churn(d, 1) },
		func() error { return churn(d, 2) },
	)
	must(t, err)
}

// changeChurned replaces, adds, deletes and changes rows; some keys are deleted and come
// again in a later round.
func changeChurned(d *DB, rng *rand.Rand, round int) error {
	return d.Update(context.Background(), func(b *Tx) error {
		for _, i := range rng.Perm(260)[:60] {
			key := fmt.Appendf(nil, "key-%03d", i)
			x := randomSparse(rng, 6, 40+10*round)
			v := make([]float32, 16)
			v[i%16] = float32(i)
			var err error
			if i%4 == 1 {
				for _, coll := range []string{"dense", "sparse", "named"} {
					labels := []string{fmt.Sprint("label-", round), "changed"}
					if i%8 == 1 {
						err = b.Collection(coll).SetLabels(key, labels...)
					} else {
						err = b.Collection(coll).SetPayload(key, []byte("changed"))
					}
					if err != nil && !errors.Is(err, fail.NoRow) {
						return err
					}
				}
				continue
			}
			if i%3 == 0 {
				for _, coll := range []string{"dense", "sparse", "named"} {
					if err == nil {
						err = b.Collection(coll).Delete(key)
					}
				}
			} else {
				label := []string{fmt.Sprint("label-", round)}
				f := []Feature{{fmt.Sprint("word-", i), 2}, {fmt.Sprint("new-", round), 1}}
				err = errorsOf(
					func() error { return b.Collection("dense").Put(Row{Key: key, Vector: v, Labels: label}) },
					func() error { return b.Collection("sparse").Put(Row{Key: key, Sparse: x, Payload: key}) },
					func() error { return b.Collection("named").Put(Row{Key: key, Features: f, Labels: label}) },
				)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sameRows compares the rows of a snapshot with those of another database, up to
// their order, and those by label and key.
func sameRows(t *testing.T, s *Snapshot, other *DB) {
	t.Helper()
	err := other.View(func(o *Snapshot) error {
		for _, coll := range []string{"dense", "sparse", "named"} {
			want, got := rowTexts(t, s, coll), rowTexts(t, o, coll)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Errorf("%s: %d rows, want %d, or other ones", coll, len(got), len(want))
			}
			l1, err := s.Collection(coll).Labels()
			if err != nil {
				return err
			}
			l2, err := o.Collection(coll).Labels()
			if err != nil {
				return err
			}
			if !slices.Equal(l1, l2) {
				t.Errorf("%s: labels %v, want %v", coll, l2, l1)
			}
		}
		return nil
	})
	must(t, err)
}

// writeOnWarning is a log handler that writes to the database when it is warned,
// in the goroutine that warns.
type writeOnWarning struct {
	slog.Handler
	write func()
}

func (w *writeOnWarning) Enabled(context.Context, slog.Level) bool { return true }

func (w *writeOnWarning) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		w.write()
	}
	return nil
}

// TestUpdateDuringCompact: an update that begins in the middle of a compaction
// ends before it, and the new file has it. The middle is where an index cannot be
// rebuilt, which is logged.
func TestUpdateDuringCompact(t *testing.T) {
	var d *DB
	var wrote atomic.Int64
	ctx := t.Context()
	row := func(i int, label ...string) Row {
		return Row{Key: fmt.Appendf(nil, "k%d", i), Vector: []float32{float32(i), 1}, Labels: label}
	}
	update := func(rows ...Row) error {
		return d.Update(ctx, func(b *Tx) error {
			for _, r := range rows {
				if err := b.Collection("c").Put(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	log := slog.New(&writeOnWarning{slog.DiscardHandler, func() {
		n := wrote.Add(1)
		if err := update(row(1000 + int(n))); err != nil {
			t.Error(err)
		}
	}})
	d = openTemp(t, &Options{NoSync: true, Logger: log})
	var labelled, plain []Row
	for i := range 30 {
		labelled, plain = append(labelled, row(i, fmt.Sprint(i/15))), append(plain, row(i, "0"))
	}
	err := errorsOf(
		func() error { return create(ctx, d, "c", Schema{Dim: 2}) },
		func() error { return update(labelled...) },
		func() error {
			_, err := d.Collection("c").Build(ctx, "tree", &Trees{Kind: "sbt"}, nil)
			return err
		},
		func() error { return update(plain...) }, // one class is left: no tree can be learned from it
		func() error { return d.Compact(ctx, nil) },
	)
	must(t, err)
	if wrote.Load() == 0 {
		t.Fatal("nothing was logged in the middle of the compaction")
	}
	err = d.View(func(s *Snapshot) error {
		n, err := s.Collection("c").Count(t.Context(), nil)
		if err == nil && n != 30+int(wrote.Load()) {
			t.Errorf("%d rows, want %d", n, 30+wrote.Load())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// TestBuildBesideReorder: builds make progress in a loop of compactions that
// renumber rows.
func TestBuildBesideReorder(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true})
	fillChurned(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := d.Compact(ctx, &CompactOptions{Reorder: true}); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range 5 {
		if _, err := d.Collection("dense").Build(ctx, "x", &Forest{NoTune: true, Trees: 2, Seed: uint64(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	must(t, <-done)
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// errorsOf runs steps until one fails.
func errorsOf(steps ...func() error) error {
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
