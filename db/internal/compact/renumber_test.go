package compact_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// churn updates every row of the collections that churned makes.
func churn(d *db.DB, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	return d.Update(context.Background(), func(b *db.Tx) error {
		for i := range 200 {
			key := fmt.Appendf(nil, "key-%03d", i)
			label := []string{fmt.Sprint("label-", rng.IntN(4))}
			x := dbtest.RandomSparse(rng, 6, 40)
			f := make([]vector.Feature, x.Len())
			for j := range f {
				f[j] = vector.Feature{Name: fmt.Sprint("word-", x.Index[j]), Value: x.Value[j]}
			}
			v := make([]float32, 16)
			for j := range v {
				v[j] = float32(rng.IntN(100))
			}
			err := errors.Join(
				b.Collection("dense").Put(db.Row{Key: key, Vector: v, Labels: label, Payload: key}),
				b.Collection("sparse").Put(db.Row{Key: key, Sparse: x, Labels: label}),
				b.Collection("named").Put(db.Row{Key: key, Features: f, Labels: label}),
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// churned opens a database with all kinds of indexes over rows whose first versions are deleted.
func churned(t *testing.T) *db.DB {
	t.Helper()
	ctx, d := t.Context(), dbtest.OpenTemp(t, &db.Options{NoSync: true})
	dbtest.Must(t, errors.Join(
		dbtest.Create(ctx, d, "dense", db.Schema{Dim: 16}), dbtest.Create(ctx, d, "sparse", db.Schema{Sparse: true}),
		dbtest.Create(ctx, d, "named", db.Schema{Named: true}), dbtest.Create(ctx, d, "still", db.Schema{Dim: 4}),
		dbtest.Put(d, "still", db.Row{Key: []byte("a"), Vector: make([]float32, 4)}), churn(d, 1),
	))
	model := index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}}
	tree := index.Trees{Kind: "pt", Params: budget.Params{BAC: budget.BACParams{Budget: 4, Rounds: 2}}}
	dbtest.Builds(t, d, "dense", "z", &index.Forest{Trees: 4, Members: true, Seed: 3, Holdout: 20}) // tuned
	dbtest.Builds(t, d, "dense", "a", &model)                                                       // finds neighbors by z
	dbtest.Builds(t, d, "sparse", "rows", nil)
	dbtest.Builds(t, d, "sparse", "tree", &tree)
	dbtest.Builds(t, d, "named", "labels", &model)
	dbtest.Must(t, errors.Join(churn(d, 2), churn(d, 3), dbtest.Delete(d, "sparse", "key-007")))
	return d
}

// clean checks a database, and that nothing is left next to it and in it.
func clean(t *testing.T, d *db.DB) {
	t.Helper()
	if err := errors.Join(dbtest.Check(d), dbtest.LeavesNothing(d)); err != nil {
		t.Error(err)
	}
}

// TestCompactRenumbers: a compaction leaves deleted rows out, keeps the others in their order, rebuilds
// every index, and does not renumber collections of which few rows are deleted. Held snapshots see what
// they saw. The generation increases, and the file does not grow by further rounds.
func TestCompactRenumbers(t *testing.T) {
	t.Parallel()
	d := churned(t)
	held, err := d.Snapshot()
	dbtest.Must(t, err)
	defer held.Release()
	x := db.Query{Vector: make([]float32, 16)}
	want, _, err := dbtest.Nearest(t.Context(), held.Collection("dense"), x, 10, &db.SearchOptions{Index: db.Flat})
	dbtest.Must(t, err)
	dbtest.Must(t, d.Compact(t.Context(), nil))
	clean(t, d)
	dbtest.Must(t, d.View(func(s *db.Snapshot) error {
		for _, c := range []string{"dense", "sparse", "named", "still"} {
			sameRows(t, s, held, c, true)
			info, err1 := s.Collection(c).Info()
			old, err2 := held.Collection(c).Info()
			all, err3 := s.Collection(c).Indexes()
			if err := errors.Join(err1, err2, err3); err != nil {
				return err
			}
			if info.Rows != info.Live || info.Live != old.Live || !slices.Equal(info.Indexes, old.Indexes) {
				t.Errorf("%+v, before %+v", info, old)
			}
			for _, x := range all {
				if x.Rows != info.Rows {
					t.Errorf("%q of %q covers %d of %d rows", x.Name, c, x.Rows, info.Rows)
				}
			}
		}
		for _, o := range []*db.SearchOptions{{Index: "z", Recall: 0.99}, {Index: db.Flat}} {
			hits, _, err := dbtest.Nearest(t.Context(), s.Collection("dense"), x, 10, o)
			if err != nil {
				return err
			}
			found := 0
			for _, h := range hits {
				if slices.ContainsFunc(want, func(w db.Hit) bool { return string(w.Key) == string(h.Key) && w.Distance == h.Distance }) {
					found++
				}
			}
			if found < 9 {
				t.Errorf("%q finds %d of 10 rows", o.Index, found)
			}
		}
		return nil
	}))
	held.Release()
	before, err := d.Stats()
	dbtest.Must(t, err)
	for i := range 3 {
		dbtest.Must(t, errors.Join(churn(d, uint64(4+i)), churn(d, uint64(40+i))))
		_, err := d.Maintain(t.Context(), 0, nil)
		dbtest.Must(t, errors.Join(err, d.Compact(t.Context(), nil)))
		st, err := d.Stats()
		dbtest.Must(t, err)
		if st.Generation <= before.Generation || st.FileBytes > before.FileBytes*11/10 {
			t.Errorf("round %d: generation %d, %d bytes; before %d, %d", i, st.Generation, st.FileBytes, before.Generation, before.FileBytes)
		}
		before.Generation = st.Generation
	}
	clean(t, d)
}

// sameRows compares the rows of a collection in two snapshots, in order or not.
func sameRows(t *testing.T, s, old *db.Snapshot, coll string, ordered bool) {
	t.Helper()
	got, err1 := dbtest.RowTexts(s, coll)
	want, err2 := dbtest.RowTexts(old, coll)
	dbtest.Must(t, errors.Join(err1, err2))
	if !ordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: other rows than before: %d, %d", coll, len(got), len(want))
	}
}

// TestRenumberedMeanwhile: a transaction that was filled before a compaction is applied after it, and a
// compaction that begins during a build waits for its end.
func TestRenumberedMeanwhile(t *testing.T) {
	t.Parallel()
	d := churned(t)
	ctx := t.Context()
	filled, compacted := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- d.Update(ctx, func(b *db.Tx) error {
			close(filled)
			defer func() { <-compacted }()
			return errors.Join(
				b.Collection("dense").Put(db.Row{Key: []byte("new"), Vector: make([]float32, 16)}),
				b.Collection("named").Put(db.Row{
					Key: []byte("new"), Features: []vector.Feature{{Name: "fresh", Value: 1}},
				}),
				b.Collection("sparse").Delete([]byte("key-001")))
		})
	}()
	<-filled
	dbtest.Must(t, d.Compact(ctx, nil))
	close(compacted)
	dbtest.Must(t, <-done)
	_, err1 := d.Collection("dense").Get([]byte("new"))
	_, err2 := d.Collection("named").Get([]byte("new"))
	if _, err := d.Collection("sparse").Get([]byte("key-001")); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a deleted row: %v", err)
	}
	dbtest.Must(t, errors.Join(err1, err2, churn(d, 5)))
	once := false
	_, err := d.Collection("dense").Build(ctx, "late", &index.Forest{Trees: 2, NoTune: true}, dbtest.Reporting(func(p dbtest.Progress) {
		if p.Stage == "trees" && !once {
			once = true
			go func() { done <- d.Compact(ctx, nil) }()
		}
	}))
	dbtest.Must(t, errors.Join(err, <-done))
	c, err1 := d.Collection("dense").Info()
	x, err2 := d.Collection("dense").Index("late")
	if err := errors.Join(err1, err2); err != nil || c.Rows != c.Live || x.Rows != c.Rows {
		t.Errorf("%d rows, %d live, %d covered, %v", c.Rows, c.Live, x.Rows, err)
	}
	clean(t, d)
}

// writeOnWarning is a log handler that writes to the database when it is warned, in the goroutine that
// warns.
type writeOnWarning struct {
	slog.Handler
	write func()
}

func (w *writeOnWarning) Enabled(context.Context, slog.Level) bool { return true }

func (w *writeOnWarning) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		w.write()
	}
	return nil
}

// TestUpdateDuringCompact: an update that begins in the middle of a compaction ends before it, and the new
// file has it. The middle is where an index cannot be rebuilt, which is logged.
func TestUpdateDuringCompact(t *testing.T) {
	var d *db.DB
	var wrote atomic.Int64
	row := func(i int, label ...string) db.Row {
		return db.Row{Key: fmt.Appendf(nil, "k%d", i), Vector: []float32{float32(i), 1}, Labels: label}
	}
	log := slog.New(&writeOnWarning{slog.DiscardHandler, func() {
		if err := dbtest.Put(d, "c", row(1000+int(wrote.Add(1)))); err != nil {
			t.Error(err)
		}
	}})
	d = dbtest.OpenTemp(t, &db.Options{NoSync: true, Logger: log})
	var labelled, plain []db.Row
	for i := range 30 {
		labelled, plain = append(labelled, row(i, fmt.Sprint(i/15))), append(plain, row(i, "0"))
	}
	dbtest.Must(t, errors.Join(dbtest.Create(t.Context(), d, "c", db.Schema{Dim: 2}), dbtest.Put(d, "c", labelled...)))
	dbtest.Builds(t, d, "c", "tree", &index.Trees{Kind: "sbt"})
	dbtest.Must(t, dbtest.Put(d, "c", plain...)) // one class is left: no tree can be learned from it
	dbtest.Must(t, d.Compact(t.Context(), nil))
	n, err := d.Collection("c").Count(t.Context(), nil)
	if wrote.Load() == 0 || n != 30+int(wrote.Load()) || err != nil {
		t.Errorf("%d rows, %d of them written in the middle of the compaction, %v", n, wrote.Load(), err)
	}
	dbtest.Must(t, dbtest.Check(d))
}
