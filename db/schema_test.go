package db_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// fullRow returns a row with everything but what is to be added later.
func fullRow(rng *rand.Rand, i int) db.Row {
	r := *halfRow(rng, i)
	r.Attributes = map[string]any{"n": int64(i)}
	r.Payload = fmt.Append(nil, "payload ", i)
	if i%4 == 0 {
		r.ExpiresAt = time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	}
	return r
}

// rowsOf returns the rows of a collection as texts, sorted.
func rowsOf(t *testing.T, d *db.DB, coll string) (out []string) {
	t.Helper()
	dbtest.Must(t, d.View(func(s *db.Snapshot) (err error) {
		out, err = dbtest.RowTexts(s, coll)
		return err
	}))
	slices.Sort(out)
	return out
}

// TestLaterParts: a collection that gets its text or vector later holds and finds what one does that was
// created with both.
func TestLaterParts(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	both := db.Schema{Dim: 8, Metric: vector.Cosine, Text: &text.Schema{}}
	features := db.Schema{Dim: 8, Metric: vector.L2, Named: true}
	numbers := db.Schema{Dim: 8, Sparse: true}
	for name, c := range map[string]struct{ before, after db.Schema }{
		"text":    {db.Schema{Dim: 8, Metric: vector.Cosine}, both},
		"vector":  {db.Schema{Text: &text.Schema{}}, both},
		"vectors": {db.Schema{Named: true}, features},
		"numbers": {db.Schema{Sparse: true}, numbers},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.anndb")
			d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
			rng := rand.New(rand.NewPCG(5, 6))
			full := make([]db.Row, 1300) // more than a chunk of features
			for i := range full {
				r := fullRow(rng, i)
				if name == "numbers" {
					r.Sparse = dbtest.RandomSparse(rng, 5, 30)
				}
				if c.after.Named {
					for w, n := range countsOf(strings.Fields(r.Text)) {
						r.Features = append(r.Features, vector.Feature{Name: w, Value: float32(n)})
					}
				}
				if c.after.Text == nil {
					r.Text = ""
				}
				if c.before.Dim > 0 && r.Vector == nil {
					r.Vector = dbtest.Vector(uint64(i), 8)
				}
				full[i] = r
			}
			part := func(r db.Row) db.Row {
				if c.before.Dim == 0 {
					r.Vector = nil
				} else {
					r.Text, r.Sparse, r.Features = "", vector.Sparse{}, nil
				}
				return r
			}
			dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", c.before))
			dbtest.Must(t, dbtest.Create(t.Context(), d, "other", c.before))
			put(t, d, len(full), func(i int) db.Row { return part(full[i]) })
			dbtest.Must(t, dbtest.Put(d, "other", part(full[0])))
			dbtest.Must(t, dbtest.Delete(d, "docs", "r3", "r900"))
			full = slices.DeleteFunc(full, func(r db.Row) bool {
				return string(r.Key) == "r3" || string(r.Key) == "r900"
			})
			if c.before.Dim > 0 {
				dbtest.Builds(t, d, "docs", "near", &index.Forest{Trees: 2})
			} else {
				dbtest.Builds(t, d, "docs", "words", nil)
				dbtest.Builds(t, d, "docs", "labels", &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}})
			}
			before := rowsOf(t, d, "docs")
			old, err := d.Snapshot()
			dbtest.Must(t, err)
			defer old.Release()

			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := d.Collection("docs").SetSchema(ended, c.after, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			// Another goroutine writes concurrently.
			written := make(chan error)
			stop := make(chan struct{})
			go func() {
				var err error
				for i := 0; err == nil; i++ {
					select {
					case <-stop:
						written <- nil
						return
					default:
					}
					err = dbtest.Put(d, "docs", part(full[i%50]))
				}
				written <- err
			}()
			err = d.Collection("docs").SetSchema(t.Context(), c.after, nil)
			close(stop)
			dbtest.Must(t, errors.Join(err, <-written))
			if after := rowsOf(t, d, "docs"); !slices.Equal(before, after) {
				t.Errorf("%d rows before, %d after the change, or others", len(before), len(after))
			}
			dbtest.Must(t, dbtest.Check(d))
			info, err := d.Collection("docs").Info()
			dbtest.Must(t, err)
			if info.Dim != 8 || !info.Sparse || (info.Text == nil) != (c.after.Text == nil) ||
				len(info.Indexes) == 0 {
				t.Errorf("info %+v", info)
			}
			if n, err := old.Collection("docs").Count(t.Context(), nil); err != nil || n != len(full) {
				t.Errorf("the former state has %d rows, %v", n, err)
			}

			// The rest is given to each row, by the calls that suit.
			for lo := 0; lo < len(full); lo += 100 {
				dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
					for _, r := range full[lo:min(lo+100, len(full))] {
						docs := tx.Collection("docs")
						var err error
						switch {
						case c.before.Dim == 0:
							err = docs.SetVector(r.Key, r.Vector)
						case c.after.Text != nil:
							err = docs.SetText(r.Key, r.Text)
						default:
							err = docs.Put(r)
						}
						if err != nil {
							return err
						}
					}
					return docsMissing(tx)
				}))
			}
			dbtest.Must(t, dbtest.Create(t.Context(), d, "fresh", c.after))
			dbtest.Must(t, dbtest.Put(d, "fresh", full...))
			same := func(d *db.DB, when string) {
				t.Helper()
				if a, b := rowsOf(t, d, "docs"), rowsOf(t, d, "fresh"); !slices.Equal(a, b) {
					t.Errorf("%s: rows differ from those of a new collection", when)
				}
				for i := range 8 {
					r := full[i*17]
					for _, q := range []db.Query{
						{Vector: r.Vector}, {Text: r.Text}, {Features: r.Features}, {Sparse: r.Sparse},
						{Vector: r.Vector, Text: r.Text, Features: r.Features, Sparse: r.Sparse},
					} {
						if q.Vector == nil && q.Text == "" && q.Features == nil && q.Sparse.Len() == 0 {
							continue
						}
						var found [2][]string
						for at, coll := range []string{"docs", "fresh"} {
							res, err := d.Collection(coll).Search(t.Context(), q,
								&db.SearchOptions{K: 7, Index: db.Flat})
							dbtest.Must(t, err)
							for _, h := range res.Hits {
								found[at] = append(found[at], fmt.Sprintf("%s %.5f", h.Key, h.Distance))
							}
							slices.Sort(found[at])
						}
						if !slices.Equal(found[0], found[1]) {
							t.Fatalf("%s, query %d: %v, want %v", when, i, found[0], found[1])
						}
					}
				}
				dbtest.Must(t, dbtest.Check(d))
			}
			same(d, "written")
			_, err = d.Maintain(t.Context(), 0, nil)
			dbtest.Must(t, err)
			same(d, "maintained")
			dbtest.Must(t, d.Compact(t.Context(), nil))
			same(d, "compacted")
			dbtest.Builds(t, d, "docs", "second", index.Options(&index.LCIF{
				Neighbors: "both", Params: &lcif.Params{K: 5, Lambda: 0.5},
			}))
			old.Release()
			dbtest.Must(t, d.Close())
			d = dbtest.OpenAt(t, path, &db.Options{NoSync: true})
			same(d, "opened again")
			dbtest.Must(t, d.Close())
			to := filepath.Join(t.TempDir(), "salvaged.anndb")
			report, err := rescue.Salvage(t.Context(), path, to, nil)
			if err != nil || report.Lost > 0 || len(report.NotBuilt) > 0 {
				t.Fatalf("salvage: %+v, %v", report, err)
			}
			same(dbtest.OpenAt(t, to, &db.Options{NoSync: true}), "salvaged")
		})
	}
}

// docsMissing: a key that no row has is an error that does not fail the transaction.
func docsMissing(tx *db.Tx) error {
	err := errors.Join(tx.Collection("docs").SetText([]byte("none"), "x"),
		tx.Collection("docs").SetVector([]byte("none"), nil))
	if !errors.Is(err, db.ErrNotFound) {
		return fmt.Errorf("a row that is not there: %w", err)
	}
	return nil
}

// TestSetSchema: what a schema can become, and what it cannot.
func TestSetSchema(t *testing.T) {
	t.Parallel()
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	made := db.Schema{Dim: 2, Metric: vector.Cosine, Meta: map[string]string{"model": "small-1"}}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", made))
	c := d.Collection("c")
	dbtest.Must(t, dbtest.Put(d, "c",
		db.Row{Key: []byte("a"), Vector: []float32{1, 0}, Labels: []string{"x"}},
		db.Row{Key: []byte("b"), Vector: []float32{0, 1}}))
	set := func(edit func(s *db.Schema)) error {
		t.Helper()
		info, err := c.Info()
		dbtest.Must(t, err)
		edit(&info.Schema)
		return c.SetSchema(t.Context(), info.Schema, nil)
	}
	refused := func(err error, kind error, want string) {
		t.Helper()
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	_, err := c.Search(t.Context(), db.Query{Vector: []float32{1, 2, 3}}, nil)
	refused(err, db.ErrInvalid, `3 coordinates, want 2, the vectors of model "small-1"`)
	refused(dbtest.Put(d, "c", db.Row{Key: []byte("z"), Vector: []float32{1}}), db.ErrInvalid,
		`model "small-1"`)
	refused(dbtest.Create(t.Context(), d, "y", db.Schema{Dim: 1, Meta: map[string]string{"": "x"}}),
		db.ErrInvalid, "name")
	refused(dbtest.Create(t.Context(), d, "y", db.Schema{Dim: 1, Meta: map[string]string{"a": "\n"}}),
		db.ErrInvalid, "control")
	refused(set(func(s *db.Schema) { s.Dim = 3 }), db.ErrInvalid, "stays as it is")
	refused(set(func(s *db.Schema) { s.Metric = vector.L2 }), db.ErrInvalid, "stays as it is")
	refused(set(func(s *db.Schema) { s.Dim, s.Named = 0, true }), db.ErrInvalid, "stays as it is")
	refused(set(func(s *db.Schema) { s.Meta = map[string]string{"a": strings.Repeat("x", 2000)} }),
		db.ErrInvalid, "1024 bytes")
	refused(set(func(s *db.Schema) { s.Text = &text.Schema{Analyzer: "none"} }), db.ErrInvalid,
		"no analyzer")
	refused(d.Collection("none").SetSchema(t.Context(), made, nil), db.ErrNotFound, "none")
	dbtest.Builds(t, d, "c", "m", &index.LCIF{Params: &lcif.Params{K: 1, Lambda: 1}})
	refused(set(func(s *db.Schema) { s.Text = &text.Schema{} }), db.ErrInvalid, "drop it first")
	dbtest.Must(t, c.DropIndex(t.Context(), "m"))
	dbtest.Must(t, set(func(s *db.Schema) {
		s.Text, s.Meta = &text.Schema{Analyzer: "english"}, map[string]string{"lang": "en"}
	}))
	refused(set(func(s *db.Schema) { s.Text.Analyzer = "words" }), db.ErrInvalid, "stays as it is")
	dbtest.Must(t, set(func(s *db.Schema) { s.Weight = 0.6; s.Meta["model"] = "small-2" }))
	info, err := c.Info()
	dbtest.Must(t, err)
	if info.Text == nil || info.Weight != 0.6 ||
		!maps.Equal(info.Meta, map[string]string{"lang": "en", "model": "small-2"}) {
		t.Errorf("info %+v", info)
	}
	dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		docs := tx.Collection("c")
		err := errors.Join(docs.SetText([]byte("a"), "running"), docs.SetLabels([]byte("a"), "y"),
			docs.SetText([]byte("b"), "walked"), docs.SetVector([]byte("b"), nil))
		if r, e := docs.Get([]byte("a")); e != nil || r.Text != "running" ||
			!slices.Equal(r.Labels, []string{"y"}) || r.Vector == nil {
			err = errors.Join(err, fmt.Errorf("row %+v, %w", r, e))
		}
		return err
	}))
	for query, want := range map[string]string{"run": "a", "walking": "b"} {
		res, err := c.Search(t.Context(), db.Query{Text: query}, nil)
		if err != nil || len(res.Hits) != 1 || string(res.Hits[0].Key) != want {
			t.Errorf("%s: %+v, %v", query, res.Hits, err)
		}
	}
	if r, err := c.Get([]byte("b")); err != nil || r.Vector != nil || r.Text != "walked" {
		t.Errorf("row %+v, %v", r, err)
	}
	refused(d.Update(t.Context(), func(tx *db.Tx) error {
		return tx.Collection("c").SetText([]byte("a"), "a\x00b")
	}), db.ErrInvalid, "NUL")
	refused(d.Update(t.Context(), func(tx *db.Tx) error {
		return tx.Collection("c").SetVector([]byte("a"), make([]float32, 3))
	}), db.ErrInvalid, `model "small-2"`)
	dbtest.Must(t, d.Compact(t.Context(), nil))
	dbtest.Must(t, dbtest.Check(d))
	dbtest.Must(t, d.View(func(s *db.Snapshot) error {
		refused(s.Collection("c").SetSchema(t.Context(), info.Schema, nil), db.ErrReadOnly, "snapshot")
		return nil
	}))
}
