package db_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// labelKinds are options of one index of each kind that learns from labels, by collection.
var labelKinds = map[string]map[string]index.Options{
	"s": {
		"lcif":      &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}},
		"tfidf":     &index.LCIF{Weight: "tfidf", Params: &lcif.Params{K: 5, Lambda: 0.5}},
		"pt":        &index.Trees{Kind: "pt", Budget: 4},
		"at":        &index.Trees{Kind: "at", Budget: 4},
		"labeltree": &index.LabelTree{},
	},
	"d": {"sbt": &index.Trees{Kind: "sbt", Budget: 4}},
}

// behind returns Relabelled of all indexes by name.
func behind(t *testing.T, d *db.DB) map[string]int {
	t.Helper()
	st, err := d.Stats()
	dbtest.Must(t, err)
	out := map[string]int{}
	for _, i := range st.Indexes {
		if i.Error != "" {
			t.Errorf("index %s: %s", i.Name, i.Error)
		}
		out[i.Name] = i.Relabelled
	}
	return out
}

// TestRelabelledModels: label models are behind by the rows whose labels have changed, and only by
// these; maintenance makes the counts of LCIF those of the present labels.
func TestRelabelledModels(t *testing.T) {
	ctx := t.Context()
	d, path := dbtest.Changed(t, 300, 4)
	all := map[string]int{}
	for coll, kinds := range labelKinds {
		for name, o := range kinds {
			dbtest.Builds(t, d, coll, name, o)
			all[name] = 0
		}
	}
	want := func(what string, n int) {
		t.Helper()
		for name := range all {
			all[name] = n
		}
		if got := behind(t, d); fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("%s: relabelled %v, want %d", what, got, n)
		}
	}
	maintain := func(share float64, steps bool) {
		t.Helper()
		done, err := d.Maintain(ctx, share, nil)
		if err != nil || (len(done) > 0) != steps {
			t.Fatalf("share %g: steps %+v, %v", share, done, err)
		}
	}
	dbtest.Must(t, d.Update(ctx, func(b *db.Tx) error {
		for i := range 50 {
			key := fmt.Append(nil, i)
			if err := errors.Join(b.Collection("d").SetPayload(key, []byte("q")), b.Collection("s").SetPayload(key, []byte("q"))); err != nil {
				return err
			}
		}
		return nil
	}))
	want("payloads only", 0)
	maintain(0, false)
	for i := 0; i < 40; i += 2 {
		dbtest.Relabel(t, d, i, fmt.Sprint("l", (i+1)%3))
	}
	dbtest.Relabel(t, d, 2, "l1")
	want("relabelled", 20)
	dbtest.Must(t, d.Update(ctx, func(b *db.Tx) error {
		return errors.Join(b.Collection("s").Delete([]byte("38")), b.Collection("d").Delete([]byte("38")))
	}))
	want("deleted", 19)
	maintain(0.1, false)
	dbtest.Must(t, errors.Join(dbtest.Check(d), d.Close()))
	var err error
	if d, err = db.Open(ctx, path, &db.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want("reopened", 19)
	dbtest.Must(t, d.Compact(ctx, nil))
	want("compacted", 19)
	maintain(0.05, true)
	for name, n := range behind(t, d) { // trees stay until a fifth has changed
		if tree := isTree(name); tree && n != 19 || !tree && n != 0 {
			t.Errorf("maintained: %d rows of %s are relabelled", n, name)
		}
	}
	maintain(0, false)
	dbtest.Must(t, dbtest.Check(d))
	dbtest.Relabel(t, d, 7, "l2")
	dbtest.Builds(t, d, "s", "at", labelKinds["s"]["at"])
	if got := behind(t, d); got["at"] != 0 || got["pt"] != 20 || got["lcif"] != 1 {
		t.Errorf("after a build: %v", got)
	}
	if err := dbtest.Check(d); err != nil {
		t.Error(err)
	}
}

// TestRelabelledMeanwhile relabels rows while an index is built, maintained or rebuilt: it is
// then behind by these rows, and maintenance makes up for it.
func TestRelabelledMeanwhile(t *testing.T) {
	t.Parallel()
	for coll, kinds := range labelKinds {
		for name, o := range kinds {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				d, _ := dbtest.Changed(t, 200, 4)
				next := 0
				once := func() func(p dbtest.Progress) {
					done := false
					return func(p dbtest.Progress) {
						if (p.Stage == "read" || p.Stage == "postings") && !done {
							done = true
							dbtest.Relabel(t, d, next, fmt.Sprint("l", (next+1)%3))
							next += 2
						}
					}
				}
				if _, err := d.Collection(coll).Build(ctx, name, o, dbtest.Reporting(once())); err != nil {
					t.Fatal(err)
				}
				if got := behind(t, d)[name]; next != 2 || got != 1 {
					t.Fatalf("after the build: %d rows relabelled, want 1 of %d", got, next/2)
				}
				dbtest.Must(t, d.Update(ctx, func(b *db.Tx) error { return dbtest.PutChanged(b, 200, 205, 4) }))
				// The step absorbs the row; another one is relabelled during it, and absorbed by the
				// next step. Nothing is left then. Trees stay.
				left := 0
				if isTree(name) {
					left = 1
				} else if steps, err := d.Maintain(ctx, 0, dbtest.Reporting(once())); err != nil || len(steps) != 2 || next != 4 {
					t.Fatalf("steps %+v, %v", steps, err)
				}
				if got := behind(t, d)[name]; got != left {
					t.Errorf("after maintenance: %d rows relabelled, want %d", got, left)
				}
				for i := 50; i < 120; i++ { // so many that trees are retrained, while another row is relabelled
					dbtest.Relabel(t, d, i, fmt.Sprint("l", (i+1)%3))
				}
				if _, err := d.Maintain(ctx, 0, dbtest.Reporting(once())); err != nil {
					t.Fatal(err)
				}
				if got := behind(t, d)[name]; got != left {
					t.Errorf("after more maintenance: %d rows relabelled, want %d", got, left)
				}
				if err := dbtest.Check(d); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestPredictRelabelled: a label model counts a relabelled row with its present labels as a
// neighbor at once, whether the model covers the row or not; a snapshot from before sees the
// labels of its time.
func TestPredictRelabelled(t *testing.T) {
	ctx := t.Context()
	d, _ := dbtest.Changed(t, 60, 4)
	dbtest.Builds(t, d, "s", "lcif", labelKinds["s"]["lcif"])
	dbtest.Must(t, d.Update(ctx, func(b *db.Tx) error { return dbtest.PutChanged(b, 60, 63, 4) }))
	one := &db.PredictOptions{Index: "lcif", Params: &lcif.Params{K: 1, Lambda: 1, Top: 1}}
	label := func(s *db.Snapshot, i int) string {
		r, err := s.Collection("s").Get(fmt.Append(nil, i))
		dbtest.Must(t, err)
		p, err := s.Collection("s").Predict(ctx, db.Query{Sparse: r.Sparse}, one)
		if err != nil || len(p.Labels) != 1 {
			t.Fatalf("%v, %v", p, err)
		}
		return p.Labels[0].Label
	}
	old, err := d.Snapshot()
	dbtest.Must(t, err)
	defer old.Release()
	dbtest.Relabel(t, d, 4, "quite new")
	dbtest.Relabel(t, d, 61, "newer")
	for range 2 {
		dbtest.Must(t, d.View(func(s *db.Snapshot) error {
			for i, want := range map[int]string{4: "quite new", 61: "newer", 5: "l2", 62: "l2"} {
				if got := label(s, i); got != want {
					t.Errorf("row %d: %q, want %q", i, got, want)
				}
			}
			return nil
		}))
		for i, want := range map[int]string{4: "l1", 61: "l1", 62: "l2"} {
			if got := label(old, i); got != want {
				t.Errorf("row %d before: %q, want %q", i, got, want)
			}
		}
		if steps, err := d.Maintain(ctx, 0, nil); err != nil {
			t.Fatalf("%v, %v", steps, err)
		}
	}
}

// A model that cannot be learned from the present rows stays as it is, and its description has the reason:
// trees of one label a row, of which some have two now, and models that a tuner makes, of a single row.
func TestMaintainModelsOfUnsuitableRows(t *testing.T) {
	d, _ := dbtest.Changed(t, 300, 4)
	defer d.Close()
	c := d.Collection("d")
	for name, o := range map[string]index.Options{
		"sbt": &index.Trees{Kind: "sbt", Budget: 4}, "pt": &index.Trees{Kind: "pt", Budget: 4},
	} {
		dbtest.Builds(t, d, "d", name, o)
	}
	for i := range 100 {
		dbtest.Relabel(t, d, i, "a", "b")
	}
	_, err := d.Maintain(t.Context(), 0, nil)
	dbtest.Must(t, err)
	info, err := c.Index("sbt")
	if err != nil || !strings.Contains(info.Error, "has 2 labels") || info.Relabelled != 100 {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err = c.Index("pt"); err != nil || info.Error != "" || info.Relabelled != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	dbtest.Must(t, dbtest.Create(t.Context(), d, "one", db.Schema{Sparse: true}))
	x := vector.Sparse{Index: []uint32{1}, Value: []float32{1}}
	dbtest.Must(t, dbtest.Put(d, "one", db.Row{Key: []byte("a"), Sparse: x, Labels: []string{"l"}}))
	for _, o := range []index.Options{&index.LCIF{}, &index.Auto{}} {
		if _, err := d.Collection("one").Build(t.Context(), "m", o, nil); !errors.Is(err, db.ErrUnsuitable) {
			t.Errorf("%T of a row: %v", o, err)
		}
	}
}
