package segment_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Rows whose features have large numbers cost what they hold: builds, steps of
// maintenance, searches, compactions and salvage. What needs numbers for every
// feature is refused.
func TestWideFeatures(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
	if err == nil {
		_, err = d.Create(ctx, "s", db.Schema{Sparse: true})
	}
	dbtest.Must(t, err)
	row := func(i int) db.Row {
		return db.Row{
			Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%2)},
			Sparse: vector.Sparse{Index: []uint32{uint32(i % 2), uint32(3 + i), 1<<26 + 1000*uint32(i)}, Value: []float32{1, 2, 3}},
		}
	}
	put := func(from, to int) {
		t.Helper()
		dbtest.Fill(t, d, "s", from, to, row)
	}
	answers := func() (out string) {
		t.Helper()
		err := d.View(func(s *db.Snapshot) error {
			for i := range 30 {
				want, _, err := dbtest.Nearest(ctx, s.Collection("s"), db.Query{Sparse: row(i).Sparse}, 3, &db.SearchOptions{Index: db.Flat})
				if err != nil {
					return err
				}
				got, _, err := dbtest.Nearest(ctx, s.Collection("s"), db.Query{Sparse: row(i).Sparse}, 3, &db.SearchOptions{Index: "p"})
				if err != nil {
					return err
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("row %d: %v, want %v", i, got, want)
				}
				p, _, err := dbtest.Predict(ctx, s.Collection("s"), db.Query{Sparse: row(i).Sparse}, &db.PredictOptions{Index: "t", Set: true})
				if err != nil {
					return err
				}
				out += fmt.Sprint(p)
			}
			return nil
		})
		dbtest.Must(t, err)
		return out
	}
	used := dbtest.Allocated(func() {
		put(0, 20)
		dbtest.Builds(t, d, "s", "p", &index.Postings{})
		dbtest.Builds(t, d, "s", "t", &index.Trees{Kind: "pt"})
		answers()
		put(20, 30)
		if _, err := d.Maintain(ctx, 0, nil); err != nil {
			t.Fatal(err)
		}
		answers()
		err := d.Update(ctx, func(b *db.Tx) (err error) {
			for i := range 12 {
				err = errors.Join(err, b.Collection("s").Delete(fmt.Append(nil, i)))
			}
			return err
		})
		dbtest.Must(t, err)
		dbtest.Must(t, d.Compact(ctx, nil))
		answers()
		_, err = d.Collection("s").Build(ctx, "l", &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 0.5}}, nil)
		if !errors.Is(err, db.ErrUnsuitable) {
			t.Errorf("label model: %v", err)
		}
		_, err = d.Collection("s").Build(ctx, "w", &index.Trees{Kind: "pt", Weight: "tfidf"}, nil)
		if !errors.Is(err, db.ErrUnsuitable) {
			t.Errorf("weights: %v", err)
		}
	})
	dbtest.Must(t, d.Close())
	info, err := os.Stat(path)
	dbtest.Must(t, err)
	to := filepath.Join(t.TempDir(), "to")
	used += dbtest.Allocated(func() {
		if r, err := rescue.Salvage(ctx, path, to, nil); err != nil || len(r.Indexes) != 2 || r.Rows != 18 {
			t.Errorf("salvage: %+v, %v", r, err)
		}
	})
	if used > 256<<20 || info.Size() > 32<<20 {
		t.Errorf("%d bytes allocated, a file of %d", used, info.Size())
	}
}

// Maintenance leaves an index alone that cannot follow a collection whose feature
// numbers have become too large; other indexes are maintained, and the status says so.
func TestMaintainSkipsWide(t *testing.T) {
	ctx := t.Context()
	d, err := dbtest.Open(ctx, filepath.Join(t.TempDir(), "db"), &db.Options{NoSync: true})
	if err == nil {
		_, err = d.Create(ctx, "s", db.Schema{Sparse: true})
	}
	dbtest.Must(t, err)
	defer d.Close()
	put := func(key string, features ...uint32) {
		t.Helper()
		x := vector.Sparse{Index: features, Value: []float32{1, 2}}
		err := d.Update(ctx, func(b *db.Tx) error {
			return b.Collection("s").Put(db.Row{Key: []byte(key), Labels: []string{fmt.Sprint("l", features[0])}, Sparse: x})
		})
		dbtest.Must(t, err)
	}
	for i := range uint32(20) {
		put(fmt.Sprint(i), i%3, 3+i%4)
	}
	lcif := index.LCIF{Params: &lcif.Params{K: 3, Lambda: 0.5}}
	weighted := lcif
	weighted.Weight = "tfidf"
	skipped := map[string]bool{"lcif": true, "linear": true, "weighted": true, "weights": true}
	for name, o := range map[string]index.Options{
		"postings": nil, "tree": &index.Trees{Kind: "pt"}, "linear": &index.LabelTree{},
		"lcif": &lcif, "weighted": &weighted,
		"weights": &index.Trees{Kind: "pt", Weight: "tfidf"},
	} {
		dbtest.Builds(t, d, "s", name, o)
	}
	for i := range 5 { // more than a fifth, so that trees are retrained
		put(fmt.Sprint("wide", i), 1, 1<<26)
	}
	for _, want := range []int{2, 0} { // at the second call nothing is left to do
		steps, err := d.Maintain(ctx, 0, nil)
		if err != nil || len(steps) != want {
			t.Errorf("steps %+v, want %d: %v", steps, want, err)
		}
	}
	st, err := d.Stats()
	if err != nil || len(st.Indexes) != 6 {
		t.Fatalf("%+v, %v", st.Indexes, err)
	}
	for _, x := range st.Indexes {
		fresh := 0
		if skipped[x.Name] {
			fresh = 5
		}
		if x.Fresh != fresh || strings.Contains(x.Error, "67108865 features") != skipped[x.Name] || !skipped[x.Name] && x.Error != "" {
			t.Errorf("%+v", x)
		}
	}
}
