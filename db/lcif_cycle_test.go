package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// plainModel are the options of a label model that nothing tunes.
func plainModel(neighbors string) index.Options {
	return &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}, Neighbors: neighbors}
}

// redirect writes the manifest of a label model with other neighbors: no build makes such a file.
func redirect(t *testing.T, path, index, neighbors string) {
	t.Helper()
	key := codec.Key(dbtest.Object(t, path, "docs", index), codec.KindManifest, 0)
	dbtest.EditJSON(t, path, key, func(m map[string]any) {
		m["Uses"], m["Options"].(map[string]any)["Neighbors"] = neighbors, neighbors
	})
}

// TestLCIFCycleInFile opens files in which label models name each other, or themselves, as what finds
// their neighbors: they scan, as where there is no such forest.
func TestLCIFCycleInFile(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d, queries, _ := spotDB(t, 300, 0, vector.L2)
			name := func(i int) string { return fmt.Sprint("model ", i%n) }
			for i := range n {
				dbtest.Builds(t, d, "docs", name(i), plainModel(db.Flat))
			}
			want := predictAll(t, d, queries, &db.PredictOptions{Index: name(0)}, 1)
			path := d.Path()
			dbtest.Must(t, d.Close())
			for i := range n {
				redirect(t, path, name(i), name(i+1))
			}
			d, err := db.Open(t.Context(), path, nil)
			dbtest.Must(t, err)
			defer d.Close()
			dbtest.Must(t, d.Check(t.Context(), func(p *db.CorruptError) { t.Log(p) }, nil))
			for i := range n {
				got := predictAll(t, d, queries, &db.PredictOptions{Index: name(i)}, 2)
				if !equalPredictions(got, want) {
					t.Errorf("%s predicts %v, by a scan %v", name(i), got, want)
				}
			}
		})
	}
}

// TestLCIFCycleRefused builds label models in the place of the forest that would
// find their neighbours.
func TestLCIFCycleRefused(t *testing.T) {
	d, queries, _ := spotDB(t, 300, 0, vector.L2)
	build := func(name string, o index.Options) (index.Info, error) {
		return d.Collection("docs").Build(t.Context(), name, o, nil)
	}
	forests := &index.Forest{Trees: 2, LeafNeighbors: 8}
	if _, err := build("b", forests); err != nil {
		t.Fatal(err)
	}
	for _, neighbors := range []string{"", "b"} {
		if _, err := build("b", plainModel(neighbors)); !errors.Is(err, fail.Option) || !strings.Contains(err.Error(), "would replace") {
			t.Errorf("neighbours %q: %v", neighbors, err)
		}
	}
	if _, err := build("new", plainModel("new")); !errors.Is(err, fail.Option) {
		t.Errorf("a model by itself: %v", err)
	}
	_, _, err := dbtest.Nearest(t.Context(), d.Collection("docs"), db.Query{Vector: queries[0].Vector}, 3,
		&db.SearchOptions{Index: "b"})
	if err != nil {
		t.Errorf("the forest is gone: %v", err)
	}
	// With another forest there is no cycle.
	if _, err := build("a", forests); err != nil {
		t.Fatal(err)
	}
	info, err := build("a", plainModel(""))
	if err != nil || info.Options.(*index.LCIF).Neighbors != "b" {
		t.Errorf("neighbours %q: %v", info.Options.(*index.LCIF).Neighbors, err)
	}
}

// TestLCIFCyclePublished makes a cycle by two builds at once, each of which replaces the forest of the
// other: both models scan.
func TestLCIFCyclePublished(t *testing.T) {
	d, queries, truth := spotDB(t, 300, 0, vector.L2)
	for _, name := range []string{"a", "b"} {
		dbtest.Builds(t, d, "docs", name, &index.Forest{Trees: 2, LeafNeighbors: 8})
	}
	var once sync.Once
	rebuildFirst := func(dbtest.Progress) {
		once.Do(func() {
			_, err := d.Collection("docs").Build(t.Context(), "b", plainModel("a"), nil)
			dbtest.Must(t, err)
		})
	}
	_, err := d.Collection("docs").Build(t.Context(), "a", plainModel("b"), dbtest.Reporting(rebuildFirst))
	dbtest.Must(t, err)
	dbtest.Must(t, d.Check(t.Context(), func(p *db.CorruptError) { t.Log(p) }, nil))
	for _, name := range []string{"a", "b"} {
		if p := first(predictAll(t, d, queries, &db.PredictOptions{Index: name}, 1), truth); p < 0.95 {
			t.Errorf("%s: precision %g", name, p)
		}
	}
}

// endingContext ends when it has been asked for its error some times.
type endingContext struct {
	context.Context
	left atomic.Int64
}

func (c *endingContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}

// TestLoadIndexCancelled cancels the first use of an index after every number of
// looks at the context: the next use loads it.
func TestLoadIndexCancelled(t *testing.T) {
	d, queries, _ := spotDB(t, 300, 0, vector.L2)
	dbtest.Builds(t, d, "docs", "trees", &index.Forest{Trees: 2, LeafNeighbors: 8})
	dbtest.Builds(t, d, "docs", "labels", plainModel("trees"))
	path := d.Path()
	dbtest.Must(t, d.Close())
	cancelled := 0
	for n := int64(0); ; n++ {
		d, err := db.Open(t.Context(), path, &db.Options{ReadOnly: true})
		dbtest.Must(t, err)
		s, err := d.Snapshot()
		dbtest.Must(t, err)
		ctx := &endingContext{Context: t.Context()}
		ctx.left.Store(n)
		_, _, first := dbtest.Predict(ctx, s.Collection("docs"), queries[0], nil)
		if first != nil {
			cancelled++
			if !errors.Is(first, context.Canceled) {
				t.Errorf("after %d looks: %v", n, first)
			}
		}
		if _, _, err := dbtest.Predict(t.Context(), s.Collection("docs"), queries[0], nil); err != nil {
			t.Errorf("a load cancelled after %d looks is remembered: %v", n, err)
		}
		s.Release()
		dbtest.Must(t, d.Close())
		if first == nil {
			break
		}
	}
	if cancelled < 10 {
		t.Errorf("the load looked at its context %d times only", cancelled)
	}
}
