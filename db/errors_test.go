package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// content is everything a snapshot can tell, and the number of its state.
func content(t testing.TB, s *db.Snapshot) string {
	t.Helper()
	var out strings.Builder
	fmt.Fprintln(&out, s.Generation())
	for _, c := range s.Collections() {
		fmt.Fprintf(&out, "%+v\n", c)
		for r, err := range s.Collection(c.Name).Rows(context.Background(), nil) {
			dbtest.Must(t, err)
			fmt.Fprintf(&out, "%+v\n", r)
		}
		labels, err := s.Collection(c.Name).Labels()
		dbtest.Must(t, err)
		infos, err := s.Collection(c.Name).Indexes()
		dbtest.Must(t, err)
		text, err := json.Marshal(infos) // printing would show the address of options
		dbtest.Must(t, err)
		fmt.Fprintf(&out, "%v %s\n", labels, text)
	}
	return out.String()
}

func (b *bed) content() (out string) {
	b.T.Helper()
	b.Must(b.D.View(func(s *db.Snapshot) error { out = content(b.T, s); return nil }))
	return out
}

// misuse is a call that must fail.
type misuse struct {
	name string
	call func() error
	want error
	says []string // what the message must name
}

// misuses runs calls that must fail in the documented way and leave no trace.
func (b *bed) misuses(cases []misuse) {
	b.T.Helper()
	before := b.content()
	for _, c := range cases {
		err := c.call()
		if !errors.Is(err, c.want) {
			b.T.Errorf("%s: %v, want %v", c.name, err, c.want)
			continue
		}
		// Joined errors have a line each.
		if strings.Count(err.Error(), "db:") > 1+strings.Count(err.Error(), "\ndb:") {
			b.T.Errorf("%s: the message names the package twice: %v", c.name, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				b.T.Errorf("%s: the message does not name %s: %v", c.name, s, err)
			}
		}
		if b.content() != before {
			b.T.Errorf("%s: the database has changed", c.name)
			before = b.content()
		}
	}
}

// TestMisuseOfWrites covers everything that changes the database.
func TestMisuseOfWrites(t *testing.T) {
	const dim = 4
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 30, dim))
	ctx := t.Context()
	b.Must(dbtest.Create(ctx, b.D, "empty", db.Schema{Dim: 2}))
	good := []float32{1, 2, 3, 4}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	// Every failing batch has good changes around the bad one.
	batch := func(rows ...db.Row) func() error {
		return func() error {
			return b.D.Update(ctx, func(w *db.Tx) error {
				if err := w.Collection("c").Put(db.Row{Key: []byte("before"), Vector: good}); err != nil {
					return err
				}
				if err := w.Collection("c").Delete([]byte("a3")); err != nil {
					return err
				}
				for _, r := range rows {
					if err := w.Collection("c").Put(r); err != nil {
						return err
					}
				}
				return w.Collection("c").Put(db.Row{Key: []byte("after"), Vector: good})
			})
		}
	}
	row := func(key string, x ...float32) db.Row { return db.Row{Key: []byte(key), Vector: x} }
	long := strings.Repeat("x", rows.MaxKey+1)
	labels := make([]string, rows.MaxLabels+1)
	for i := range labels {
		labels[i] = fmt.Sprint(i)
	}
	labelled := func(l ...string) db.Row { r := row("k", good...); r.Labels = l; return r }
	paid := row("k", good...)
	paid.Payload = make([]byte, rows.MaxPayload+1)
	mine := errors.New("mine")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	late, cancelLate := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancelLate()
	creating := func(name string, o db.Schema) func() error {
		return func() error { return dbtest.Create(ctx, b.D, name, o) }
	}
	update := func(ctx context.Context, f func(w *db.Tx) error) func() error {
		return func() error { return b.D.Update(ctx, f) }
	}
	put := func(w *db.Tx) error { return w.Collection("c").Put(row("k", good...)) }
	b.misuses([]misuse{
		{"short vector", batch(row("k", 1, 2, 3)), db.ErrInvalid, []string{`"c"`, `"k"`, "3", "4"}},
		{"long vector", batch(row("k", 1, 2, 3, 4, 5)), db.ErrInvalid, []string{`"c"`, `"k"`, "5"}},
		{"no vector", batch(row("k")), db.ErrInvalid, []string{`"k"`, "0"}},
		{"NaN", batch(row("k", 1, 2, nan, 4)), db.ErrInvalid, []string{`"c"`, `"k"`, "coordinate 2", "NaN"}},
		{"infinity", batch(row("k", 1, 2, 3, inf)), db.ErrInvalid, []string{`"k"`, "coordinate 3", "Inf"}},
		{"minus infinity", batch(row("k", -inf, 2, 3, 4)), db.ErrInvalid, []string{`"k"`, "coordinate 0"}},
		{"length beyond float32", batch(row("k", 2e19, 0, 0, 0)), db.ErrInvalid, []string{`"k"`, "2e+19", "1.84e+19"}},
		{"length below float32", batch(row("k", 1e-20, 0, 0, 0)), db.ErrInvalid, []string{`"k"`, "1e-20", "2.17e-19"}},
		{"key put and inserted", update(ctx, func(w *db.Tx) error {
			return errors.Join(put(w), w.Collection("c").Insert(row("k", good...)))
		}), db.ErrExists, []string{`"c"`, `"k"`}},
		{"key inserted twice", update(ctx, func(w *db.Tx) error {
			return errors.Join(w.Collection("c").Insert(row("k", good...)), w.Collection("c").Insert(row("k", good...)))
		}), db.ErrExists, []string{`"c"`, `"k"`}},
		{"get without key", update(ctx, func(w *db.Tx) error { _, err := w.Collection("c").Get(nil); return err }), db.ErrInvalid, []string{`"c"`}},
		{"has in no collection", update(ctx, func(w *db.Tx) error { _, err := w.Collection("nowhere").Has([]byte("k")); return err }), db.ErrNotFound, []string{`"nowhere"`}},
		{"no key", batch(row("", good...)), db.ErrInvalid, []string{`"c"`, "0 bytes"}},
		{"long key", batch(row(long, good...)), db.ErrInvalid, []string{"513 bytes", "512"}},
		{"empty label", batch(labelled("good", "")), db.ErrInvalid, []string{`"c"`, `"k"`}},
		{"long label", batch(labelled(long)), db.ErrInvalid, []string{`"k"`, "513"}},
		{"many labels", batch(labelled(labels...)), db.ErrInvalid, []string{`"k"`, "1025"}},
		{"large payload", batch(paid), db.ErrInvalid, []string{`"k"`, "1048577"}},
		{"put into no collection", update(ctx, func(w *db.Tx) error { return w.Collection("nowhere").Put(row("k", good...)) }), db.ErrNotFound, []string{`"nowhere"`}},
		{"delete from no collection", update(ctx, func(w *db.Tx) error { return w.Collection("nowhere").Delete([]byte("k")) }), db.ErrNotFound, []string{`"nowhere"`}},
		{"delete without key", update(ctx, func(w *db.Tx) error { return w.Collection("c").Delete(nil) }), db.ErrInvalid, []string{`"c"`}},
		{"a failed put that is ignored", update(ctx, func(w *db.Tx) error {
			_ = w.Collection("c").Put(row("bad", nan, 0, 0, 0)) // the batch must not forget it
			return put(w)
		}), db.ErrInvalid, []string{`"bad"`}},
		{"the caller's own error", update(ctx, func(w *db.Tx) error { return errors.Join(put(w), mine) }), mine, nil},
		{"cancelled update", update(cancelled, put), context.Canceled, nil},
		{"update past its deadline", update(late, put), context.DeadlineExceeded, nil},
		{"transaction used afterwards", func() error {
			var kept *db.Tx
			b.Must(b.D.Update(ctx, func(w *db.Tx) error { kept = w; return nil }))
			return errors.Join(put(kept), kept.Collection("c").Delete([]byte("a1")))
		}, db.ErrClosed, []string{"transaction"}},

		{"collection twice", creating("c", db.Schema{Dim: 9}), db.ErrExists, []string{`"c"`}},
		{"no name", creating("", db.Schema{Dim: 2}), db.ErrInvalid, nil},
		{"long name", creating(strings.Repeat("n", layout.MaxName+1), db.Schema{Dim: 2}), db.ErrInvalid, []string{"255"}},
		{"name with an escape", creating("a\x1b[31m", db.Schema{Dim: 2}), db.ErrInvalid, []string{"control"}},
		{"name of two lines", creating("a\u2028b", db.Schema{Dim: 2}), db.ErrInvalid, []string{"control"}},
		{"name that is no text", creating("a\xff", db.Schema{Dim: 2}), db.ErrInvalid, nil},
		{"no dimension", creating("d", db.Schema{}), db.ErrInvalid, []string{"dimension 0"}},
		{"negative dimension", creating("d", db.Schema{Dim: -3}), db.ErrInvalid, []string{"-3"}},
		{"dimension too large", creating("d", db.Schema{Dim: kind.MaxDim + 1}), db.ErrInvalid, []string{"65537"}},
		{"unknown metric", creating("d", db.Schema{Dim: 2, Metric: 99}), db.ErrInvalid, []string{"99"}},
		{"negative dimension", creating("d", db.Schema{Sparse: true, Dim: -3}), db.ErrInvalid, []string{"-3"}},
		{"texts with numbered features", creating("d", db.Schema{Sparse: true, Text: &text.Schema{}}),
			db.ErrInvalid, []string{"numbered"}},
		{"no such analyzer", creating("d", db.Schema{Text: &text.Schema{Analyzer: "klingon"}}),
			db.ErrInvalid, []string{`"klingon"`, "english"}},
		{"impossible k1", creating("d", db.Schema{Text: &text.Schema{K1: -1}}),
			db.ErrInvalid, []string{"-1"}},
		{"sparse as float32", creating("d", db.Schema{Sparse: true, Float32: true}), db.ErrInvalid, []string{"Float32"}},
		{"sparse by L2", creating("d", db.Schema{Named: true, Metric: vector.L2}), db.ErrInvalid, []string{"l2"}},
		{"cancelled create", func() error { return dbtest.Create(cancelled, b.D, "d", db.Schema{Dim: 2}) }, context.Canceled, nil},
		{"drop of no collection", func() error { return b.D.Drop(ctx, "nowhere") }, db.ErrNotFound, []string{`"nowhere"`}},
		{"cancelled drop", func() error { return b.D.Drop(cancelled, "c") }, context.Canceled, nil},
		{"drop of no index", func() error { return b.D.Collection("c").DropIndex(ctx, "x") }, db.ErrNotFound, []string{`"c"`, `"x"`}},
		{"drop of an index of no collection", func() error { return b.D.Collection("nowhere").DropIndex(ctx, "x") }, db.ErrNotFound, []string{`"nowhere"`}},
	})
	// An error must not stop what comes later.
	b.Put("z", [][]float32{good})
	b.Check()
}

// TestMisuseOfBuilds covers the options of a build.
func TestMisuseOfBuilds(t *testing.T) {
	const dim = 4
	b := newBed(t, vector.L2, dim)
	ctx := t.Context()
	b.Put("a", dbtest.Mixture(1, 60, dim))
	b.Must(dbtest.Create(ctx, b.D, "empty", db.Schema{Dim: 2}))
	b.Must(dbtest.Create(ctx, b.D, "s", db.Schema{Sparse: true}))
	b.Build("x", &index.Forest{NoTune: true})
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	in := func(coll, name string, o index.Options) func() error {
		return func() error { _, err := b.D.Collection(coll).Build(ctx, name, o, nil); return err }
	}
	with := func(o index.Options) func() error { return in("c", "x", o) }
	nan := dbtest.Mixture(2, 12, dim)
	nan[7][2] = float32(math.NaN())
	short := dbtest.Mixture(2, 12, dim)
	short[3] = short[3][:3]
	long := dbtest.Mixture(2, 12, dim)
	long[5][0] = 3e38
	b.misuses([]misuse{
		{"no collection", in("nowhere", "x", nil), db.ErrNotFound, []string{`"nowhere"`}},
		{"empty collection", in("empty", "x", nil), db.ErrUnsuitable, []string{`"empty"`}},
		{"no name", in("c", "", nil), db.ErrInvalid, nil},
		{"the exact scan's name", in("c", db.Flat, nil), db.ErrInvalid, []string{"flat"}},
		{"name with a return", in("c", "main\rx", nil), db.ErrInvalid, []string{"control"}},
		{"long name", in("c", strings.Repeat("n", 256), nil), db.ErrInvalid, nil},
		{"options", with(&index.Forest{Trees: -1}), db.ErrInvalid, []string{"Trees -1"}}, // db/index tests them all
		{"options that do not suit the rows", with(&index.Forest{Coordinates: 7}), db.ErrInvalid,
			[]string{"7", "4", `"c"`}},
		{"forest of sparse rows", in("s", "x", &index.Forest{}), db.ErrInvalid, []string{`"s"`}},
		{"inverted index of dense rows", with(&index.Postings{}), db.ErrInvalid, []string{`"c"`}},
		{"few training queries", with(&index.Forest{TrainingQueries: dbtest.Mixture(2, 9, dim)}), db.ErrInvalid, []string{"9"}},
		{"dimension of a training query", with(&index.Forest{TrainingQueries: short}), db.ErrInvalid, []string{"query 3", "3", "4"}},
		{"NaN in a training query", with(&index.Forest{TrainingQueries: nan}), db.ErrInvalid, []string{"query 7", "coordinate 2"}},
		{"length of a training query", with(&index.Forest{TrainingQueries: long}), db.ErrInvalid, []string{"query 5"}},
		{"cancelled", func() error { _, err := b.D.Collection("c").Build(cancelled, "x", nil, nil); return err }, context.Canceled, nil},
	})
	// Bad options are refused before any work, and leave no marks.
	b.Check()
	b.Must(dbtest.LeavesNothing(b.D))
}

// TestMisuseOfReads covers reads and searches.
func TestMisuseOfReads(t *testing.T) {
	const dim = 4
	b := newBed(t, vector.L2, dim)
	ctx := t.Context()
	b.Put("a", dbtest.Mixture(1, 60, dim))
	b.Drop("a9")
	b.Must(dbtest.Create(ctx, b.D, "empty", db.Schema{Dim: 2}))
	b.Build("x", &index.Forest{NoTune: true})
	s, err := b.D.Snapshot()
	b.Must(err)
	released, err := b.D.Snapshot()
	b.Must(err)
	released.Release()
	released.Release() // twice is once
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	q := []float32{1, 2, 3, 4}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	ask := func(coll string, q []float32, k int, o *db.SearchOptions) func() error {
		return func() error {
			hits, _, err := dbtest.Nearest(ctx, s.Collection(coll), db.Query{Vector: q}, k, o)
			if hits != nil {
				t.Errorf("the failed search returned %v", hits)
			}
			return err
		}
	}
	flat := &db.SearchOptions{Index: db.Flat}
	p := func(p query.Params) *db.SearchOptions { return &db.SearchOptions{Params: &p} }
	on := func(s *db.Snapshot, f func(s *db.Snapshot) error) func() error {
		return func() error { return f(s) }
	}
	cases := []misuse{
		{"no collection", ask("nowhere", q, 1, nil), db.ErrNotFound, []string{`"nowhere"`}},
		{"no index", ask("c", q, 1, &db.SearchOptions{Index: "y"}), db.ErrNotFound, []string{`"y"`, `"c"`, `"x"`}},
		{"dimension", ask("c", q[:3], 1, flat), db.ErrInvalid, []string{`"c"`, "3", "4"}},
		{"no query", ask("c", nil, 1, flat), db.ErrInvalid, []string{"0", "4"}},
		{"NaN", ask("c", []float32{1, nan, 3, 4}, 1, flat), db.ErrInvalid, []string{`"c"`, "coordinate 1"}},
		{"infinity", ask("c", []float32{1, 2, 3, inf}, 1, flat), db.ErrInvalid, []string{`"c"`, "coordinate 3"}},
		{"length", ask("c", []float32{1, 2, 3, 3e38}, 1, flat), db.ErrInvalid, []string{`"c"`}},
		{"k is negative", ask("c", q, -2, flat), db.ErrInvalid, []string{"-2"}},
		{"k is negative in an empty collection", ask("empty", q[:2], -1, nil), db.ErrInvalid, []string{`"empty"`}},
		{"radius is NaN", ask("c", q, 1, &db.SearchOptions{Index: db.Flat, Radius: new(math.NaN())}), db.ErrInvalid, []string{"NaN"}},
		{"radius is negative", ask("c", q, 1, &db.SearchOptions{Index: db.Flat, Radius: new(-1.0)}), db.ErrInvalid, []string{"-1"}},
		{"recall above 1", ask("c", q, 1, &db.SearchOptions{Recall: 1.1}), db.ErrInvalid, []string{"1.1"}},
		{"recall is negative", ask("c", q, 1, &db.SearchOptions{Recall: -0.1}), db.ErrInvalid, []string{"-0.1"}},
		{"recall is NaN", ask("c", q, 1, &db.SearchOptions{Recall: math.NaN()}), db.ErrInvalid, []string{"NaN"}},
		{"untuned", ask("c", q, 1, nil), db.ErrInvalid, []string{`"x"`, `"c"`, "parameters"}},
		{"no members", ask("c", q, 1, p(query.Params{Method: query.Lookup})), db.ErrInvalid, []string{`"c"`, "lookup"}},
		{"unknown method", ask("c", q, 1, p(query.Params{Method: 77})), db.ErrInvalid, []string{"77"}},
		{"tau", ask("c", q, 1, p(query.Params{Tau: 1.2})), db.ErrInvalid, []string{"1.2"}},
		{"negative beam", ask("c", q, 1, p(query.Params{Beam: -1})), db.ErrInvalid, []string{`"c"`}},
		{"cancelled search", func() error {
			_, _, err := dbtest.Nearest(cancelled, s.Collection("c"), db.Query{Vector: q}, 1, flat)
			return err
		}, context.Canceled, nil},
		{"batch of no collection", func() error {
			_, err := dbtest.NearestBatch(ctx, s.Collection("nowhere"), [][]float32{q}, 1, nil, 0)
			return err
		}, db.ErrNotFound, []string{`"nowhere"`}},

		{"get from no collection", on(s, func(s *db.Snapshot) error { _, err := s.Collection("nowhere").Get([]byte("k")); return err }), db.ErrNotFound, []string{`"nowhere"`}},
		{"get what is not there", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").Get([]byte("zz")); return err }), db.ErrNotFound, []string{`"zz"`, `"c"`}},
		{"get what was deleted", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").Get([]byte("a9")); return err }), db.ErrNotFound, []string{`"a9"`}},
		{"get without key", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").Get(nil); return err }), db.ErrInvalid, nil},
		{"get a long key", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").Get(make([]byte, 513)); return err }), db.ErrInvalid, []string{"513"}},
		{"row beyond the end", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").GetRow(60); return err }), db.ErrNotFound, []string{"60", `"c"`}},
		{"deleted row", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").GetRow(9); return err }), db.ErrNotFound, []string{"9", `"c"`}},
		{"row of no collection", on(s, func(s *db.Snapshot) error { _, err := s.Collection("nowhere").GetRow(0); return err }), db.ErrNotFound, nil},
		{"index of no collection", on(s, func(s *db.Snapshot) error { _, err := s.Collection("nowhere").Index("x"); return err }), db.ErrNotFound, nil},
		{"description of no index", on(s, func(s *db.Snapshot) error { _, err := s.Collection("c").Index("y"); return err }), db.ErrNotFound, []string{`"y"`, `"c"`}},
		{"cancelled check", func() error { return b.D.Check(cancelled, nil, nil) }, context.Canceled, nil},
	}
	b.misuses(cases)
	s.Release()
}

// TestReleaseWhileIterating ends iterations with an error, not with the end.
func TestReleaseWhileIterating(t *testing.T) {
	b := newBed(t, vector.L2, 3)
	b.Put("a", dbtest.Mixture(1, 2000, 3))
	s, err := b.D.Snapshot()
	b.Must(err)
	rows, keys := 0, 0
	for _, err = range s.Collection("c").Rows(t.Context(), nil) {
		rows++
		s.Release()
	}
	if !errors.Is(err, db.ErrClosed) || rows >= 2000 {
		t.Errorf("%d rows, %v", rows, err)
	}
	s, err = b.D.Snapshot()
	b.Must(err)
	for _, err = range s.Collection("c").Keys(nil, nil) {
		keys++
		s.Release()
	}
	if !errors.Is(err, db.ErrClosed) || keys >= 2000 {
		t.Errorf("%d keys, %v", keys, err)
	}
}

// TestMisuseOfOpen covers the options, and files that are no databases.
func TestMisuseOfOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new.anndb")
	text := filepath.Join(dir, "text")
	empty := filepath.Join(dir, "empty")
	for name, data := range map[string]string{text: strings.Repeat("not a database\n", 5000), empty: ""} {
		dbtest.Must(t, os.WriteFile(name, []byte(data), 0o600))
	}
	for _, c := range []struct {
		name string
		path string
		o    db.Options
		want error
	}{
		{"negative reservation", path, db.Options{MapReserve: -1}, db.ErrInvalid},
		{"huge reservation", path, db.Options{MapReserve: 1 << 50}, db.ErrInvalid},
		{"negative size", path, db.Options{MaxSize: -1}, db.ErrInvalid},
		{"negative timeout", path, db.Options{Timeout: -1}, db.ErrInvalid},
		{"negative close timeout", path, db.Options{CloseTimeout: -1}, db.ErrInvalid},
		{"must exist", path, db.Options{MustExist: true}, fs.ErrNotExist},
		{"read-only must exist", path, db.Options{ReadOnly: true}, fs.ErrNotExist},
		{"no directory", filepath.Join(dir, "none", "x"), db.Options{}, fs.ErrNotExist},
		{"a directory", dir, db.Options{}, db.ErrNotDatabase},
		{"a text", text, db.Options{}, db.ErrNotDatabase},
		{"a text, read-only", text, db.Options{ReadOnly: true}, db.ErrNotDatabase},
	} {
		d, err := dbtest.Open(t.Context(), c.path, &c.o)
		if !errors.Is(err, c.want) || d != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if d, err := dbtest.Open(t.Context(), empty, &db.Options{ReadOnly: true}); err == nil {
		d.Close()
		t.Error("an empty file was opened for reading")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("files left behind: %v, %v", entries, err)
	}
	if data, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(data), "not a database\n") || len(data) != 75000 {
		t.Error("a file of another program was changed")
	}
}
